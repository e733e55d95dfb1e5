"""Which packages the interpreter has, and how torch was built: without using a GPU.

In stages, so that the first ones are known where the last, which imports torch, hangs or kills the
process. A stage is given what is known, and returns what it adds.
"""

from __future__ import annotations

import ast
import os
import platform
import sys
import warnings
from importlib import import_module, metadata, util
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMES = ("torch", "torchvision", "pillow", "pillow-simd")
_PREFIXES = ("nvidia-cudnn-", "nvidia-dali-cuda")
_MAX_WORDS = 300  # characters of a warning of torch's


def describe_installed(_: Mapping[str, Any]) -> dict[str, Any]:
    """Return what can be read without importing anything of others."""
    facts: dict[str, Any] = {
        "executable": os.path.abspath(sys.executable),  # noqa: PTH100 - a link is another environment
        "python": platform.python_version(),
        "packages": _versions(),
        "vision_needs": _find_requirement("torchvision", "torch"),
    }
    spec = util.find_spec("torch")
    if spec is None:
        return facts
    facts["torch"] = facts["packages"].get("torch", "unknown")
    return {**facts, **_read_build(list(spec.submodule_search_locations or []))}


def describe_pillow(_: Mapping[str, Any]) -> dict[str, Any]:
    """Return Pillow's version and its JPEG library; nothing without Pillow."""
    if util.find_spec("PIL") is None:
        return {}
    features: Any = import_module("PIL.features")  # looked at, not needed
    return {
        "pillow": {
            "version": features.version("pil"),
            "turbo": features.check_feature("libjpeg_turbo"),
            "jpeg": features.version("jpg"),
        }
    }


def describe_torch(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Import torch, and return how it was built and what it sees; no CUDA context is made."""
    if "torch" not in facts:
        return {}
    warnings.simplefilter("ignore")
    import torch

    private: Any = torch._C  # noqa: SLF001 - for which GPUs it was built is not public
    flags = getattr(private, "_cuda_getArchFlags", lambda: None)()
    build: dict[str, Any] = {
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
        "debug": bool(getattr(torch.version, "debug", False)),
        "built": True,
        "threads": torch.get_num_threads(),
        "architectures": flags.split() if flags else [],
        **_read_cudnn_version(torch),
        "nccl": _read_nccl_version(torch),
    }
    return {**build, **_look_for_gpus(torch)} if build["cuda"] or build["hip"] else build


Stage = Callable[["Mapping[str, Any]"], "dict[str, Any]"]
STAGES: dict[str, Stage] = {
    "python": describe_installed,
    "pillow": describe_pillow,
    "torch": describe_torch,
}


def _versions() -> dict[str, str]:
    """Return the versions of packages that matter, by their names in lower case."""
    versions: dict[str, str] = {}
    for distribution in metadata.distributions():
        name = str(distribution.metadata["Name"] or "").lower().replace("_", "-")
        if name in _NAMES or name.startswith(_PREFIXES):
            versions.setdefault(name, distribution.version)
    return versions


def _find_requirement(package: str, dependency: str) -> str | None:
    """Return the version that a package demands of another, such as "==2.13.0"."""
    try:
        requirements = metadata.requires(package) or []
    except metadata.PackageNotFoundError:
        return None
    for requirement in requirements:
        text = requirement.partition(";")[0].replace("(", "").replace(")", "").replace(" ", "")
        if text.startswith(f"{dependency}=="):
            return text[len(dependency) :]
    return None


def _read_build(folders: list[str]) -> dict[str, Any]:
    """Return how torch was built, from its version.py, which says so in plain assignments."""
    try:
        with open(os.path.join(folders[0], "version.py"), encoding="utf-8") as file:  # noqa: PTH118, PTH123
            tree = ast.parse(file.read())
    except (OSError, IndexError, SyntaxError, ValueError):
        return {}
    build: dict[str, Any] = {}
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and isinstance(value, ast.Constant):
            build[target.id] = value.value
    values = {name: build[name] for name in ("cuda", "hip", "debug") if name in build}
    return {**values, "torch": str(build.get("__version__", "unknown")), "built": "cuda" in values}


def _look_for_gpus(torch: Any) -> dict[str, Any]:
    """Return whether torch can use a GPU, how many, and what it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sees_gpu, devices = torch.cuda.is_available(), torch.cuda.device_count()
    words = [" ".join(str(warning.message).split()) for warning in caught]
    why = words[0][:_MAX_WORDS] if words else None
    return {"sees_gpu": sees_gpu, "devices": devices, "gpu_why": why}


def _read_cudnn_version(torch: Any) -> dict[str, Any]:
    """Return cuDNN's version, or why torch refuses the one that it found."""
    try:
        return {"cudnn": torch.backends.cudnn.version()}
    except (AttributeError, RuntimeError, OSError) as error:
        return {"cudnn": None, "cudnn_why": " ".join(str(error).split())[:_MAX_WORDS]}


def _read_nccl_version(torch: Any) -> str | None:
    try:
        version = torch.cuda.nccl.version()
    except (AttributeError, RuntimeError, ImportError):
        return None
    return ".".join(map(str, version)) if isinstance(version, tuple) else str(version)
