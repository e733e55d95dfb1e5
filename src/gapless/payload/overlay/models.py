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
from ..process_state import keep_fields
from . import optimizers
from .patch import targets

SHELLS = (
    "DistributedDataParallel",
    "DataParallel",
    "OptimizedModule",
    "FullyShardedDataParallel",
)
_MAX_OPTIMIZERS = 64  # optimizers looked at: some trainings make one a step
_SEARCHES = 4  # among all objects of the process, for what was made before
Action = Callable[[Any], "targets.Undo | None"]


class _Watcher:
    """One that does something with each model."""

    def __init__(self, action: Action) -> None:
        self.action = action
        self.acted: list[tuple[Any, list[targets.Undo]]] = []  # (weak reference to a model, undo)

    def act_on(self, module: Any) -> None:
        """Act on a model, but not on what lies in another; what lies in this one is let go."""
        part_ids = {id(submodule) for submodule in module.modules()}
        for reference, undos in tuple(self.acted):
            model = reference()
            if model is not None and any(submodule is module for submodule in model.modules()):
                return
            if model is None or id(model) in part_ids:
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


_modules = keep_fields(
    references={},  # by id: weak, to all modules that were made since they are watched
    models=[],  # weak references to those that were acted on
    watchers=[],
    undos=[],
    n_optimizers=0,
    n_searches=0,
)


def on_model(action: Action) -> targets.Undo:
    """Call ``action(module)`` once for each model, before it is first trained, known ones at once.

    The action may return what reverts it; that is called when a larger model turns out to own the
    module, and by what is returned here, which ends all of it.
    """
    watcher = _Watcher(action)
    _modules.watchers.append(watcher)
    if not _modules.undos:
        _watch()
    for reference in tuple(_modules.models):
        model = reference()
        if model is not None:
            watcher.act_on(model)

    def undo() -> None:
        if watcher in _modules.watchers:
            _modules.watchers.remove(watcher)
        watcher.off()
        if not _modules.watchers:
            targets.undo_all(_modules.undos)
            _modules.references.clear()
            _modules.models.clear()

    return undo


def shells(module: Any) -> list[Any]:
    """Return the shells that a module is in, of those that are known."""
    known_modules = [ref() for ref in list(_modules.references.values())]
    return [
        shell
        for shell in known_modules
        if shell is not None and shell is not module and inner(shell) is module
    ]


def inner(module: Any) -> Any:
    """Return the module inside the shells that spread or compile it."""
    while is_shell(module):
        name = "_orig_mod" if type(module).__name__ == "OptimizedModule" else "module"
        module = getattr(module, name)
    return module


def is_shell(module: Any) -> bool:
    """Return whether a module only spreads or compiles another one."""
    kind = type(module)
    return kind.__name__ in SHELLS and kind.__module__.startswith("torch.")


def find_owner(parameters: list[Any]) -> Any:
    """Return the module that these tensors belong to, None if there is none.

    It owns all of them, or more than others do and at least half. Among these: the one that trains
    the least beside them, and of several that train the same the outermost that is called.
    """
    wanted_ids = {id(parameter) for parameter in parameters}
    best_rank, best_module = None, None
    for module in _candidates(wanted_ids):
        own_parameters = {id(parameter): parameter for parameter in module.parameters()}
        share = len(wanted_ids & own_parameters.keys())
        if 2 * share < len(wanted_ids) or not share:
            continue
        n_foreign = sum(
            1
            for key, parameter in own_parameters.items()
            if parameter.requires_grad and key not in wanted_ids
        )
        rank = (-share, n_foreign, -sum(1 for _ in module.modules()))
        if best_rank is None or rank < best_rank:
            best_rank, best_module = rank, module
    return best_module


def _candidates(wanted_ids: set[int]) -> list[Any]:
    """Return the modules that may be a model; all there are where none that is known owns these."""
    modules = [
        module
        for module in (ref() for ref in list(_modules.references.values()))
        if module is not None
    ]
    is_owned = any(
        id(parameter) in wanted_ids for module in modules for parameter in _own_parameters(module)
    )
    if not is_owned and _modules.n_searches < _SEARCHES:
        _modules.n_searches += 1
        kind = sys.modules["torch"].nn.Module
        modules = [obj for obj in gc.get_objects() if issubclass(type(obj), kind)]
        for module in modules:
            _remember(module)
    return [module for module in modules if not is_shell(module) and _is_called(module)]


def _own_parameters(module: Any) -> Any:
    return vars(module).get("_parameters", {}).values()


def _is_called(module: Any) -> bool:
    """Return whether a module has a forward, and is not a training loop (``training_step``)."""
    forward = getattr(type(module), "forward", None)
    default_forward = getattr(sys.modules["torch"].nn.Module, "forward", None)
    return forward is not default_forward and not hasattr(type(module), "training_step")


def _remember(module: Any) -> None:
    key = id(module)
    if key not in _modules.references:
        _modules.references[key] = weakref.ref(module, functools.partial(_forget, key))


def _forget(key: int, reference: Any) -> None:
    if _modules.references.get(key) is reference:
        del _modules.references[key]


def _watch() -> None:
    switch = targets.Switch()
    _modules.n_optimizers = _modules.n_searches = 0
    _modules.undos.append(lambda: setattr(switch, "on", False))
    _modules.undos.append(optimizers.on_optimizer(_note_optimizer))

    def watch_torch(torch: Any) -> None:
        if switch.on:
            module, parallel = torch.nn.Module, torch.nn.parallel
            _modules.undos.append(targets.replace(module, "__init__", _wrap_init))
            _modules.undos.append(
                targets.replace(module, "__setstate__", _wrap_init)
            )  # copied, unpickled
            _modules.undos.append(
                targets.replace(parallel.DistributedDataParallel, "__init__", _wrap_ddp_init)
            )
            _modules.undos.append(targets.replace(parallel.DataParallel, "__init__", _wrap_dp_init))

    imports.when_imported("torch", watch_torch)


def _wrap_init(original: Any, switch: targets.Switch) -> Any:
    compiles = compiling.get_is_compiling()

    @functools.wraps(original)
    def make(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if switch.on and not compiles():
            _remember(self)

    return make


def _wrap_ddp_init(original: Any, switch: targets.Switch) -> Any:
    """Act on a model before its gradients' buckets are made."""

    @functools.wraps(original)
    def spread(self: Any, *args: Any, **kwargs: Any) -> None:
        module = args[0] if args else kwargs.get("module")
        if switch.on and module is not None:
            _act_on(inner(module))
        original(self, *args, **kwargs)

    return spread


def _wrap_dp_init(original: Any, switch: targets.Switch) -> Any:
    """Let go of a model that is copied to several devices for each call: ours would not follow."""

    @functools.wraps(original)
    def replicate(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if switch.on and _replicates(self):
            recorder.report_unobserved("edit", "DataParallel copies the model to several devices")
            for watcher in tuple(_modules.watchers):
                watcher.let_go(inner(self))

    return replicate


def _replicates(shell: Any) -> bool:
    return type(shell).__name__ == "DataParallel" and len(shell.device_ids or ()) > 1


def _note_optimizer(optimizer: Any) -> None:
    _modules.n_optimizers += 1
    if _modules.n_optimizers > _MAX_OPTIMIZERS:
        return
    module = find_owner(optimizers.parameters(optimizer))
    if module is not None and not any(_replicates(shell) for shell in shells(module)):
        _act_on(module)


def _act_on(module: Any) -> None:
    if all(reference() is not module for reference in _modules.models):
        _modules.models.append(weakref.ref(module))
    for watcher in tuple(_modules.watchers):
        watcher.act_on(module)
