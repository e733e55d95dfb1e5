"""Settings in the environment of a training."""

import re
from collections.abc import Callable
from typing import Final

from gapless.doctor.answers import CheckAnswer, bad, ok, unknown, warn
from gapless.doctor.host.processors import count_usable
from gapless.doctor.subject import CheckSubject

IsOn = Callable[[str], bool]
_DETERMINISM_SWITCHES: Final = {
    "CUBLAS_WORKSPACE_CONFIG": (None, "products may use less memory, and slower ways"),
    "NVIDIA_TF32_OVERRIDE": ("0", "no product of float32 uses tensor cores"),
}
_NAMES: Final = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
_HOST_NAMES: Final = ("LD_PRELOAD", "MALLOC_CONF", "MALLOC_ARENA_MAX", "THP_MEM_ALLOC_ENABLE")
_SPLIT: Final = re.compile(r"max_split_size_mb\s*:\s*(\d+)")
_SMALL_SPLIT_MB: Final = 64  # max_split_size_mb below it leaves most blocks unused
_COUNTS: Final = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
_BINDINGS: Final = {
    "OMP_PROC_BIND": ("true", "close", "spread", "master"),
    "GOMP_CPU_AFFINITY": (),
    "KMP_AFFINITY": (),
}


def _is_set(value: str) -> bool:
    return value.strip().lower() not in {"", "0", "false", "off", "no"}


def _is_off(value: str) -> bool:
    return value == "0"


def _is_chatty(value: str) -> bool:
    return value.upper() in {"INFO", "TRACE", "ABORT", "DETAIL"}


def _is_debug_malloc(value: str) -> bool:
    return value.endswith("debug") or value == "malloc"


# name: when it is on, whether it costs much, what it does
_DEBUG_SWITCHES: Final[dict[str, tuple[IsOn, bool, str]]] = {
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


def examine_debug_switches(subject: CheckSubject) -> CheckAnswer:
    """Look for switches in the environment that help in debugging, and cost speed all the time."""
    on = {
        name: switch
        for name, switch in _DEBUG_SWITCHES.items()
        if switch[0](subject.environment.get(name, ""))
    }
    if not on:
        return ok("none is set")
    words = "; ".join(
        f"{name}={subject.environment[name]}: {effect}" for name, (_, _, effect) in on.items()
    )
    is_costly = any(costly for _, costly, _ in on.values())
    return (bad if is_costly else warn)(words, f"unset {' '.join(on)}")


def examine_determinism(subject: CheckSubject) -> CheckAnswer:
    """Look for determinism and precision switches in the environment.

    They are right where a run must be repeated to the bit, and often stay set after that.
    """
    on = {
        name: effect
        for name, (value, effect) in _DETERMINISM_SWITCHES.items()
        if name in subject.environment and value in (None, subject.environment[name])
    }
    if not on:
        return ok("none is set")
    words = "; ".join(
        f"{name}={subject.environment[name]}: {effect}" for name, effect in on.items()
    )
    return warn(words, f"unset {' '.join(on)}, unless runs must repeat to the bit")


def examine_allocator(subject: CheckSubject) -> CheckAnswer:
    """Look at the settings of torch's allocator, and at the allocator of the host.

    Small ``max_split_size_mb`` and a low ``garbage_collection_threshold`` give memory back to the
    driver all the time; ``expandable_segments:True`` fights fragmentation at less cost.
    """
    environment = subject.environment
    settings = {name: environment[name] for name in _NAMES if environment.get(name)}
    host = {name: environment[name] for name in _HOST_NAMES if environment.get(name)}
    words = ", ".join(f"{name}={value}" for name, value in {**settings, **host}.items())
    for name, value in settings.items():
        split = _SPLIT.search(value)
        if split is not None and int(split[1]) < _SMALL_SPLIT_MB:
            evidence = f"{words}: blocks of more than {split[1]} MB are never reused in part"
            return warn(evidence, f"export {name}=expandable_segments:True")
    return ok(words or "torch's and the C library's defaults")


def examine_threads(subject: CheckSubject) -> CheckAnswer:
    """Compare thread counts with the processors that can be used.

    More threads than processors wait for one another; bound threads hand their binding on to
    loader workers, which then share one core.
    """
    usable = count_usable(subject)
    if usable is None:
        return unknown("this system does not say which processors a process may use")
    environment = subject.environment
    counts = {name: environment[name] for name in _COUNTS if environment.get(name)}
    words = ", ".join(f"{name}={value}" for name, value in counts.items()) or "no count is set"
    facts = subject.interpreter.facts
    if facts is not None and facts.threads is not None:
        words += f"; torch starts {facts.threads} threads"
    words += f" for {usable} processors"
    set_counts = [int(value) for value in counts.values() if value.isdecimal()]
    n_threads = [*set_counts, *([facts.threads] if facts is not None and facts.threads else [])]
    if any(count > usable for count in n_threads):
        return warn(f"{words}: they wait for one another", f"export OMP_NUM_THREADS={usable}")
    bound = [name for name in _BINDINGS if _is_bound(name, environment.get(name, ""))]
    if bound:
        evidence = f"{words}; {', '.join(bound)} binds threads, and loader workers inherit it"
        return warn(evidence, f"unset {' '.join(bound)}")
    if 1 in set_counts and usable > 1 and not subject.survey.gpus:
        evidence = f"{words}: one computes, without a GPU"
        return warn(evidence, f"export OMP_NUM_THREADS={usable}")
    return ok(words)


def _is_bound(name: str, value: str) -> bool:
    """Return whether a variable binds threads to processors."""
    if not value or value.lower() in {"false", "none", "disabled"}:
        return False
    return not _BINDINGS[name] or value.lower() in _BINDINGS[name]
