"""The windows that are kept: their files in the spool, and what is written down of them."""

from __future__ import annotations

import os
from typing import Any

from ... import wire
from .. import recorder, tracebacks
from ..log import parentage
from . import save

FOLDER = "windows"
BYTES_AN_EVENT = 600  # in the file, at most (seen: 400)
SPARE = 256 << 20  # bytes that the spool's disk must keep


class WindowFiles:
    """The files of one process's windows."""

    def __init__(self, spool: str, setting: str, rank: int) -> None:
        self.spool, self.setting, self.rank = spool, setting, rank
        self.children: list[tuple[save.Child, dict[str, Any]]] = []

    def no_room(self, events: int) -> str | None:
        """Return why a window of so many events must not be opened; ``None`` if it fits."""
        try:
            save.make_folder(os.path.join(self.spool, FOLDER))
            disk = os.statvfs(self.spool)
        except OSError as error:
            tracebacks.pass_on(error)
            return f"the spool cannot be written to: {error.strerror}"
        if disk.f_bavail * disk.f_frsize < SPARE + 2 * BYTES_AN_EVENT * events:
            return "the disk of the spool is almost full"
        return None

    def try_out(self, result: Any) -> None:
        """Save the probe and remove it.

        The first file of a process asks CUDA for the properties of its devices, once; in a child
        it could not.
        """
        path = os.path.join(self.spool, FOLDER, f"probe-{os.getpid()}.json")
        if save.in_place(result, path):
            os.unlink(path)

    def keep(self, frame: dict[str, Any], result: Any, events: int, *, in_place: bool) -> None:
        """Save a window; in a child, unless that is unsafe or it must be ``in_place``."""
        recorder.flush()  # opens the log, whose name the file takes
        name = self._name(frame)
        path = os.path.join(self.spool, FOLDER, name)
        frame["path"] = f"{FOLDER}/{name}"
        recorder.write(wire.WINDOW, frame)  # now: the child may outlive us, and the file is known
        recorder.flush()
        start_ns = recorder.now()
        child = None
        setting = save.IN_PLACE if in_place else self.setting
        if save.no_child(setting, events, cuda=_cuda()) is None:
            child = save.in_child(result, path, start_ns)
        is_whole = None if child is not None else save.in_place(result, path)
        frame["save_ns"] = recorder.now() - start_ns
        if child is not None:
            self.children.append((child, frame))
        else:
            _write_window(frame, is_whole=bool(is_whole))

    def reap(self) -> int:
        """See which children are done; save in place what they could not. Return what it cost, ns.

        To free a result is not for nothing: 0.3 s for 100,000 events.
        """
        cost = 0
        for saving in tuple(self.children):
            child, frame = saving
            is_whole = child.check_saved(recorder.now())
            if is_whole is None:
                continue
            start_ns = recorder.now()
            self.children.remove(saving)
            if not is_whole:
                recorder.report_unobserved(
                    "saving beside the training", "the child failed; saved in place"
                )
                self.setting = save.IN_PLACE
                is_whole = save.in_place(child.result, child.path)
                frame["save_ns"] += recorder.now() - start_ns
            child.result = None
            _write_window(frame, is_whole=is_whole)
            recorder.mark(wire.OBSERVER, start_ns, recorder.now(), value=wire.OBSERVER_SAVED)
            cost += recorder.now() - start_ns
        return cost

    def _name(self, frame: dict[str, Any]) -> str:
        stem = parentage.lineage.stem or f"rank{self.rank}"
        name = f"{stem}-step{frame['first_step']}{'-stacks' * frame['stacks']}"
        for candidate in (name, f"{name}-pid{os.getpid()}"):
            path = os.path.join(self.spool, FOLDER, candidate)
            if not os.path.exists(path + ".json") and not os.path.exists(path + ".json.part"):
                return candidate + ".json"
        return f"{name}-pid{os.getpid()}-{recorder.now()}.json"


def _write_window(frame: dict[str, Any], *, is_whole: bool) -> None:
    """Write down how the saving of a window ended."""
    if not is_whole:
        frame.update(path=None, discarded="it could not be saved")
    recorder.write(wire.WINDOW, frame)


def _cuda() -> bool:
    import torch

    return torch.cuda.is_initialized()
