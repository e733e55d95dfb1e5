"""What the names of XLA's events mean: on a thread of the host, and on a lane of a device.

TraceMe names of JAX, of TensorFlow and of the runtime below them; whatever is none of these and
carries no place in the runtime's source is a range of the user's.
"""

import re
from enum import StrEnum, auto
from typing import Final

from gapless.formats.roles import is_input
from gapless.model import category as c


class Meaning(StrEnum):
    """What an event is."""

    IGNORED = auto()
    STEP = auto()  # a range that the user marked as a step
    RANGE = auto()  # another range of the user's
    CALL = auto()  # a function that was compiled, called from Python
    PYTHON = auto()
    API = auto()  # CUDA, HIP
    OPERATION = auto()  # of the program, on the host
    INPUT = auto()  # hands over a batch
    STAGE = auto()  # of tf.data: makes batches
    COMPILE = auto()
    COPY = auto()  # to the device
    WAIT = auto()  # for the device
    RUNTIME = auto()  # the runtime at work


_API: Final = re.compile(r"(cuda|hip)[A-Z]\w*|cu[A-Z]\w*")
_CALL: Final = re.compile(r"PjitFunction\(.*|jit\(.*\)|PmapFunction.*|.*:XLA GPU module")
_TF_OP: Final = re.compile(r"(?!\$)[^\s(:]+(::[^\s(:]+)*:(?P<kind>[A-Z_][A-Za-z0-9_]*)")
_INPUT: Final = re.compile(r"IteratorGetNext(AsOptional)?Op::DoCompute.*|IteratorGetNext.*Op")
_STAGE: Final = re.compile(r"Iterator::.*|MapAndBatch(Produce|Consume).*|.*Iterator::Next$")
_COMPILE: Final = re.compile(
    r"(\w+::)*\w*[cC]ompile(?!r\b)\w*\b.*|XlaCompile.*|backend_compile.*|LLVM.*|RunHloPasses"
    r"|.*\bjit_compile\b.*|lower_sharding_computation|.*_lower_.*|GraphConstructor.*|.*HloPass.*"
)
_COPY: Final = re.compile(
    r"DevicePut\w*|.*BufferFromHost\w*|TransferTo(Device|Infeed)\w*|.*Infeed(Enqueue)?.*"
    r"|H2D Dispatch|.*[cC]opyRawToDevice\w*|.*LinearizeInto.*"
)
_WAIT: Final = re.compile(
    r".*Buffer::(Await|BlockHostUntilReady|GetReadyFuture|ToLiteral\w*)\w*|BlockHostUntilDone"
    r"|.*[bB]lock_?[uU]ntil_?[rR]eady|.*Await\b.*|TransferFromDevice\w*|D2H.*|np\.asarray\(jax.*"
)
_RUNTIME: Final = re.compile(
    r"(\w+::)+.*|ExecutorState.*|Eager\w+.*|TFE_\w+|FunctionRun|KernelAndDevice.*"
    r"|ValidateInputTypeAndPlacement|convert_to_tensor|ParseArguments|CommonPjRt\w+.*"
    r"|Wait for .* holds|Handle input.*|AllocateOutputBuffers\w*|Execute\w*|RecordUsage|RunAsync"
    r"|Memory(Allocation|Deallocation)|ThenExecuteCallback|Thunk\w*.*|end: .*|.* linkage"
    r"|PJRT_\w+.*|GetOrCreate\w+|ScheduleLoop|InstantiatedCapturedFunction.*|Executor\w+"
    r"|cpp_pjit\w*|\w*Semaphore\w*|shard_args?|CheckArgs.*|Schedul\w+.*|BFC\w*.*|Prepare\w*|Launch\w*"
    r"|ArrayImpl\..*|(Xla)?(Del|L)inearize\w*|ParallelTranspose|MapDmaBuffer|ReadSyncFlag"
    r"|CompleteCallbacks"
)
_SUFFIX: Final = re.compile(r"(\.clone)?(\.\d+)+(\.kd)?$|\.kd$")
_MAX_LETTERS: Final = 1000  # of a name that are looked at
_INLINE_PYTHON: Final = "$"
_STREAM: Final = re.compile(r"Stream #(?P<number>\d+)")
_COPY_NAMES: Final = (
    ("HtoD", re.compile(r"(?i)memcpy_?h(2|to)d|kind:(htod|h2d)")),
    ("DtoH", re.compile(r"(?i)memcpy_?d(2|to)h|kind:(dtoh|d2h)")),
    ("PtoP", re.compile(r"(?i)memcpy_?p(2|to)p|kind:(ptop|p2p)")),
    ("DtoD", re.compile(r"(?i)memcpy_?d(2|to)d|kind:(dtod|d2d)")),
)
_COPY_ANY: Final = re.compile(r"(?i)memcpy")
_MEMSET: Final = re.compile(r"(?i).*memset")
_HLO: Final = re.compile(r"%([\w.-]+)( = .*)?")  # a TPU's operations: their text in HLO
_CONTAINER: Final = re.compile(r"(while|conditional|call|fusion_call)(\.\d+)?\b.*")
_INFEED: Final = re.compile(r"(infeed|recv|host-?transfer)(-start|-done)?(\.\d+)?\b.*")
_OUTFEED: Final = re.compile(r"(outfeed|send)(-start|-done)?(\.\d+)?\b.*")
_TRANSFERS: Final = (
    (c.MEMSET, _MEMSET, ""),
    (c.MEMCPY, _INFEED, " HtoD"),
    (c.MEMCPY, _OUTFEED, " DtoH"),
)
_TPU_LANES: Final = frozenset({"XLA Ops"})


def meaning_of(name: str, *, is_step: bool, is_operation: bool, has_source: bool) -> Meaning:
    """Return what an event on a thread is.

    ``is_step`` and ``is_operation``: its statistics have a step number, an operation of XLA;
    ``has_source``: they name a place in the runtime's source.
    """
    name = name[:_MAX_LETTERS]
    if name.startswith(_INLINE_PYTHON):
        return Meaning.PYTHON
    if is_step:
        return Meaning.STEP
    if is_operation and not _API.fullmatch(name):
        return Meaning.IGNORED if name.startswith("end: ") else Meaning.OPERATION
    for meaning, pattern in _MEANINGS:
        if pattern.fullmatch(name):
            return meaning
    if has_source:
        return Meaning.RUNTIME
    return Meaning.INPUT if is_input(name) else Meaning.RANGE


_MEANINGS: Final = (
    (
        Meaning.IGNORED,
        re.compile(
            r"an event whose name is lost|ThreadpoolListener::.*|end: .*|.* linkage"
            r"|Memory\w*location"
        ),
    ),
    (Meaning.API, _API),
    (Meaning.CALL, _CALL),
    (Meaning.INPUT, _INPUT),
    (Meaning.STAGE, _STAGE),
    (Meaning.OPERATION, _TF_OP),
    (Meaning.COMPILE, _COMPILE),
    (Meaning.COPY, _COPY),
    (Meaning.WAIT, _WAIT),
    (Meaning.RUNTIME, _RUNTIME),
)


def operation_name(name: str) -> str:
    """Return the kind of an operation: of "dot.5" dot, of "dense/MatMul:MatMul" MatMul."""
    match = _TF_OP.fullmatch(name)
    return match["kind"] if match is not None else _SUFFIX.sub("", name) or name


def call_name(name: str) -> str:
    """Return the function that a call of the device's interface was.

    XLA names calls on an NVIDIA device after what they start ("gemm_fusion_dot_7", "MemcpyH2D"),
    or adds which graph it was ("cuGraphLaunch (CudaGraph:17)"); only these have correlation ids.
    """
    function = name.partition(" ")[0]
    if _API.fullmatch(function):
        return function
    if _COPY_ANY.match(name):
        return "cuMemcpyAsync"
    return "cuMemsetAsync" if _MEMSET.match(name) else "cuLaunchKernel"


def stream_of(plane: str, line: str, number: int) -> int:
    """Return the stream of a device's line, by its name, else its number; −1 if it is derived."""
    match = _STREAM.match(line)
    if match is not None:
        return int(match["number"][:18])
    return number if line in _TPU_LANES and "TPU" in plane else -1


def device_event(name: str, details: str) -> tuple[int, str] | None:
    """Return category and name of what a device did; ``None`` for what holds other events."""
    hlo = _HLO.fullmatch(name)
    name = name if hlo is None else hlo[1]
    if _CONTAINER.fullmatch(name):
        return None
    plain_name = _SUFFIX.sub("", name) or name
    if _COPY_ANY.search(name) or _COPY_ANY.search(details):
        text = f"{name} {details}"
        directions = [direction for direction, pattern in _COPY_NAMES if pattern.search(text)]
        return c.MEMCPY, f"Memcpy {directions[0]} ({_ends(details)})" if directions else name
    for category, pattern, direction in _TRANSFERS:
        if pattern.match(name):
            return category, f"{plain_name}{direction}"
    return c.KERNEL, plain_name


def _ends(details: str) -> str:
    lower = details.lower()
    source = "Pageable" if "kind_src:pageable" in lower else "Pinned"
    if "kind_src:" not in lower:
        source = "Unknown"
    return f"{source} -> Device" if "kind_dst:device" in lower else f"{source} -> Unknown"
