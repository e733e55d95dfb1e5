"""What class of work keeps a device busy, by kernel and operator (docs: the account, 4)."""

import re
from collections.abc import Set as AbstractSet

import numpy as np
from msgspec import Struct

from gapless.accounting.charges import Bool
from gapless.accounting.device.activities import Activities
from gapless.accounting.host.inputs import OperatorInputs, operator_inputs
from gapless.accounting.host.threads import Threads
from gapless.model import category
from gapless.model.leaf import LEAF
from gapless.model.trace import Int64, Trace

CLIPS = re.compile(r"clip_grad|_amp_foreach_non_finite|_amp_update_scale|grad_scaler\.py")
ZERO_GRAD = re.compile(r"^Optimizer\.zero_grad#")
NORM_OPERATOR = "aten::_foreach_norm"
LAYOUT_OPERATORS = frozenset({"aten::contiguous", "aten::clone", "aten::copy_"})
CAST_OPERATORS = frozenset({"aten::to", "aten::_to_copy", "aten::copy_"})
MATH_OPERATOR = re.compile(
    r"convolution|conv\dd|::_?(scaled_)?(add|badd)?b?mm(_|$)|::(linear|matmul|einsum)$"
    r"|scaled_dot_product|_attention_(forward|backward)"
    # of TensorFlow, of XLA
    r"|^(_Fused|Batch|Sparse)*MatMul(V\d)?$|^Conv\dD|^Einsum$|^dot(_general)?(_\w+)?$"
    r"|^(convolution|custom-call_gemm|(\w+_)?(dot|gemm|conv)_fusion)"
)
BY_NAME = tuple(
    (leaf, re.compile(pattern))
    for leaf, pattern in (
        (
            "busy.norm_reduce",
            (
                r"(?i)batch_?norm|bn_[fb]w|layer_?norm|rms_?norm|group_?norm|softmax|reduce_kernel"
                r"|cub::(?!.*sort)|mean|sum|GammaBeta|pool|_loss|triton_(red|per)"
                r"|^(wrapped_|loop_|input_)*reduce"
            ),
        ),
        ("busy.index", r"(?i)index|gather|scatter|embedding|sort|topk|unique|nonzero"),
        ("busy.rng", r"(?i)distribution_|philox|dropout|threefry|rng_"),
        (
            "busy.elementwise",
            r"(?i)elementwise|vectorized|triton_poi|_fusion(_\d+)?$|^wrapped_|^fusion",
        ),
    )
)
_OPTIMIZER = re.compile(r"multi_tensor_apply|fused_adam")
_XLA = r"^(wrapped_|loop_|input_)*"  # how XLA names a fused kernel: by its form, then what it does
_MEMORY = re.compile(rf"CatArray|FillFunctor|{_XLA}(copy|broadcast|concatenate|pad)")
_LAYOUT = re.compile(
    rf"nchwToNhwc|nhwcToNchw|transposeNCHW|convertTensor_kernel|im2col|{_XLA}transpose"
)
_CAST = re.compile(rf"{_XLA}convert")
_TENSOR_CORE = re.compile(
    r"tensorop|hmma|16816|[hs]1688|[hs]884|gmma|nvjet|flash|fmha|xmma_.*(tf32|f16|bf16|e4m3)"
)
_FP32 = re.compile(r"ffma|simt|sgemm|dgemm")
_YET_TENSOR_CORE = re.compile(r"tf32|s1688")
_PROBE = re.compile(r"^gapless:(?!(iter|save|logging|eval|gc)$)")  # those are the training's own
_MATH_KERNEL = re.compile(r"gemm|gemv|splitKreduce|conv(?!ert)|^dot(_|$)|Cijk_")
_TENSOR_CORES_SINCE = (7, 0)


def classify_activities(threads: Threads, acts: Activities) -> tuple[Int64, Int64]:
    """Return the busy leaf of each compute activity.

    Also return why tensor cores were not used (→ WHYS) where they could have been.
    """
    events = threads.trace.events
    op_inputs = operator_inputs(threads.trace)
    detail = np.where(acts.operator >= 0, events.detail[acts.operator], -1)
    leaf = np.full(len(acts), LEAF["busy.other"])
    for name, is_match in reversed(
        _leaf_tests(threads, acts, op_inputs, detail)
    ):  # the first that matches wins
        leaf[is_match] = LEAF[name]
    eligible = leaf == LEAF["busy.tc_eligible_not_used"]
    has_cores = _has_tensor_cores(threads.trace, acts)
    leaf[eligible & ~has_cores] = LEAF["busy.math"]
    return leaf, np.where(eligible & has_cores, op_inputs.why[detail], 0)


def _leaf_tests(
    threads: Threads, acts: Activities, op_inputs: OperatorInputs, detail: Int64
) -> list[tuple[str, Bool]]:
    """Return the tests in the order of the table of the account's section 4."""
    kinds = threads.trace.events.category[acts.event]
    kernel, operator = (
        EventNames(threads.trace, acts.event),
        EventNames(threads.trace, acts.operator),
    )
    in_optimizer = threads.is_stepping(acts.thread, acts.call_start)
    is_move = np.isin(kinds, (category.MEMSET, category.MEMCPY))
    clips = operator.is_in({NORM_OPERATOR}) & ~in_optimizer
    tensor_core = kernel.matches(_TENSOR_CORE)
    tensor_core &= ~kernel.matches(_FP32) | kernel.matches(_YET_TENSOR_CORE)
    math = operator.matches(MATH_OPERATOR) | ((acts.operator < 0) & kernel.matches(_MATH_KERNEL))
    restrided = operator.is_in(LAYOUT_OPERATORS) & op_inputs.restrided[detail]
    return [
        ("busy.profiler", _is_within(threads, acts, _PROBE)),
        ("busy.gradclip_scaler", clips | _is_within(threads, acts, CLIPS)),
        ("busy.optimizer", in_optimizer | kernel.matches(_OPTIMIZER)),
        ("busy.zero_grad", _is_within(threads, acts, ZERO_GRAD)),
        ("busy.mem", is_move | kernel.matches(_MEMORY)),
        ("busy.layout", restrided | kernel.matches(_LAYOUT)),
        (
            "busy.cast",
            (operator.is_in(CAST_OPERATORS) & op_inputs.recast[detail]) | kernel.matches(_CAST),
        ),
        ("busy.tc_math", tensor_core),
        ("busy.tc_eligible_not_used", math),
        *((leaf, kernel.matches(pattern)) for leaf, pattern in BY_NAME),
    ]


def _is_within(threads: Threads, acts: Activities, pattern: re.Pattern[str]) -> Bool:
    """Return whether an activity was launched inside a frame or range whose name matches."""
    return threads.is_within(pattern, acts.thread, acts.call_start)


class EventNames(Struct, frozen=True):
    """Events (−1: none) to be tested by name; each distinct name is looked at once."""

    trace: Trace
    event: Int64

    def matches(self, pattern: re.Pattern[str]) -> Bool:
        """Return whether the name of each event matches."""
        return self._select_events([pattern.search(name) is not None for name in self.trace.names])

    def is_in(self, names: AbstractSet[str]) -> Bool:
        """Return whether the name of each event is one of some."""
        return self._select_events([name in names for name in self.trace.names])

    def _select_events(self, name_flags: list[bool]) -> Bool:
        names = np.array([*name_flags, False], bool)
        return names[np.where(self.event >= 0, self.trace.events.name[self.event], -1)]


def _has_tensor_cores(trace: Trace, acts: Activities) -> Bool:
    """Return whether a device is known to have tensor cores that kernel names speak of.

    That is NVIDIA since Volta; names of other vendors' kernels do not show it.
    """
    capable_devices = {
        device.index
        for device in trace.devices
        if (device.compute_capability or (0, 0)) >= _TENSOR_CORES_SINCE
        and not (device.name or "").startswith("AMD")
    }
    return np.isin(acts.device, sorted(capable_devices))
