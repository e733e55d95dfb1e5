"""Models: which module owns the parameters that an optimizer trains, and what it is like.

A module is met where the user moves it, sets it to train or wraps it for several devices; that is
the line of the fact. Whether it is a model is known as soon as an optimizer has stepped: it must
own at least half of the tensors of one. (A transform of images is a module too, and never trains.)
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections import Counter
from threading import get_ident
from typing import Any

from ... import wire
from .. import declare, patching, recorder, stepping
from ..process_state import keep
from . import graphs, untrained

_WINDOWS = __name__.rpartition(".hooks.")[0] + ".windows"
_MAX_MODULES = 256  # modules remembered; those that a script moves beyond are not distinguished
_PENDING = 16  # modes kept of a module before it is known what it is
_LOOKS = (1, 2, 3, 10, 50, 200)  # edges at which owners of parameters are searched
_SHELLS = {"DistributedDataParallel": "module", "DataParallel": "module"}
_SHELLS["OptimizedModule"] = "_orig_mod"


class _ModuleEntry:
    """A module that was met: what is known of it so far."""

    __slots__ = (
        "compiled",
        "mode",
        "modes",
        "part",
        "passes",
        "place",
        "reference",
        "subject",
        "whole",
    )

    def __init__(self, reference: Any, location: Any) -> None:
        self.reference = reference
        self.place = location
        self.subject = None  # the id of its fact, once it is known to be a model
        self.part = False  # it lies inside a known model: its modes are not the model's
        self.whole = None  # that model, where it has no parameter more: its modes are this one's
        self.modes = []
        self.mode = None
        self.compiled = False
        self.passes = graphs.EvaluationPasses()


class _Models:
    """The modules and optimizers that were met."""

    def __init__(self) -> None:
        self.modules: dict[Any, Any] = {}  # by id
        self.optimizers: dict[Any, Any] = {}  # by id: weak references
        # By id: models set to evaluate last, and in which thread.
        self.evaluating: dict[int, Any] = {}
        # A module was set to train or to evaluate, and it is not known yet what it is.
        self.is_mode_pending = False
        self.begin()

    def begin(self) -> None:
        """Search the owners anew and write the facts again: another log begins."""
        self.edges = 0
        self.has_untrained = False  # modules whose gradients nothing uses
        self.evaluating.clear()
        for entry in tuple(self.modules.values()):
            entry.subject = entry.mode = None


models = keep(_Models())


def is_registered(module: Any) -> bool:
    """Return whether the module was met before."""
    return id(inner(module)) in models.modules


def register_module(module: Any, location: Any) -> None:
    """Remember a module, the user's line where it was first met, and whether it was compiled."""
    key = id(inner(module))
    if key not in models.modules and len(models.modules) < _MAX_MODULES:
        reference = weakref.ref(inner(module), _make_forget(models.modules, key))
        models.modules[key] = _ModuleEntry(reference, location)
    if key in models.modules and type(module).__name__ == "OptimizedModule":
        models.modules[key].compiled = True


def _make_forget(entries: dict[Any, Any], key: int) -> Any:
    """Return what forgets a thing that dies: in C, since what a signal raises in Python is lost."""
    return functools.partial(entries.pop, key)  # called with the reference: the value by default


def note_mode(module: Any, mode: Any, time_ns: Any) -> None:
    """Note that a module was set to train or to evaluate; a mark if it is a model."""
    module = inner(module)
    entry = models.modules.get(id(module))
    entry = entry if entry is None or entry.whole is None else entry.whole
    if entry is None or entry.part or entry.mode == mode:
        return
    entry.mode = mode
    if mode:
        models.evaluating.pop(id(entry), None)
    else:
        models.evaluating[id(entry)] = weakref.ref(module), get_ident()
    if entry.subject is not None:
        recorder.mark(wire.MODE, time_ns, time_ns, entry.subject, int(mode))
        _graphs(entry, module, mode)
        windows = sys.modules.get(_WINDOWS)
        if windows is not None:
            windows.evaluation(begins=not mode)
    elif len(entry.modes) < _PENDING:
        entry.modes.append((time_ns, mode))
        models.is_mode_pending = True  # the first evaluation may be where a model is met


@patching.guard("models")
def check_modes(now_ns: int) -> None:
    """Note at a time which models train again though no call set them: Lightning sets the flags.

    To be asked where a batch is asked for, while ``models.evaluating`` holds any.
    """
    thread = get_ident()
    for key, (reference, origin) in tuple(models.evaluating.items()):
        if (module := reference()) is None:
            models.evaluating.pop(key, None)
            continue
        flag = object.__getattribute__(module, "__dict__").get("training")
        if origin == thread and flag is True:  # the truth of a tensor would wait for its device
            note_mode(module, flag, now_ns)


def _graphs(entry: _ModuleEntry, module: Any, mode: Any) -> None:
    """Note whether graphs for a backward pass are made while a model evaluates."""
    nodes = graphs.count_nodes()
    if nodes is None:
        recorder.report_unobserved(
            "graphs", "this torch does not number what it makes for backward passes"
        )
        return
    counts = entry.passes.note_mode(mode, nodes)
    if counts is not None:
        counts["tensors"] = sum(1 for _ in module.parameters())
        recorder.fact("evaluation", inner(module), counts, entry.passes.place)


def subject(module: Any) -> Any:
    """Return the id of the model that a module is or wraps, nothing if it is not known as one."""
    entry = models.modules.get(id(inner(module)))
    return None if entry is None else entry.subject


def inner(module: Any) -> Any:
    """Return the module inside the shells that spread or compile it."""
    while type(module).__name__ in _SHELLS:
        module = getattr(module, _SHELLS[type(module).__name__])
    return module


@patching.guard("models")
def register_optimizer(optimizer: Any) -> None:
    """Remember an optimizer that has stepped for the first time."""
    if id(optimizer) not in models.optimizers and len(models.optimizers) < _MAX_MODULES:
        key = id(optimizer)
        models.optimizers[key] = weakref.ref(optimizer, _make_forget(models.optimizers, key))


def owns_trained(module: Any) -> bool | None:
    """Return whether a module owns half of what an optimizer trains; None if none has stepped."""
    id_sets = _id_sets()
    return _owns(inner(module), id_sets) if id_sets else None


@declare.at_seldom_edge
@patching.guard("models")
def edge(number: int, start: int, end: int) -> None:  # noqa: ARG001 - the form of an edge's action
    """Find out at the first edges which modules are models."""
    models.edges += 1
    if models.edges not in _LOOKS and not models.is_mode_pending:
        return
    models.is_mode_pending = False
    torch = sys.modules["torch"]
    with torch._C.DisableTorchFunction():  # no mode of the user's sees what we ask
        settle()
        if not any(entry.subject is not None for entry in tuple(models.modules.values())):
            _search()
        if models.edges in untrained.LOOKS and not models.has_untrained:
            _write_untrained()


def _search() -> None:
    """Look among the names of the user's script, where no module was met on its way.

    Only the type of a value is looked at, not the value; the names inside functions are left alone,
    since to read them would keep what they name alive.
    """
    script = sys.modules.get("__main__")
    module = sys.modules["torch"].nn.Module
    for value in list(vars(script).values()) if script is not None else ():
        if issubclass(type(value), module):
            register_module(value, None)
    settle()
    if models.edges >= _LOOKS[3] and not any(
        entry.subject is not None for entry in models.modules.values()
    ):
        recorder.report_unobserved(
            "model", "none was moved to a device or told to train or to evaluate"
        )


def settle() -> None:
    """Write the fact of each module that is now known to be a model."""
    id_sets = _id_sets()
    pending = [entry for entry in list(models.modules.values()) if entry.subject is None]
    # The largest first: a part of a model is not a model of its own.
    candidates = [(entry, module) for entry in pending if (module := entry.reference()) is not None]
    candidates.sort(key=lambda pair: -sum(1 for _ in pair[1].modules()))
    for entry, module in candidates:
        model = _enclosing_model(module)
        entry.part = model is not None
        if model is not None:
            _merge_modes(entry, module, model)
        elif _owns(module, id_sets) or _is_only_model(module, id_sets):
            _write_model(entry, module)


def _id_sets() -> list[set[int]]:
    """Return the ids of the parameters of each optimizer that has any."""
    return [set(map(id, parameters)) for parameters in _parameter_lists()]


def _parameter_lists() -> list[list[Any]]:
    optimizers = (reference() for reference in list(models.optimizers.values()))
    lists = [
        [parameter for group in optimizer.param_groups for parameter in group["params"]]
        for optimizer in optimizers
        if optimizer
    ]
    return [parameters for parameters in lists if parameters]


def _write_untrained() -> None:
    modules = untrained.find_untrained(_largest_first(), _parameter_lists())
    for module, location, values in modules:
        recorder.fact("untrained", module, values, location)
    models.has_untrained = bool(modules)


def _largest_first() -> list[tuple[Any, Any]]:
    """Return the modules that were met and where, each before the parts of it."""
    entries = list(models.modules.values())
    modules = [
        (module, entry.place) for entry in entries if (module := entry.reference()) is not None
    ]
    return sorted(modules, key=lambda pair: -sum(1 for _ in pair[0].modules()))


def _enclosing_model(module: Any) -> Any:
    """Return what is known of the model that a module lies inside; None where it lies in none."""
    for entry in list(models.modules.values()):
        model = entry.reference() if entry.subject is not None else None
        if model is not None and any(submodule is module for submodule in model.modules()):
            return entry
    return None


def _merge_modes(entry: Any, module: Any, model: Any) -> None:
    """Let the modes of a part that has all parameters of its model be that model's.

    As where a loss is a module that holds the model, and the mode of each is set.
    """
    ids = {id(parameter) for parameter in module.parameters()}
    if not ids or {id(parameter) for parameter in model.reference().parameters()} != ids:
        return
    entry.whole = model
    for time_ns, mode in entry.modes:
        recorder.mark(wire.MODE, time_ns, time_ns, model.subject, int(mode))
        model.mode = mode
    entry.modes = []


def _owns(module: Any, id_sets: Any) -> bool:
    ids = {id(parameter) for parameter in module.parameters()}
    return any(2 * len(ids & tensors) >= len(tensors) for tensors in id_sets)


def _is_only_model(module: Any, id_sets: Any) -> bool:
    """Return whether a module with parameters is taken for a model, as no optimizer is torch's."""
    if id_sets or recorder.has_any("optimizer") or not stepping.trains():
        return False
    return next(iter(module.parameters()), None) is not None


def _write_model(entry: Any, module: Any) -> None:
    entry.subject = recorder.fact(
        "model", module, facts(module, compiled=entry.compiled), entry.place
    )
    for time_ns, mode in entry.modes:
        recorder.mark(wire.MODE, time_ns, time_ns, entry.subject, int(mode))
    entry.modes = []


def facts(module: Any, *, compiled: bool = False) -> Any:
    """Return what is known of a model; no tensor is read, only what describes it."""
    parameters = list(module.parameters())
    dtypes = Counter(str(parameter.dtype) for parameter in parameters)
    devices = Counter(str(parameter.device) for parameter in parameters)
    kind = type(module)
    return {
        "class": f"{kind.__module__}.{kind.__qualname__}",
        "parameters": sum(parameter.numel() for parameter in parameters),
        "tensors": len(parameters),
        "modules": sum(1 for _ in module.modules()),
        "dtype": dtypes.most_common(1)[0][0] if dtypes else None,
        "device": devices.most_common(1)[0][0] if devices else None,
        "devices": dict(devices),
        "channels_last": _channels_last(parameters),
        "convolutions": sum(parameter.dim() == 4 for parameter in parameters),  # noqa: PLR2004 - images
        "compiled": compiled or getattr(module, "_compiled_call_impl", None) is not None,
    }


def _channels_last(parameters: Any) -> Any:
    """Return whether images' weights are channels-last; None if there are none that show it."""
    layout = sys.modules["torch"].channels_last
    contiguous = [
        parameter.is_contiguous(memory_format=layout)
        for parameter in parameters
        if parameter.dim() == 4  # noqa: PLR2004
        and parameter.shape[1] > 1
        and parameter.shape[2] * parameter.shape[3] > 1
    ]
    return None if not contiguous else all(contiguous)
