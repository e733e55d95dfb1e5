"""Enter a Python process of the user's: almost nothing until torch is looked for."""

from __future__ import annotations

import os
import sys
from typing import Any

from . import imports
from .log import parentage
from .process_state import STATE, keep_fields

HOOKS = (
    "hooks.optimizer",
    "hooks.loader",
    "hooks.stand_ins",
    "hooks.sampling",
    "hooks.collector",
    "hooks.fetch",
    "hooks.stages",
    "hooks.files",
    "hooks.saving",
    "hooks.logging",
    "hooks.evaluation",
    "hooks.syncs",
    "hooks.models",
    "hooks.precision",
    "hooks.distributed",
    "hooks.allocator",
    "hooks.device_steps",
    "hooks.counts",
    "hooks.passes",
    "hooks.forwards",
    "hooks.compiler",
    "hooks.profilers",
    "windows",
)
_TRIAL = '"trial":{'  # in the options
_entry = keep_fields(is_loaded=False, awaits_exit=False)


def enter(name: str, path: Any, target: Any) -> Any:
    """Wait for the modules that concern us; return the spec of ``name``, which is looked for."""
    if _TRIAL in os.environ.get("GAPLESS_OPTIONS", ""):
        _run_safely("trial", _seed)
    imports.when_requested("torch", load)
    imports.when_imported("multiprocessing.spawn", parentage.watch_spawn)
    imports.lend("gapless", os.path.join(os.path.dirname(__file__), "lent.py"))
    return imports.find(name, path, target)


def _seed() -> None:
    """Have generators seeded as soon as they are imported, which may be long before torch is."""
    from . import recorder
    from .trial import seeds

    seeds.begin(recorder.options()["trial"])


def load() -> None:
    """Install the hooks; each waits for the module that it is about."""
    if _entry.is_loaded:
        return
    _entry.is_loaded = True
    from . import recorder
    from .stacks import stacks, unstepped

    recorder.resume()
    stacks.install()
    recorder.on_first(_watch_exit)
    for name in HOOKS:
        imports.attempt(name, _install, name)
    _run_safely("gapless.step", _mark_steps)
    _run_safely("unstepped", unstepped.install)
    _begin_trial(recorder)
    _prepare()


def _install(name: str) -> None:
    import importlib

    from . import declare, recorder

    declare.install(importlib.import_module(f"{__package__}.{name}"), recorder)


def _mark_steps() -> None:
    """Import what ``gapless.step()`` calls where it is there."""
    from . import marking  # noqa: F401  # pyright: ignore[reportUnusedImport]


def _begin_trial(recorder: Any) -> None:
    """Apply edits to the training and begin the trial, where there are any; after our hooks.

    What cannot be done is written down: a trial counts for nothing then.
    """
    options = recorder.options()
    edits, trial = options.get("edits"), options.get("trial")
    if edits:
        from . import overlay

        _run_safely("edit", lambda: overlay.apply(edits))
    if trial:
        from . import trial as trials

        _run_safely("trial", lambda: trials.begin(trial, finish))


def _run_safely(topic: str, action: Any) -> None:
    """Do what may fail; write down why, if it does."""
    from . import recorder, tracebacks

    try:
        action()
    except Exception as error:
        if tracebacks.from_a_signal_handler(error):
            raise
        recorder.report_unobserved(topic, f"{type(error).__name__}: {error}"[:300])


def is_in() -> bool:
    """Return whether the hooks are installed."""
    return _entry.is_loaded


def leave(exit_kind: str) -> None:
    """Undo everything in this process: it is as if we had never been there."""
    from . import recorder

    imports.forget_all()
    sys.modules.pop(f"{__package__}.marking", None)
    overlay = sys.modules.get(f"{__package__}.overlay")
    if overlay is not None:
        overlay.revert()
    recorder.stop_everything(exit_kind)
    _entry.is_loaded = False


def _prepare() -> None:
    """Register for forks and the end, once a process: neither can be undone before 3.14."""
    STATE.watch_forks()
    if not _entry.awaits_exit:
        _entry.awaits_exit = True
        import atexit

        atexit.register(_at_exit)


def _at_exit() -> None:
    from . import patching
    from .stacks import stacks, unstepped

    try:
        finish("exit")
        for thread in (stacks, unstepped):
            _run_safely("threads", thread.wait_for_end)
    finally:  # a second Ctrl-C ends it early
        patching.end()


def finish(exit_kind: str) -> None:
    """Write everything, and that this process ends: it is about to."""
    from . import recorder
    from .stacks import stacks, unstepped

    _run_safely("unstepped", unstepped.finish)
    stacks.finish()
    files = sys.modules.get(f"{__package__}.hooks.files")
    if files is not None:
        files.finish()
    for name in ("overlay", "trial"):
        module = sys.modules.get(f"{__package__}.{name}")
        if module is not None:
            module.finish()
    windows = sys.modules.get(f"{__package__}.windows")
    if windows is not None:
        windows.leaving(exit_kind)
    recorder.end(exit_kind)


def _watch_exit() -> None:
    """Watch ``os._exit`` and ``exec``, too: workers leave by it, and many a script."""
    from . import patching

    if patching.is_replaced(os, "_exit"):  # a forked child has its parent's
        return

    def before(_args: tuple, _kwargs: dict) -> None:
        finish("os._exit")

    _replace("_exit", patching.around("exit", before, None))

    def write(_args: tuple, _kwargs: dict) -> None:
        sys.modules[f"{__package__}.recorder"].flush(last=True)

    for name in ("execv", "execve"):  # a training that starts itself anew; or goes on, if it fails
        _replace(name, patching.around("exit", write, None))


def _replace(name: str, make: Any) -> None:
    """Replace a function in ``os`` and where it comes from: by that name it is pickled."""
    from . import patching

    home = sys.modules.get(getattr(os, name).__module__)
    patching.replace(os, name, make)
    replacement = getattr(os, name)
    if home is not None and home is not os:
        patching.replace(home, name, lambda _original: replacement)
