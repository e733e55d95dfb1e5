"""Checkpoints: torch.save and its like, as marks at the user's line; the files that they write."""

from __future__ import annotations

import os
import sys
from typing import Any

from ... import wire
from .. import declare, patching, recorder, tracebacks
from . import calls

_SPAN = "gapless:save"


@declare.hook("torch")
def _watch_torch(torch: Any) -> None:
    make = _make("f", 1)
    calls.replace_everywhere((torch.serialization, torch), "save", make)
    jit = sys.modules.get("torch.jit._serialization")
    calls.replace_everywhere((jit, getattr(torch, "jit", None)), "save", make)


@declare.hook("torch.distributed.checkpoint")
def _watch_distributed(checkpoint: Any) -> None:
    saver = sys.modules.get(checkpoint.__name__ + ".state_dict_saver")
    make = _make("checkpoint_id", -1)
    for name in ("save", "async_save", "save_state_dict"):
        calls.replace_everywhere((saver, checkpoint), name, make)


@declare.hook("safetensors.torch")
def _watch_safetensors(module: Any) -> None:
    make = _make("filename", 1)
    for name in ("save_file", "save_model"):
        if hasattr(module, name):
            patching.replace(module, name, make)


def _make(argument: Any, position: Any) -> Any:
    def note(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        target = kwargs.get(argument)
        if target is None and 0 <= position < len(args):
            target = args[position]
        return _path(target)

    return calls.around_outermost(wire.CHECKPOINT, "saving", _SPAN, note, _note_written)


def _path(target: Any) -> Any:
    """Return the path of a file or of what is opened on one; nothing if it is in memory."""
    if not isinstance(target, (str, os.PathLike)):
        target = getattr(target, "name", None)
    if not isinstance(target, (str, os.PathLike)):
        return None
    return os.path.abspath(os.fspath(target))


def _note_written(path: Any) -> int:
    """Note the file; return its size in bytes, −1 where it cannot be known."""
    if not isinstance(path, str):
        return -1
    recorder.write(wire.FILES, {"read": {}, "written": [path]})
    try:
        return os.stat(path).st_size if os.path.isfile(path) else -1
    except OSError as error:
        tracebacks.pass_on(error)
        return -1
