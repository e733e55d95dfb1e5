"""A model in a file of ONNX, run by onnxruntime on the tensors of torch, without copying them."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from . import trees

_TYPES = {  # of torch, as onnxruntime numbers them (onnx.TensorProto.DataType)
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float16": 10,
    "float64": 11,
    "bfloat16": 16,
}
_CUDA = "CUDAExecutionProvider"


class OnnxSession:
    """One session; its outputs are tensors of torch, in the order of the model's."""

    def __init__(self, path: str, device: Any, providers: tuple[Any, ...]) -> None:
        runtime: Any = importlib.import_module("onnxruntime")
        torch = sys.modules["torch"]
        available = runtime.get_available_providers()
        self._has_device = device.type == "cpu" or _CUDA in available
        self._device = device if self._has_device else torch.device("cpu")
        wanted = [*providers]
        if self._device.type == "cuda":
            wanted.append((_CUDA, {"device_id": self._device.index or 0}))
        options = runtime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()  # as many as the others have
        options.log_severity_level = 3  # errors
        self._session = runtime.InferenceSession(
            path, options, providers=[*wanted, "CPUExecutionProvider"]
        )
        self._inputs = [entry.name for entry in self._session.get_inputs()]
        self._outputs = [entry.name for entry in self._session.get_outputs()]

    def explain_elsewhere(self) -> str | None:
        """Return why it does not run where the model does; ``None``: it does."""
        if self._has_device:
            return None
        return "this onnxruntime has no CUDA, so it ran on the CPU: pip install onnxruntime-gpu"

    def run(self, args: Any, kwargs: Any) -> list[Any]:
        """Run it on the tensors of these arguments, in their order."""
        torch = sys.modules["torch"]
        tensors = [
            tensor.to(self._device).contiguous() for tensor in trees.tensors_of((args, kwargs))
        ]
        binding = self._session.io_binding()
        kind, index = self._device.type, self._device.index or 0
        for name, tensor in zip(self._inputs, tensors):
            number = _TYPES[str(tensor.dtype).replace("torch.", "")]
            shape = tuple(tensor.shape)
            binding.bind_input(name, kind, index, number, shape, tensor.data_ptr())
        for name in self._outputs:
            binding.bind_output(name, kind, index)
        if kind == "cuda":
            torch.cuda.current_stream().synchronize()  # it has a stream of its own
        self._session.run_with_iobinding(binding)
        return [_to_torch(torch, value) for value in binding.get_outputs()]


def _to_torch(torch: Any, value: Any) -> Any:
    """Return an output as a tensor: one of the CPU by NumPy, others by DLPack."""
    if value.device_name() == "cpu" and "bfloat16" not in value.data_type():
        return torch.from_numpy(value.numpy())
    return torch.utils.dlpack.from_dlpack(value._ortvalue.to_dlpack())
