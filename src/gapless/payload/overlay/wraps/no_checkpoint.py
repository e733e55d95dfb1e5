"""no-checkpoint: what a training saves is saved once; or every n-th time.

Of each line and kind of object (its class, and the keys of a dictionary) the first checkpoint is
written in earnest. A later one to a path where a file is leaves that file, with a new time; to a
path where none is, it becomes a second name (a hard link) of the first, wherever that was moved
to. So code that renames, lists, loads, uploads or deletes checkpoints finds a whole one of the
right kind, though an old one; only a rename onto another name of the same file leaves both. Where
no such name can be made, because the first was deleted or the file system has no links, the
checkpoint is written again. What is saved into memory or an open file is saved as ever, and
recorded. An ablation, for trials: it writes less than it should.
"""

from __future__ import annotations

import contextlib
import functools
import os
import weakref
from _thread import get_ident
from typing import Any

from ... import recorder
from ...stacks import locations
from ..patch import edit_counters, multi_patch, targets

TARGET = "checkpoint"
_KEYS = 64  # of a dictionary, that tell its kind
# module and class, functions, the argument that names the path and its position
_LIGHTNING = "fabric.plugins.io.torch_io"
_FILES = (
    (("torch", None), ("save",), ("f", 1)),
    (("torch.jit", None), ("save",), ("f", 1)),
    (("safetensors.torch", None), ("save_file", "save_model"), ("filename", 1)),
    ((f"lightning.{_LIGHTNING}", "TorchCheckpointIO"), ("save_checkpoint",), ("path", 2)),
    ((f"lightning_{_LIGHTNING}", "TorchCheckpointIO"), ("save_checkpoint",), ("path", 2)),
)
_DISTRIBUTED = ("save", "async_save", "save_state_dict")


class _SavedFile:
    """The first checkpoint of a line and kind; as long as it is open it is found again."""

    def __init__(self, path: str) -> None:
        self.file = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self.file).atexit = False

    def name(self, path: str) -> bool:
        """Let a path name it; return whether it does."""
        try:
            if os.path.isfile(path):
                os.utime(path)
            else:
                os.link(os.readlink(f"/proc/self/fd/{self.file}"), path)
        except OSError:  # it was deleted, or no links here
            return False
        return True


class _Checkpoints:
    """What was saved so far."""

    def __init__(self, number: int, period: Any) -> None:
        self.number, self.every = number, period
        self.saved: dict[Any, Any] = {}
        self.counts: dict[Any, int] = {}
        self.inside: set[int] = set()  # threads that are in a call of these

    def due(self, key: Any) -> bool:
        """Count a checkpoint; return whether it is to be written."""
        count = self.counts[key] = self.counts.get(key, 0) + 1
        return key not in self.saved or (self.every is not None and count % self.every == 0)

    def left_out(self) -> None:
        """Record that a checkpoint was not written."""
        edit_counters.record_effect(self.number, TARGET, "written", "the first one's file")

    @contextlib.contextmanager
    def outermost(self) -> Any:
        """Let what is called inside through: it is part of this call."""
        thread = get_ident()
        self.inside.add(thread)
        try:
            yield
        finally:
            self.inside.discard(thread)

    def applies(self, switch: targets.Switch) -> bool:
        """Return whether a call is the training's own."""
        return switch.on and get_ident() not in self.inside


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; option "every": every n-th checkpoint is written. Return what reverts it."""
    period = edit.get("options", {}).get("every")
    checkpoints = edit.setdefault("kept", _Checkpoints(number, period))  # it may be applied again
    replacements = multi_patch.Replacements(number, TARGET)
    for owner_names, names, argument in _FILES:
        replacements.replace(
            owner_names, names, functools.partial(_wrap_save, checkpoints, argument)
        )
    folders = functools.partial(_wrap_distributed_save, checkpoints)
    replacements.replace(("torch.distributed.checkpoint", None), _DISTRIBUTED, folders)
    return replacements.off


def _wrap_save(
    checkpoints: _Checkpoints, argument: Any, original: Any, switch: targets.Switch
) -> Any:
    name, position = argument

    @functools.wraps(original)
    def save(*args: Any, **kwargs: Any) -> Any:
        if not checkpoints.applies(switch):
            return original(*args, **kwargs)
        path = _path(kwargs.get(name, args[position] if len(args) > position else None))
        with checkpoints.outermost():
            if path is None:
                recorder.report_unobserved(
                    "no checkpoint", "saved into memory or an open file: it was saved"
                )
                return original(*args, **kwargs)
            key = _key(args[position - 1] if len(args) >= position else None)
            if not checkpoints.due(key) and checkpoints.saved[key].name(path):
                return checkpoints.left_out()
            result = original(*args, **kwargs)
            if os.path.isfile(path):
                checkpoints.saved[key] = _SavedFile(path)
            return result

    return save


def _wrap_distributed_save(checkpoints: _Checkpoints, original: Any, switch: targets.Switch) -> Any:
    """Return what saves a distributed checkpoint: all ranks must do so, or none."""

    @functools.wraps(original)
    def save(*args: Any, **kwargs: Any) -> Any:
        if not checkpoints.applies(switch):
            return original(*args, **kwargs)
        path, key = _folder(args, kwargs), _key(None)
        with checkpoints.outermost():
            if not checkpoints.due(key):
                first_path, result = checkpoints.saved[key]
                _link_all(first_path, path)
                checkpoints.left_out()
                return result
            result = original(*args, **kwargs)
            checkpoints.saved[key] = (path, result)
            return result

    return save


def _key(content: Any) -> Any:
    """Return the line of the user's, and the kind of what is saved there."""
    location = locations.users_line(1)
    keys = tuple(map(str, list(content)[:_KEYS])) if isinstance(content, dict) else ()
    return location, type(content), keys


def _path(target: Any) -> Any:
    if isinstance(target, (str, os.PathLike)):
        name = os.fsdecode(target)
        return None if "://" in name else name
    return None


def _folder(args: Any, kwargs: Any) -> Any:
    writer = kwargs.get("storage_writer") or (args[1] if len(args) > 1 else None)
    return _path(kwargs.get("checkpoint_id") or getattr(writer, "path", None))


def _link_all(source: Any, path: Any) -> None:
    """Let a folder hold what the first one does, as far as that can be."""
    if source is None or path is None or os.path.exists(path):
        return
    for folder, _, names in os.walk(source):
        target_folder = os.path.join(path, os.path.relpath(folder, source))
        with contextlib.suppress(OSError):
            os.makedirs(target_folder, exist_ok=True)
        for name in names:
            with contextlib.suppress(OSError):
                os.link(os.path.join(folder, name), os.path.join(target_folder, name))
