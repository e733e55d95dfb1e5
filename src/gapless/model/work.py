"""What calls of operators had to compute and to move, and the time that a device took for it."""

from msgspec import Struct


class Work(Struct, frozen=True):
    """Kernels of one class, launched by calls of one operator with one set of inputs.

    Of the counted steps together. ``flops`` and ``bytes`` follow from the inputs alone: what any
    implementation must do at least; ``None`` where no formula knows the operator, or the inputs
    were not recorded. Without a device: the operator's own host time.
    """

    operator: str
    inputs: str | None  # sizes: "[4096, 768] [768, 2304]"
    dtype: str | None  # of the tensors that it computes with: "fp32", "bf16", "fp16", "fp64"
    leaf: str  # the busy leaf of the kernels
    kernel: str | None  # that took most of the time; None: without a device
    calls: int  # of the operator
    launches: int  # of such kernels
    ns: int
    flops: float | None
    bytes: float | None
    channels_first: bool | None = None  # images laid out so; None: there are none among the inputs
    backward: bool = False
    again: bool = False  # a forward operator that a checkpoint of activations ran once more
    host_ns: int = 0  # what the host took to come to its launches, each from the one before it


class RankWork(Struct, frozen=True):
    """What a rank had to compute in a step, by the inputs of its operators."""

    rank: int
    flops: float  # of operators that a formula knows
    is_steady: bool  # each step has the same calls with the same inputs, as far as sums show that
