"""Switches for debugging that are on."""

from collections.abc import Callable
from typing import Final

from gapless.doctor.answers import CheckAnswer, bad, ok, warn
from gapless.doctor.subject import CheckSubject

IsOn = Callable[[str], bool]


def _is_set(value: str) -> bool:
    return value.strip().lower() not in {"", "0", "false", "off", "no"}


def _is_off(value: str) -> bool:
    return value == "0"


def _is_chatty(value: str) -> bool:
    return value.upper() in {"INFO", "TRACE", "ABORT", "DETAIL"}


def _is_debug_malloc(value: str) -> bool:
    return value.endswith("debug") or value == "malloc"


# name: when it is on, whether it costs much, what it does
_SWITCHES: Final[dict[str, tuple[IsOn, bool, str]]] = {
    "CUDA_LAUNCH_BLOCKING": (_is_set, True, "each launch waits for its kernel"),
    "PYTORCH_NO_CUDA_MEMORY_CACHING": (_is_set, True, "each tensor is allocated by the driver"),
    "PYTHONMALLOC": (_is_debug_malloc, True, "Python checks its own memory"),
    "TORCH_DISTRIBUTED_DEBUG": (_is_chatty, True, "collectives are checked between ranks"),
    "TORCH_SHOW_CPP_STACKTRACES": (_is_set, False, "stacks are taken for each error"),
    "NCCL_DEBUG": (_is_chatty, False, "NCCL writes its log"),
    "TORCH_CPP_LOG_LEVEL": (_is_chatty, False, "torch writes its log"),
    "PYTHONDEVMODE": (_is_set, True, "Python checks itself"),
    "PYTHONTRACEMALLOC": (_is_set, True, "a stack is taken for each allocation"),
    "PYTHONASYNCIODEBUG": (_is_set, False, "asyncio checks itself"),
    "MALLOC_CHECK_": (_is_set, True, "the C library checks its memory"),
    "MALLOC_PERTURB_": (_is_set, True, "the C library overwrites freed memory"),
    "TORCHDYNAMO_DISABLE": (_is_set, False, "torch.compile does nothing"),
    "TORCH_COMPILE_DEBUG": (_is_set, False, "torch.compile writes all that it makes"),
    "PYTORCH_JIT": (_is_off, False, "TorchScript does nothing"),
    "CUDA_INJECTION64_PATH": (_is_set, False, "a profiler is loaded into each CUDA program"),
}


def examine(subject: CheckSubject) -> CheckAnswer:
    """Look for switches in the environment that help in debugging, and cost speed all the time."""
    on = {
        name: switch
        for name, switch in _SWITCHES.items()
        if switch[0](subject.environment.get(name, ""))
    }
    if not on:
        return ok("none is set")
    words = "; ".join(
        f"{name}={subject.environment[name]}: {effect}" for name, (_, _, effect) in on.items()
    )
    is_costly = any(costly for _, costly, _ in on.values())
    return (bad if is_costly else warn)(words, f"unset {' '.join(on)}")
