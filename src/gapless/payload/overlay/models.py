"""Find the models: the modules whose parameters are trained, before the first of them is called.

Modules are remembered as they are made. A model is the module that an optimizer's parameters
belong to, known when the optimizer is made; or what is spread over several processes, known when
it is about to be wrapped. The shells that spread or compile a model are not it: what is in them is.
"""

from __future__ import annotations

import functools
import gc
import sys
import weakref
from typing import Any, Callable

from .. import compiling, imports, recorder
from . import optimizers, targets

SHELLS = (
    "DistributedDataParallel",
    "DataParallel",
    "OptimizedModule",
    "FullyShardedDataParallel",
)
_MOST = 64  # optimizers looked at: some trainings make one a step
_SEARCHES = 4  # among all objects of the process, for what was made before
Action = Callable[[Any], "targets.Undo | None"]

_modules: dict[int, Any] = {}  # by id: weak references to all modules
_undos: list[targets.Undo] = []
_watchers: list[_Watcher] = []
_looks = {"optimizers": 0, "searches": 0}


class _Watcher:
    """Somebody who does something with each model."""

    def __init__(self, action: Action) -> None:
        self.action = action
        self.acted: list[tuple[Any, list[targets.Undo]]] = []  # (weak reference to a model, undo)

    def met(self, module: Any) -> None:
        """Act on a model, but not on what lies in another; what lies in this one is let go."""
        parts = {id(part) for part in module.modules()}
        for reference, undos in tuple(self.acted):
            known = reference()
            if known is not None and any(part is module for part in known.modules()):
                return
            if known is None or id(known) in parts:
                targets.undo_all(undos)
                self.acted.remove((reference, undos))
        undo = self.action(module)
        self.acted.append((weakref.ref(module), [] if undo is None else [undo]))

    def let_go(self, module: Any) -> None:
        """Undo what was done with a module."""
        for reference, undos in self.acted:
            if reference() is module:
                targets.undo_all(undos)

    def off(self) -> None:
        """Undo everything, the last one first."""
        while self.acted:
            targets.undo_all(self.acted.pop()[1])


def on_model(action: Action) -> targets.Undo:
    """Call ``action(module)`` once for each model, before it is first trained.

    The action may give what undoes it; that is called when a larger model turns out to own the
    module, and by what is given back here, which ends all of it.
    """
    watcher = _Watcher(action)
    _watchers.append(watcher)
    if not _undos:
        _watch()

    def undo() -> None:
        if watcher in _watchers:
            _watchers.remove(watcher)
        watcher.off()
        if not _watchers:
            targets.undo_all(_undos)
            _modules.clear()

    return undo


def shells(module: Any) -> list[Any]:
    """Give the shells that a module is in, of those that are known."""
    living = [ref() for ref in list(_modules.values())]
    return [one for one in living if one is not None and one is not module and inner(one) is module]


def inner(module: Any) -> Any:
    """Give the module inside the shells that spread or compile it."""
    while is_shell(module):
        name = "_orig_mod" if type(module).__name__ == "OptimizedModule" else "module"
        module = getattr(module, name)
    return module


def is_shell(module: Any) -> bool:
    """Tell whether a module only spreads or compiles another one."""
    kind = type(module)
    return kind.__name__ in SHELLS and kind.__module__.startswith("torch.")


def owner(parameters: list[Any]) -> Any:
    """Give the module that these tensors belong to, None if there is none.

    It owns all of them, or more than others do and at least half. Among these: the one that trains
    the least beside them, and of several that train the same the outermost that is called.
    """
    wanted = {id(one) for one in parameters}
    best, found = None, None
    for module in _candidates(wanted):
        mine = {id(one): one for one in module.parameters()}
        share = len(wanted & mine.keys())
        if 2 * share < len(wanted) or not share:
            continue
        others = sum(1 for key, one in mine.items() if one.requires_grad and key not in wanted)
        rank = (-share, others, -sum(1 for _ in module.modules()))
        if best is None or rank < best:
            best, found = rank, module
    return found


def _candidates(wanted: set[int]) -> list[Any]:
    """Give the modules that may be a model; all there are where none that is known owns these."""
    known = [one for one in (ref() for ref in list(_modules.values())) if one is not None]
    found = any(id(one) in wanted for module in known for one in _own(module))
    if not found and _looks["searches"] < _SEARCHES:
        _looks["searches"] += 1
        kind = sys.modules["torch"].nn.Module
        known = [one for one in gc.get_objects() if issubclass(type(one), kind)]
        for module in known:
            _remember(module)
    return [one for one in known if not is_shell(one) and _is_called(one)]


def _own(module: Any) -> Any:
    return vars(module).get("_parameters", {}).values()


def _is_called(module: Any) -> bool:
    """Tell whether a module has a forward, and is not a training loop (``training_step``)."""
    forward = getattr(type(module), "forward", None)
    missing = getattr(sys.modules["torch"].nn.Module, "forward", None)
    return forward is not missing and not hasattr(type(module), "training_step")


def _remember(module: Any) -> None:
    key = id(module)
    if key not in _modules:
        _modules[key] = weakref.ref(module, functools.partial(_forget, key))


def _forget(key: int, reference: Any) -> None:
    if _modules.get(key) is reference:
        del _modules[key]


def _watch() -> None:
    switch = targets.Switch()
    _looks.update(optimizers=0, searches=0)
    _undos.append(lambda: setattr(switch, "on", False))
    _undos.append(optimizers.on_optimizer(_trained))

    def torch_is_there(torch: Any) -> None:
        if switch.on:
            module, parallel = torch.nn.Module, torch.nn.parallel
            _undos.append(targets.replace(module, "__init__", _making))
            _undos.append(targets.replace(module, "__setstate__", _making))  # copied, unpickled
            _undos.append(targets.replace(parallel.DistributedDataParallel, "__init__", _spreading))
            _undos.append(targets.replace(parallel.DataParallel, "__init__", _replicating))

    imports.when_imported("torch", torch_is_there)


def _making(original: Any, switch: targets.Switch) -> Any:
    compiles = compiling.asker()

    @functools.wraps(original)
    def make(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if switch.on and not compiles():
            _remember(self)

    return make


def _spreading(original: Any, switch: targets.Switch) -> Any:
    """Act on a model before its gradients' buckets are made."""

    @functools.wraps(original)
    def spread(self: Any, *args: Any, **kwargs: Any) -> None:
        module = args[0] if args else kwargs.get("module")
        if switch.on and module is not None:
            _met(inner(module))
        original(self, *args, **kwargs)

    return spread


def _replicating(original: Any, switch: targets.Switch) -> Any:
    """Let go of a model that is copied to several devices for each call: ours would not follow."""

    @functools.wraps(original)
    def replicate(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if switch.on and _replicates(self):
            recorder.unseen("edit", "DataParallel copies the model to several devices")
            for watcher in tuple(_watchers):
                watcher.let_go(inner(self))

    return replicate


def _replicates(shell: Any) -> bool:
    return type(shell).__name__ == "DataParallel" and len(shell.device_ids or ()) > 1


def _trained(optimizer: Any) -> None:
    _looks["optimizers"] += 1
    if _looks["optimizers"] > _MOST:
        return
    module = owner(optimizers.parameters(optimizer))
    if module is not None and not any(_replicates(shell) for shell in shells(module)):
        _met(module)


def _met(module: Any) -> None:
    for watcher in tuple(_watchers):
        watcher.met(module)
