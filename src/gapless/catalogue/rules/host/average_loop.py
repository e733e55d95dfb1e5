"""A moving average of the weights, kept up parameter by parameter."""

from collections.abc import Iterator, Mapping
from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import optimizer_steps, windows
from gapless.catalogue.queries.between_operators import PYTHON
from gapless.catalogue.queries.parameters import averages
from gapless.catalogue.queries.parameters.averages import covers_tensors_once, find_averaging
from gapless.catalogue.queries.samples import is_function_of
from gapless.catalogue.rules.host.clip_loop import NORM_OPERATOR
from gapless.model.change import Change, HostChange, Omit
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure

_MIN_PARAMETERS: Final = 10  # parameters
_MIN_TENSOR_SHARE: Final = 0.9
_LERP: Final = "aten::lerp_"
_MUL: Final = "aten::mul_"
_ADD: Final = "aten::add_"
# Of seven passes over all weights: a blend reads two and writes one. On a CPU that takes the time.
_REMAINS: Final = 3 / 7
_LEAST_WALKING: Final = 0.5  # of the Python of an averaging function that goes at least
# How often a step of a looping optimizer scales a tensor of each parameter, and blends one.
_SCALES_BY_CLASS: Final = {"Adam": 1, "SGD": 1, "RMSprop": 1, "Adagrad": 0}
_MAX_SCALES: Final = 2  # of AdamW, and of unknown optimizers
_BLENDING_CLASSES: Final = ("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "RMSprop")


@rule(
    "G207",
    "average-loop",
    figures="""
    # slow.mul_(0.999).add_(weight, alpha=0.001)
    > Beside the optimizer, 161 parameters are averaged one by one in each step; the host spends 4.0
      ms a step on that.
    gpu()
    busy.tc_math 20, idle.host.dispatch 3
    operator(_MUL, calls=161, host_ms=2, device_ms=0.4)
    operator(_ADD, calls=165, host_ms=2.05, device_ms=0.4)
    operator("aten::_foreach_addcdiv_", calls=1, host_ms=0.1, device_ms=0.5)
    # An AdamW that loops, on a CPU, and nothing else
    cpu()
    busy.math 20, busy.optimizer 5
    operator("Optimizer.step#AdamW.step", calls=1, host_ms=5)
    operator(_MUL, calls=322, host_ms=2), operator(_ADD, calls=322, host_ms=1)
    operator(_LERP, calls=161, host_ms=1)
    # The same, and an average
    > Beside the optimizer, 161 parameters are averaged one by one in each step; the host spends 1.5
      ms a step on that.
    cpu()
    busy.math 20, busy.optimizer 5, busy.elementwise 2
    operator("Optimizer.step#AdamW.step", calls=1, host_ms=5)
    operator(_MUL, calls=483, host_ms=3), operator(_ADD, calls=483, host_ms=1.5)
    operator(_LERP, calls=161, host_ms=1)
    # A recurrent layer, which goes through its sequence in place
    cpu()
    busy.math 20, busy.optimizer 5, busy.elementwise 2
    operator("aten::_fused_adamw_", calls=1, host_ms=2), operator(_MUL, calls=1610, host_ms=3)
    operator(_ADD, calls=1610, host_ms=3)
    # average = 0.999 * average + 0.001 * weight, on a CPU
    > Beside the optimizer, 161 parameters are averaged one by one in each step; the host spends 3.3
      ms a step on that.
    cpu()
    busy.math 20, busy.elementwise 6
    operator("aten::_fused_adamw_", calls=1, host_ms=2)
    operator(averages.MUL, calls=350, host_ms=2.4), operator(averages.ADD, calls=200, host_ms=1.3)
    Site(averages.MUL, "train.py", 20, "update", 2_200_000, 322)
    Site(averages.ADD, "train.py", 20, "update", 1_000_000, 161)
    # Over state_dict(), sampled in a function of its own: its Python goes, too
    > Beside the optimizer, 161 parameters are averaged one by one in each step; the host spends 3.3
      ms a step on that.
    cpu()
    busy.math 20, busy.elementwise 6, idle.host.python 6
    operator("aten::_fused_adamw_", calls=1, host_ms=2)
    operator(averages.MUL, calls=350, host_ms=2.4), operator(averages.ADD, calls=200, host_ms=1.3)
    Site(averages.MUL, "train.py", 20, "update", 2_200_000, 322)
    Site(averages.ADD, "train.py", 20, "update", 1_000_000, 161)
    HostCode("python", 0.1, 0.8, "/a/train.py", 24, "Average.update", None, 0.1, 400)
    # Over state_dict(), in the loop that trains
    > Beside the optimizer, 161 parameters are averaged one by one in each step; the host spends 3.3
      ms a step on that.
    cpu()
    busy.math 20, busy.elementwise 6
    operator("aten::_fused_adamw_", calls=1, host_ms=2)
    operator(averages.MUL, calls=350, host_ms=2.4), operator(averages.ADD, calls=200, host_ms=1.3)
    Site(averages.MUL, "train.py", 20, "main", 2_200_000, 322)
    Site(averages.ADD, "train.py", 20, "main", 1_000_000, 161)
    Site("aten::detach", "train.py", 20, "main", 100_000, 322)
    Site("autograd::engine::evaluate_function: X", "train.py", 20, "main", 9, 9)
    # average.copy_(average * 0.999 + weight * 0.001), in windows without stacks
    > Beside the optimizer, 161 parameters are averaged one by one in each step; the host spends 3.3
      ms a step on that.
    cpu()
    busy.math 20, busy.elementwise 6
    operator("aten::_fused_adamw_", calls=1, host_ms=2)
    operator(averages.MUL, calls=350, host_ms=2.4), operator(averages.ADD, calls=200, host_ms=1.3)
    operator(averages.COPY, calls=180, host_ms=0.4)
    operator("aten::_to_copy", calls=10, host_ms=0.1)
    # As many multiplications without stacks, and copies of other formats alone
    cpu()
    busy.math 20, busy.elementwise 6
    operator("aten::_fused_adamw_", calls=1, host_ms=2)
    operator(averages.MUL, calls=350, host_ms=2.4), operator(averages.ADD, calls=200, host_ms=1.3)
    operator(averages.COPY, calls=180, host_ms=0.4)
    operator("aten::_to_copy", calls=170, host_ms=0.5)
    # A function that computes derivatives, by the chain rule
    cpu()
    busy.math 20, busy.elementwise 6
    operator(averages.MUL, calls=350, host_ms=2.4), operator(averages.ADD, calls=200, host_ms=1.3)
    Site(averages.MUL, "train.py", 20, "main", 2_200_000, 322)
    Site(averages.ADD, "train.py", 20, "main", 1_000_000, 161)
    Site("autograd::engine::evaluate_function: X", "train.py", 20, "main", 9, 9)
    # New tensors for each, those of batch norm's buffers, too, in three steps of windows
    > Beside the optimizer, 161 parameters are averaged one by one in each step; the host spends 3.2
      ms a step on that.
    cpu()
    busy.math 20, busy.elementwise 6
    operator(averages.MUL, calls=480, host_ms=3.3), operator(averages.ADD, calls=240, host_ms=1.5)
    Site(averages.MUL, "ema.py", 9, "update", 6_600_000, 960)
    Site(averages.ADD, "ema.py", 9, "update", 3_000_000, 480)
    # As many, in the layers of a model
    cpu()
    busy.math 20, busy.elementwise 6
    operator(averages.MUL, calls=350, host_ms=2.4), operator(averages.ADD, calls=200, host_ms=1.3)
    Site(averages.MUL, "train.py", 20, "forward", 2_200_000, 350)
    Site(averages.ADD, "train.py", 20, "forward", 1_000_000, 200)
    # All at once, on a CPU: torch itself loops over them there
    cpu()
    busy.math 20, busy.optimizer 5, busy.elementwise 2
    operator("aten::_fused_adamw_", calls=1, host_ms=2)
    operator("aten::_foreach_lerp_", calls=1, host_ms=1.2), operator(_LERP, calls=161, host_ms=1)
    """,
)
def average_loop(evidence: Evidence) -> Detection | None:
    """Recognise a moving average of the weights that is updated tensor by tensor.

    ## Why it costs time
    One or two launches for each parameter, in each step. ``torch._foreach_lerp_`` updates them all
    in a few kernels, and an average that is updated every tenth step hardly differs.

    ## How it is measured
    By operators that change tensors in place, as many as there are parameters, beyond those of the
    optimizer itself, of clipping, and on a CPU of ``torch._foreach_…``, which there loops over the
    tensors. For an average that makes new tensors (``d * average + (1 - d) * weight``): by a
    function of the user's that multiplies twice and adds once for each parameter, as stacks show;
    without stacks, if as many tensors are copied into existing ones. So it is inferred. Where that
    function was sampled, half to all of its Python goes with the loop.
    """
    count = optimizer_steps.count_tensors(evidence)
    if count is None or count < _MIN_PARAMETERS:
        return None
    kind = optimizer_steps.class_name(evidence.facts.optimizers[0])
    is_loop = optimizer_steps.find_way(evidence) == "loop"
    scales = _SCALES_BY_CLASS.get(kind, _MAX_SCALES) if is_loop else 0
    scales += windows.sum_calls(evidence, NORM_OPERATOR).count >= _MIN_TENSOR_SHARE * count
    mul_calls, add_calls, lerp_calls = (
        windows.sum_calls(evidence, name) for name in (_MUL, _ADD, _LERP)
    )
    scales += _foreach_calls(evidence, _MUL)
    blends = (1 if is_loop and kind in _BLENDING_CLASSES else 0) + _foreach_calls(evidence, _LERP)
    if covers_tensors_once(lerp_calls.count - blends * count, count):
        loop_calls = {_LERP: lerp_calls}
    elif (
        covers_tensors_once(mul_calls.count - scales * count, count)
        and add_calls.count >= _MIN_TENSOR_SHARE * count
    ):
        loop_calls = {_MUL: mul_calls, _ADD: add_calls}
    elif locations := find_averaging(evidence, count):
        return _loop_detection(
            evidence, count, {averages.MUL: 2 * count, averages.ADD: count}, *locations
        )
    else:
        return None
    return _loop_detection(evidence, count, dict.fromkeys(loop_calls, count))


def _loop_detection(
    evidence: Evidence, count: int, calls: Mapping[str, int], *locations: Location | None
) -> Detection:
    """Return the detection of a loop that makes so many calls of some operators in a step.

    ``locations``: of an average that makes new tensors, if known.
    """
    shares = {
        name: min(1.0, n / windows.sum_calls(evidence, name).count) for name, n in calls.items()
    }
    spent_ns = sum(
        windows.sum_calls(evidence, name).host_ns * share for name, share in shares.items()
    )
    remaining_share = _REMAINS if locations and not evidence.on_device else 0.0
    changes: list[Change] = [
        Omit((name,), keep=1 - (1 - remaining_share) * share) for name, share in shares.items()
    ]
    changes += [change for location in locations for change in _walking(evidence, location)]
    return average_loop.detection(
        f"Beside the optimizer, {count} parameters are averaged one by one in each step; the host "
        f"spends {windows.ms(spent_ns)} a step on that.",
        *changes,
        location=next(iter(locations), None),
        measures=(Measure("parameters", count, ""), Measure("on the host, a step", spent_ns, "ns")),
        no_remedy=(
            "torch._foreach_lerp_(averages, weights, 0.001) updates all at once "
            "(torch.optim.swa_utils.get_ema_multi_avg_fn does); or update only every n-th step"
        ),
        inferred=True,
    )


def _walking(evidence: Evidence, location: Location | None) -> Iterator[Change]:
    """Yield what goes of the Python that walks through the tensors, where samples show it.

    Going through ``state_dict()`` and loading it again takes more of it than calling operators.
    Updating all at once needs some of it still.
    """
    python_ns = evidence.account.leaves.get(PYTHON, 0)
    if location is None or not python_ns:
        return
    share = sum(
        code.share * code.inside
        for code in evidence.host_code
        if code.kind == "python" and is_function_of(location.file, location.function or "", code)
    )
    removed_share = min(1.0, share * evidence.account.wall_ns / python_ns)
    if removed_share:
        least_kept, most_kept = (1 - part * removed_share for part in (1.0, _LEAST_WALKING))
        yield HostChange((PYTHON,), Estimate(least_kept, (least_kept + most_kept) / 2, most_kept))


def _foreach_calls(evidence: Evidence, name: str) -> float:
    """Return how often torch calls an operator per tensor for one call on all of them.

    On devices there are kernels for many tensors; on a CPU there is a loop in C++.
    """
    if evidence.on_device:
        return 0.0
    return windows.sum_calls(evidence, name.replace("::", "::_foreach_")).count
