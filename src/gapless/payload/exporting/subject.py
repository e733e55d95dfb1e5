"""The model that is exported, how it is called, and its graph as ``torch.export`` gives it."""

from __future__ import annotations

import contextlib
import inspect
import sys
import warnings
from typing import Any

from . import trees
from .dimensions import BatchAxis, find_batch, find_varying

_MAX_NOTE = 200  # characters


class CaughtModel:
    """A model set to evaluate, an example of its inputs, and which of their dimensions are free."""

    def __init__(self, module: Any, example: Any, shapes: list[Any], autocast: Any) -> None:
        self.module, self.example, self.autocast = module, example, autocast
        self.varying = find_varying(shapes)
        self.batch: BatchAxis | None = None
        self.batch_lack = ""
        self.program: Any = None  # torch.export's
        self.free: dict[int, set[int]] = {}  # dimensions that are free in the program, by leaf
        self.notes: list[str] = []

    def run(self, *call: Any) -> Any:
        """Call the model as the training does: ``run(args, kwargs)``, without gradients."""
        args, kwargs = call
        with self.surroundings():
            return self.module(*args, **kwargs)

    @contextlib.contextmanager
    def surroundings(self) -> Any:
        """Have neither gradients nor any autocast but the one of the forward that was caught."""
        torch = sys.modules["torch"]
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            if self.autocast is not None:
                kind, dtype = self.autocast
                # its cache keeps weights of a graph that is being traced
                stack.enter_context(torch.autocast(kind, dtype=dtype, cache_enabled=False))
            yield

    def find_batch(self) -> None:
        """Find out which dimension is the batch."""
        self.batch, self.batch_lack = find_batch(self.run, self.example)

    def is_short(self) -> bool:
        """Return whether products of float32 have fewer digits: autocast, or TF32."""
        torch = sys.modules["torch"]
        if self.autocast is not None:
            return True
        is_cuda = any(tensor.is_cuda for tensor in trees.tensors_of(self.example))
        flags = torch.backends
        return is_cuda and (flags.cuda.matmul.allow_tf32 or flags.cudnn.allow_tf32)

    def describe(self) -> dict[str, Any]:
        """Return what is known of it, for the document."""
        leaves, _ = trees.take_apart(self.example)
        names = trees.name_inputs(self.module, *self.example)
        kind = type(self.module)
        file, line = _find_source(self.module)
        parameters = list(self.module.parameters())
        return {
            "class": f"{kind.__module__}.{kind.__qualname__}",
            "file": file,
            "line": line,
            "parameters": sum(parameter.numel() for parameter in parameters),
            "dtype": str(parameters[0].dtype).replace("torch.", "") if parameters else None,
            "device": str(parameters[0].device) if parameters else None,
            "autocast": None if self.autocast is None else str(self.autocast[1])[6:],
            "inputs": [
                self._describe_input(number, name, leaf)
                for number, (name, leaf) in enumerate(zip(names, leaves))
            ],
            "batch": None if self.batch is None else self.batch.size,
            "batch_lack": self.batch_lack,
        }

    def _describe_input(self, number: int, name: str, leaf: Any) -> dict[str, Any]:
        if not trees.is_tensor(leaf):
            return {"name": name, "value": repr(leaf)[:_MAX_NOTE]}
        return {
            "name": name,
            "dtype": str(leaf.dtype).replace("torch.", ""),
            "shape": list(leaf.shape),
            "varied": sorted(self.varying.get(number, ())),
            "free": sorted(self.free.get(number, ())),
        }

    # ── The graph ───────────────────────────────────────────────────────────────────────────────

    def capture(self) -> Any:
        """Return the program of ``torch.export``, with as many free dimensions as there can be.

        Raises what the exporter raises where it fails without any.
        """
        if self.program is not None:
            return self.program
        reasons: list[str] = []
        choices = self._list_freedoms()
        for number, free in enumerate(choices):
            try:
                self.program = self._trace(free)
            except Exception as error:
                if number == len(choices) - 1:
                    raise
                reasons.append(_first_line(error))
                continue
            self.free = free
            break
        if reasons:
            self.notes.append(f"not all dimensions are free in the program: {reasons[-1]}")
        return self.program

    def _list_freedoms(self) -> list[dict[int, set[int]]]:
        """Return which dimensions are to be free: all that may be, the batch alone, none."""
        batch = {} if self.batch is None else {n: {self.batch.axis} for n in self.batch.leaves}
        varying = {
            n: self.varying.get(n, set()) | batch.get(n, set()) for n in {*self.varying, *batch}
        }
        freedoms: list[dict[int, set[int]]] = []
        for free in (varying, batch, {}):
            if free not in freedoms:
                freedoms.append(free)
        return freedoms

    def _trace(self, free: dict[int, set[int]]) -> Any:
        torch = sys.modules["torch"]
        args, kwargs = self._traced_example()
        options: dict[str, Any] = {}
        if free:
            options["dynamic_shapes"] = self._name_dimensions(free)
        if "strict" in inspect.signature(torch.export.export).parameters:
            options["strict"] = False
        with self.surroundings(), warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            program = torch.export.export(self.module, args, kwargs, **options)
        for warning in heard:
            words = str(warning.message)
            if "during export" in words:  # attributes that were set in forward, and are lost
                self.notes.append(" ".join(words.split())[:_MAX_NOTE])
        return program

    def _traced_example(self) -> Any:
        """Return the example with a batch of at least two: one row would be taken for fixed."""
        if self.batch is None or self.batch.size > 1:
            return self.example
        return self.batch.resize(self.example, 2)

    def _name_dimensions(self, free: dict[int, set[int]]) -> dict[str, Any]:
        export = sys.modules["torch"].export
        dynamic = getattr(export.Dim, "DYNAMIC", None)  # since torch 2.6
        leaves, spec = trees.take_apart(self.example)
        is_batch = set() if self.batch is None else set(self.batch.leaves)
        names: list[Any] = []
        for number, leaf in enumerate(leaves):
            axes = free.get(number)
            if not (axes and trees.is_tensor(leaf)):
                names.append(None)
                continue
            names.append(
                {
                    axis: dynamic
                    or export.Dim(
                        "batch"
                        if number in is_batch and self.batch is not None and axis == self.batch.axis
                        else f"size_{number}_{axis}",
                        min=1,
                    )
                    for axis in sorted(axes)
                }
            )
        args, kwargs = trees.put_together(names, spec)
        return trees.bind(self.module, args, kwargs)


def _find_source(module: Any) -> tuple[str | None, int]:
    """Return where the class of a model is defined."""
    try:
        return inspect.getsourcefile(type(module)), inspect.getsourcelines(type(module))[1]
    except (OSError, TypeError):
        return None, 0


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:_MAX_NOTE]
