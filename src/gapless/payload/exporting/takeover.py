"""Catch the model of a training, export and measure it there, and leave.

The model is the outermost module that owns most of what an optimizer trains; where nothing trains,
the largest one. It is caught once it has evaluated some batches, or before it trains again after
that; without an evaluation after so many forwards; else where the command ends. Where the weights
are to be those that were saved last, the command goes on to its end. Nothing of the user's runs
afterwards. Of several ranks the first exports, and the others wait for it.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING, Any

from ... import wire
from .. import compiling, imports, patching, tracebacks
from ..feeding.result import Result
from ..hooks import models
from ..log import process
from ..process_state import keep_fields
from ..trial import first_rank, stop
from .observation import ForwardRecord

if TYPE_CHECKING:
    from typing import NoReturn

_COMPILER = "torch._dynamo.utils"
_ABSENT = object()
_MAX_MODULES = 64  # outermost modules that are known
EVALUATION, SAVED = "evaluation", "saved"
# The plan and the process that it is of; records by (id of the module, whether it trains); the
# weights that were saved last.
_state = keep_fields(
    plan={}, pid=-1, is_taken=False, is_busy=False, records={}, saved=None, stance=None,
    replacement=None,
)  # fmt: skip


def begin(plan: dict[str, Any]) -> None:
    """Wait for the model.

    ``plan``: {"to": formats, "at", "model": its class, "steps", "forwards", "weights", "seconds"}.
    """
    _state.plan, _state.pid, _state.is_taken = plan, os.getpid(), False
    imports.when_imported("torch", _watch_torch)
    _watch_end()


def _watch_torch(torch: Any) -> None:
    for owner in (torch, torch.nn.Module):
        if hasattr(owner, "compile"):
            patching.replace(owner, "compile", patching.around("export", _keep_eager, None))
    if _state.plan["at"] == SAVED:
        patching.replace(
            torch, "save", patching.around("export", _note_save, None), is_everywhere=True
        )
    if _COMPILER not in sys.modules:  # it remembers what it finds in the place of our function
        imports.when_requested(_COMPILER, _make_room)
        imports.when_imported(_COMPILER, _watch_calls)
    _watch_calls()


def _watch_calls(_module: Any = None) -> None:
    if _state.replacement is None and not _state.is_taken:
        module = sys.modules["torch"].nn.Module
        _state.replacement = patching.replace(module, "__call__", _wrap_call)


def _make_room() -> None:
    replacement, _state.replacement = _state.replacement, None
    if replacement is not None:
        replacement.undo()


def _keep_eager(_args: Any, _kwargs: Any) -> None:
    """Have nothing compiled until the model is caught: it would be compiled for nothing."""
    stance = getattr(sys.modules["torch"].compiler, "set_stance", None)  # since torch 2.6
    if stance is not None and _state.stance is None and not _state.is_taken:
        _state.stance = stance("force_eager")


def _wrap_call(original: Any) -> Any:
    compiles = compiling.get_is_compiling()

    @functools.wraps(original)
    def call(self: Any = _ABSENT, /, *rest_args: Any, **kwargs: Any) -> Any:
        args = rest_args if self is _ABSENT else (self, *rest_args)
        if _state.is_busy or _state.is_taken or compiles() or not _is_open():
            try:
                return original(*args, **kwargs)
            except BaseException as error:
                tracebacks.strip(error)
                raise
        _state.is_busy = True
        try:
            _before_forward(args, kwargs)
            result = original(*args, **kwargs)
        except BaseException as error:
            tracebacks.strip(error)
            raise
        finally:
            _state.is_busy = False
        _after_forward(args)
        return result

    return call


def _is_open() -> bool:
    return _state.pid == os.getpid() and process.worker() is None


# ── What is seen of forwards ────────────────────────────────────────────────────────────────────


@patching.guard("export")
def _before_forward(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    module = models.inner(args[0])
    if _state.plan["at"] == EVALUATION and module.training:
        record = _state.records.get((id(module), False))
        if record is not None and _is_the_model(module):
            _take_over(record)
    key = id(module), bool(module.training)
    record = _state.records.get(key)
    if record is None:
        if len(_state.records) >= _MAX_MODULES or not _count_parameters(module):
            return
        record = _state.records[key] = ForwardRecord(module)
    record.note(args[1:], kwargs)


@patching.guard("export")
def _after_forward(args: tuple[Any, ...]) -> None:
    if _state.plan["at"] != EVALUATION:
        return
    module = models.inner(args[0])
    record = _state.records.get((id(module), bool(module.training)))
    limit = _state.plan["steps" if module.training else "forwards"]
    if record is not None and record.calls >= limit and _is_the_model(module):
        _take_over(record)


def _is_the_model(module: Any) -> bool:
    name = _state.plan.get("model")
    if name:
        return _has_name(module, name)
    owns_trained = models.owns_trained(module)
    if owns_trained is not None:
        return owns_trained
    return all(
        _count_parameters(module) >= _count_parameters(record.module)
        for record in _state.records.values()
    )


def _has_name(module: Any, name: str) -> bool:
    kind = type(module)
    return name in {kind.__name__, kind.__qualname__, f"{kind.__module__}.{kind.__qualname__}"}


def _count_parameters(module: Any) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _note_save(_args: Any, _kwargs: Any) -> None:
    """Keep the weights of the model as they are saved."""
    from . import weights

    record = _find_record()
    if _is_open() and record is not None and not _state.is_taken:
        _state.saved = weights.copy_state(record.module)


def _find_record() -> ForwardRecord | None:
    """Return the record of the model, of evaluating if there is one."""
    records = [record for record in _state.records.values() if _is_the_model(record.module)]
    for is_training in (False, True):
        for record in records:
            if _state.records.get((id(record.module), is_training)) is record:
                return record
    return None


# ── The end of the command ──────────────────────────────────────────────────────────────────────


def _watch_end() -> None:
    """Be asked before threads can no longer be started, which exporters need."""
    import importlib
    import threading

    for name in ("thread", "process"):  # what they register is called after ours, and no later
        importlib.import_module(f"concurrent.futures.{name}")

    register = getattr(threading, "_register_atexit", None)  # 3.9 to this day
    if register is not None:
        register(_end)


def _end() -> None:
    if not _is_open() or _state.is_taken or not _state.records:
        return
    if getattr(sys, "last_value", None) is not None:
        return  # it ended by an error, which says more
    record = _find_record()
    if record is not None:
        _take_over(record)
    names = {type(record.module).__qualname__ for record in _state.records.values()}
    result = Result(os.environ.get(wire.SPOOL, ""))
    result.fail("no-model", f"none is the model; modules called: {', '.join(sorted(names))}")


# ── Taking over ─────────────────────────────────────────────────────────────────────────────────


def _take_over(record: ForwardRecord) -> NoReturn:
    """Export, if this is the first rank, and leave."""
    _state.is_taken = True
    result = Result(os.environ.get(wire.SPOOL, ""))
    first_rank.act_and_leave(result, functools.partial(_export, record, result))


def _export(record: ForwardRecord, result: Result) -> None:
    from . import session, weights
    from .subject import CaughtModel

    stop.close_workers()
    _leave_training()
    torch, plan = sys.modules["torch"], _state.plan
    module = record.module
    shards = {type(parameter).__name__ for parameter in module.parameters()} & {"DTensor"}
    if shards or "FullyShardedDataParallel" in {type(part).__name__ for part in module.modules()}:
        result.fail("sharded", "the model's weights are spread over ranks (FSDP): export on one")
        return
    result.describe(
        was_training=record is _state.records.get((id(module), True)),
        forwards=sum(entry.calls for entry in _records_of(module)),
        weights=_describe_weights(),
    )
    with torch.inference_mode(mode=False), torch.enable_grad():
        try:
            if plan.get("weights"):
                weights.load_file(module, plan["weights"])
            elif _state.saved is not None:
                module.load_state_dict(_state.saved, strict=False)
        except weights.WeightsError as error:
            result.fail("weights", str(error))
            return
        module.eval()
        shapes = [shape for entry in _records_of(module) for shape in record.shapes_like(entry)]
        from .trees import copy_tensors

        subject = CaughtModel(module, copy_tensors(record.example), shapes, record.autocast)
        folder = os.path.join(os.environ.get(wire.SPOOL, ""), wire.EXPORT_FOLDER)
        with _no_autocast(torch):
            session.export(subject, {**plan, "folder": folder}, result)


def _records_of(module: Any) -> list[ForwardRecord]:
    return [record for record in _state.records.values() if record.module is module]


def _describe_weights() -> str:
    plan = _state.plan
    if plan.get("weights"):
        return f"of {plan['weights']}"
    if plan["at"] == SAVED:
        return "as last saved" if _state.saved is not None else "at the end; nothing was saved"
    return "as caught"


def _leave_training() -> None:
    """Put everything back that exporters would meet: our functions, the stance of the compiler."""
    from ..stacks import stacks

    _make_room()
    if _state.stance is not None:
        sys.modules["torch"].compiler.set_stance("default")
    stacks.finish()
    patching.restore_all()


def _no_autocast(torch: Any) -> Any:
    """Return a context without the autocast of the line at which the model was caught."""
    import contextlib

    stack = contextlib.ExitStack()
    for kind in ("cuda", "cpu"):
        if kind == "cpu" or torch.cuda.is_available():
            stack.enter_context(torch.autocast(kind, enabled=False))
    return stack
