"""Precision, switches that cost time, threads: read at the first step edges, and rarely again.

Read by what torch keeps of its settings: nothing is asked of the device, nothing warns. Torch's
older names for TF32 raise where a script uses the newer ones, so the newer ones are asked first.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any

from ... import wire
from .. import declare, patching, recorder, surroundings
from ..process_state import keep
from ..stacks import locations
from . import calls

_PERIOD_NS = 10_000_000_000  # ns between looks, after the first ones
_LOOKS = (1, 2, 3, 10)
_MAX_SOURCE = 1_000_000  # characters of a script that are looked through
_WATCHING = r"\bset(trace|profile)\(|\btracemalloc\.start\(|\bProfile\(|\bCoverage\("
_ENVIRONMENT = (  # the names that may be written down; no others are
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDA_VISIBLE_DEVICES",
    "GLIBC_TUNABLES",
    "GLOO_SOCKET_IFNAME",
    "GOMP_CPU_AFFINITY",
    "GOMP_SPINCOUNT",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "LD_PRELOAD",
    "MALLOC_ARENA_MAX",
    "MALLOC_MMAP_MAX_",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TOP_PAD_",
    "MALLOC_TRIM_THRESHOLD_",
    "MKL_NUM_THREADS",
    "NCCL_ALGO",
    "NCCL_DEBUG",
    "NCCL_IB_DISABLE",
    "NCCL_IB_HCA",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_P2P_DISABLE",
    "NCCL_PROTO",
    "NCCL_SHM_DISABLE",
    "NCCL_SOCKET_IFNAME",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "OMP_PLACES",
    "OMP_PROC_BIND",
    "OMP_WAIT_POLICY",
    "OPENBLAS_NUM_THREADS",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "TOKENIZERS_PARALLELISM",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "TORCH_CUDNN_V8_API_DISABLED",
    "TORCH_NCCL_BLOCKING_WAIT",
)

_PRELOADED = "LD_PRELOAD"  # holds paths, which are the user's own


class _ProcessSettings:
    """The settings of a process, as a thing that facts can be about."""


_PRECISION, _MACHINE = _ProcessSettings(), _ProcessSettings()


class _Settings:
    """What was seen of mixed precision and anomaly detection, and what was written."""

    def __init__(self) -> None:
        self.autocast: dict[Any, Any] = {}  # device: dtype, of the regions that were entered
        self.is_scaled = False  # by a scaler that is on
        self.anomaly_location: Any = None  # where its detection was switched on last
        self.script_lines: dict[Any, Any] = {}  # by script and what is looked for in it
        self.last_ns = 0
        self.begin()

    def begin(self) -> None:
        """Write everything again: another log begins."""
        self.edges = 0
        self.written: dict[Any, Any] = {}


_settings = keep(_Settings())


@declare.hook("torch")
def _watch_torch(torch: Any) -> None:
    mode = sys.modules.get("torch.amp.autocast_mode")
    if mode is not None:
        patching.replace(mode.autocast, "__enter__", calls.around("autocast", _note_autocast))
    scaler = sys.modules.get("torch.amp.grad_scaler") or sys.modules.get(
        "torch.cuda.amp.grad_scaler"
    )
    mode = sys.modules.get("torch.autograd.anomaly_mode")
    for name in ("detect_anomaly", "set_detect_anomaly") if mode is not None else ():
        owner = getattr(mode, name, None)
        if owner is not None:
            patching.replace(owner, "__init__", calls.around("anomaly", after=_note_anomaly))
    owner = getattr(scaler, "GradScaler", None)
    if owner is not None:
        patching.replace(owner, "__init__", calls.around("scaler", after=_note_scaler))
    del torch


def _note_autocast(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:  # noqa: ARG001 - the form of `around`
    region = args[0]
    if region._enabled and region.device not in _settings.autocast:
        _settings.autocast[region.device] = (str(region.fast_dtype), locations.users_line(1))


def _note_scaler(state: Any, args: tuple[Any, ...], result: Any, raised: Any) -> None:  # noqa: ARG001 - the form of `around`
    if raised is None:
        _settings.is_scaled |= bool(getattr(args[0], "_enabled", True))


def _note_anomaly(state: Any, args: tuple[Any, ...], result: Any, raised: Any) -> None:  # noqa: ARG001 - the form of `around`
    if type(args[0]).__name__ == "detect_anomaly" or sys.modules["torch"].is_anomaly_enabled():
        _settings.anomaly_location = locations.users_line(1)


@declare.at_first
def look_early() -> None:
    """Read the settings as soon as this process is known to train: it may never reach an edge."""
    if "torch" in sys.modules and not recorder.is_worker():
        _look()


@declare.at_seldom_edge
@patching.guard("precision")
def edge(number: int, start: int, end: int) -> None:  # noqa: ARG001 - the form of an edge's action
    """Read the settings at the first edges, then about every ten seconds; write what changed."""
    _settings.edges += 1
    if _settings.edges not in _LOOKS and end - _settings.last_ns < _PERIOD_NS:
        return
    _settings.last_ns = end
    _look()


def _look() -> None:
    torch = sys.modules["torch"]
    _write("precision", _PRECISION, precision(torch))
    _write("machine", _MACHINE, machine(torch))


def _write(noun: Any, entity: Any, values: Any) -> None:
    if _settings.written.get(noun) != values:
        _settings.written[noun] = values
        location = None
        if noun == "precision":
            location = next((location for _, location in _settings.autocast.values()), None)
        recorder.fact(noun, entity, values, location)


def precision(torch: Any) -> Any:
    """Return the settings that decide how and how exactly torch computes."""
    c, anomaly_at = torch._C, _settings.anomaly_location
    return {
        **_tf32(torch),
        "autocast": {device: dtype for device, (dtype, _) in _settings.autocast.items()} or None,
        "scaler": _settings.is_scaled,
        "default_dtype": str(torch.get_default_dtype()),
        "cudnn_enabled": _ask(c, "_get_cudnn_enabled"),
        "mkldnn_enabled": _ask(c, "_get_mkldnn_enabled"),
        "library_at": _find_library_line(c),
        "cudnn_benchmark": _ask(c, "_get_cudnn_benchmark"),
        "cudnn_deterministic": _ask(c, "_get_cudnn_deterministic"),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "anomaly": torch.is_anomaly_enabled(),
        "anomaly_at": anomaly_at and f"{anomaly_at[0]}:{anomaly_at[1]}",
        **_watchers(),
        "launch_blocking": os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"),
        "sync_debug_mode": _sync_debug(torch),
        "flash_sdp": _ask(c, "_get_flash_sdp_enabled"),
        "efficient_sdp": _ask(c, "_get_mem_efficient_sdp_enabled"),
        "math_sdp": _ask(c, "_get_math_sdp_enabled"),
    }


def _find_library_line(c: Any) -> Any:
    """Return where the script switches a library off, by its text; ``None``: it was not found.

    A setting is no call that could be seen; its name is in the line that sets it.
    """
    names = tuple(name for name in ("cudnn", "mkldnn") if _ask(c, f"_get_{name}_enabled") is False)
    return _find_line(rf"\b({'|'.join(names)})\s*\.\s*(enabled\s*=(?!=)|(set_)?flags\s*\()", names)


def _watchers() -> Any:
    """Return what looks at each call, line or allocation of Python's in this thread, and its line.

    That of torch's profiler does not count: it is on in windows of the recorder's.
    """
    names = []
    for kind in ("settrace", "setprofile"):
        function = getattr(sys, kind.replace("set", "get"))()
        if function is not None and type(function).__name__ != "TraceContext":
            module = getattr(function, "__module__", None) or type(function).__module__
            names.append(f"{str(module).partition('.')[0].lstrip('_')} (sys.{kind})")
    monitoring = getattr(sys, "monitoring", None)
    tools = () if monitoring is None else map(monitoring.get_tool, range(6))
    names += [str(tool) for tool in tools if tool not in (None, wire.TORCHS_TOOL)]
    tracing = sys.modules.get("tracemalloc")
    if tracing is not None and tracing.is_tracing():
        names.append("tracemalloc")
    return {"watchers": names or None, "watchers_at": _find_line(_WATCHING, names)}


def _find_line(pattern: str, names: Any) -> Any:
    """Return the line of the script that matches, if anything is looked for."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    if not names or not path:
        return None
    if (path, pattern) not in _settings.script_lines:
        _settings.script_lines[path, pattern] = _search_source(path, pattern)
    return _settings.script_lines[path, pattern]


def _search_source(path: str, pattern: str) -> Any:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read(_MAX_SOURCE).splitlines()
    except OSError:
        return None
    setting = re.compile(pattern)
    for number, line in enumerate(lines, 1):
        if setting.search(line.partition("#")[0]):
            return f"{path}:{number}"
    return None


def _tf32(torch: Any) -> Any:
    """Return what fp32 matrix products and convolutions may be rounded to."""
    ask = getattr(torch._C, "_get_fp32_precision_getter", None)
    if ask is None:
        return {
            "matmul_precision": torch.get_float32_matmul_precision(),
            "allow_tf32_matmul": torch._C._get_cublas_allow_tf32(),
            "allow_tf32_conv": torch._C._get_cudnn_allow_tf32(),
        }
    matmul = ask("cuda", "matmul")
    names = {"tf32": "medium" if ask("mkldnn", "matmul") == "bf16" else "high"}
    return {
        "matmul_precision": names.get(matmul, "highest"),
        "allow_tf32_matmul": matmul == "tf32",
        "allow_tf32_conv": ask("cuda", "conv") == "tf32",
    }


def _sync_debug(torch: Any) -> Any:
    """Return the mode in which torch reports syncs; asked only where CUDA is in use."""
    if not torch.cuda.is_initialized():
        return None
    return _ask(torch._C, "_cuda_get_sync_debug_mode")


def _ask(owner: Any, name: str) -> Any:
    getter = getattr(owner, name, None)
    return None if getter is None else getter()


def environment() -> dict[str, str]:
    """Return the variables that may be written down; of libraries that are preloaded, the names."""
    values = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    if _PRELOADED in values:
        files = re.split("[ :]", values[_PRELOADED])
        values[_PRELOADED] = ":".join(map(os.path.basename, files))
    return values


def machine(torch: Any) -> Any:
    """Return the threads that this process may use, and the settings that bear on them."""
    return {
        "intra_op_threads": torch.get_num_threads(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "cpus_of_machine": os.cpu_count(),
        "environment": environment(),
        **surroundings.values(torch),
    }
