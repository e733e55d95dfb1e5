"""The formats that a model is exported to: how each is written, and how what was written is run.

A format gives a ``Way``: a function of the model's own arguments, made from the file and from
nothing else. Where a format cannot be had here it raises ``UnavailableError`` with the reason.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from . import trees
from .onnx_session import OnnxSession

if TYPE_CHECKING:
    from .subject import CaughtModel

EAGER, COMPILED = "eager", "compiled"
TORCH_EXPORT, AOTI, ONNX, TENSORRT = "torch-export", "aoti", "onnx", "tensorrt"


class UnavailableError(Exception):
    """A format cannot be had here; the message says why, and what to do."""


class Way(NamedTuple):
    """A way to run the model: its name, a function ``(args, kwargs)``, the files it was read from.

    ``untimed``: why its time says nothing here.
    """

    name: str
    call: Callable[..., Any]
    files: tuple[str, ...] = ()
    untimed: str | None = None


def make_eager(subject: CaughtModel) -> Way:
    """Return the model as it is."""
    return Way(EAGER, subject.run)


def make_compiled(subject: CaughtModel) -> Way:
    """Return the model compiled, for each shape of inputs anew."""
    torch = sys.modules["torch"]
    if not hasattr(torch, "compile"):
        raise UnavailableError(f"torch {torch.__version__} has no compiler")
    compiled_model = torch.compile(subject.module, dynamic=False)

    def call(args: Any, kwargs: Any) -> Any:
        with subject.surroundings():
            return compiled_model(*args, **kwargs)

    return Way(COMPILED, call)


def _export_torch(subject: CaughtModel, folder: str) -> Way:
    torch = _require_export()
    path = os.path.join(folder, "model.pt2")
    torch.export.save(subject.capture(), path)
    model = torch.export.load(path).module()
    return Way(TORCH_EXPORT, _without_gradients(model), (path,))


def _export_aoti(subject: CaughtModel, folder: str) -> Way:
    torch = _require_export()
    inductor = importlib.import_module("torch._inductor")
    if not hasattr(inductor, "aoti_compile_and_package"):
        raise UnavailableError(
            f"torch {torch.__version__} writes no packages of AOTInductor; torch 2.6 does"
        )
    path = os.path.join(folder, "model.aoti.pt2")
    inductor.aoti_compile_and_package(subject.capture(), package_path=path)
    model = inductor.aoti_load_package(path)
    return Way(AOTI, _without_gradients(model), (path,))


def _export_onnx(subject: CaughtModel, folder: str) -> Way:
    path = _write_onnx(subject, folder)
    session = _open_session(subject, path, ())
    return Way(ONNX, session.run, _list_onnx(path), session.explain_elsewhere())


def _export_tensorrt(subject: CaughtModel, folder: str) -> Way:
    """Export by torch-tensorrt; where there is none, by the provider of onnxruntime."""
    device = {tensor.device.type for tensor in trees.tensors_of(subject.example)}
    if device != {"cuda"}:
        raise UnavailableError("TensorRT runs on a GPU of NVIDIA's; this model is on the CPU")
    try:
        compiler: Any = importlib.import_module("torch_tensorrt")
    except ImportError:
        return _export_tensorrt_provider(subject, folder)
    program = subject.capture()
    args, kwargs = subject.example
    model = compiler.dynamo.compile(program, arg_inputs=list(args), kwarg_inputs=dict(kwargs))
    path = os.path.join(folder, "model.trt.pt2")
    compiler.save(model, path, arg_inputs=list(args), kwarg_inputs=dict(kwargs))
    return Way(TENSORRT, _without_gradients(compiler.load(path).module()), (path,))


def _export_tensorrt_provider(subject: CaughtModel, folder: str) -> Way:
    lack = "neither torch-tensorrt nor an onnxruntime with TensorRT is installed"
    try:
        runtime: Any = importlib.import_module("onnxruntime")
    except ImportError:
        raise UnavailableError(f"{lack}: pip install torch-tensorrt") from None
    provider = "TensorrtExecutionProvider"
    if provider not in runtime.get_available_providers():
        raise UnavailableError(f"{lack}: pip install torch-tensorrt")
    path = _write_onnx(subject, folder)
    options = {"trt_engine_cache_enable": True, "trt_engine_cache_path": folder}
    session = _open_session(subject, path, ((provider, options),))
    return Way(TENSORRT, session.run, _list_onnx(path), session.explain_elsewhere())


def _write_onnx(subject: CaughtModel, folder: str) -> str:
    """Write the program as ONNX, once."""
    path = os.path.join(folder, "model.onnx")
    if os.path.exists(path):
        return path
    torch = _require_export()
    for package in ("onnx", "onnxscript", "onnxruntime"):
        _require(package)
    onnx = importlib.import_module("torch.onnx")
    if not hasattr(onnx, "ONNXProgram"):
        raise UnavailableError(
            f"torch {torch.__version__} writes no ONNX of a program; torch 2.6 does"
        )
    program: Any = onnx.export(subject.capture(), None, dynamo=True, verbose=False)
    program.save(path)
    return path


def _require(package: str) -> None:
    """Raise ``UnavailableError`` where a package cannot be imported."""
    try:
        importlib.import_module(package)
    except ImportError as error:
        raise UnavailableError(
            f"{package} cannot be imported ({error}): "
            "pip install onnx onnxscript onnxruntime (for a GPU: onnxruntime-gpu)"
        ) from None


def _list_onnx(path: str) -> tuple[str, ...]:
    """Return the file, and the one beside it that holds large weights."""
    return tuple(name for name in (path, f"{path}.data") if os.path.exists(name))


def _open_session(subject: CaughtModel, path: str, providers: tuple[Any, ...]) -> OnnxSession:
    tensors = trees.tensors_of(subject.example)
    device = tensors[0].device if tensors else sys.modules["torch"].device("cpu")
    return OnnxSession(path, device, providers)


def _require_export() -> Any:
    """Return torch, where it has an exporter."""
    torch = sys.modules["torch"]
    try:
        importlib.import_module("torch.export")
    except ImportError:
        raise UnavailableError(
            f"torch {torch.__version__} has no exporter; torch 2.6 has"
        ) from None
    return torch


def _without_gradients(model: Any) -> Callable[..., Any]:
    torch = sys.modules["torch"]

    def call(args: Any, kwargs: Any) -> Any:
        with torch.no_grad():
            return model(*args, **kwargs)

    return call


EXPORTERS: dict[str, Callable[[Any, str], Way]] = {
    TORCH_EXPORT: _export_torch,
    AOTI: _export_aoti,
    ONNX: _export_onnx,
    TENSORRT: _export_tensorrt,
}
