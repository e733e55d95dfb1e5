"""What was measured so far, written whole after each round: an end at any time leaves it there."""

from __future__ import annotations

import contextlib
import json
import os
import time
import traceback
from typing import Any

from ... import wire

_WRITE_S = 0.5  # between two writes of what grows with each cell


class Result:
    """The result and progress files in the spool."""

    def __init__(self, spool: str) -> None:
        self._path = os.path.join(spool, wire.DATA_RESULT)
        self._progress_path = os.path.join(spool, wire.DATA_PROGRESS)
        self._end_path = self._path + ".ended"
        self._written_s = 0.0
        self._document: dict[str, Any] = {
            "subject": {},
            "series": {},
            "pixels": [],
            "absent": {},
            "notes": [],
            "files": [],
            "failed": None,
            "complete": False,
        }

    def describe(self, **values: Any) -> None:
        """Add what the loader, or the model, is like, or what was seen."""
        self._document["subject"].update(values)

    def add(self, figures: dict[tuple[str, str], Any]) -> None:
        """Add what one round gave."""
        for (stage, variant), ns in figures.items():
            self._document["series"].setdefault(stage, {}).setdefault(variant, []).append(ns)

    def set_absent(self, stage: str, variant: str, why: str) -> None:
        """Say why something was not measured."""
        self._document["absent"].setdefault(stage, {})[variant] = why

    def set_pixels(self, differences: list[dict[str, Any]]) -> None:
        """Say how far the results of alternatives are off the present ones."""
        self._document["pixels"] = differences

    def set_files(self, files: list[str]) -> None:
        """Say which files samples were read from."""
        self._document["files"] = files

    def note(self, sentence: str) -> None:
        """Add a sentence, once."""
        if sentence not in self._document["notes"]:
            self._document["notes"].append(sentence)

    def report_progress(self, words: str) -> None:
        """Let the launcher show a few words."""
        with contextlib.suppress(OSError):
            _write_whole(self._progress_path, words)

    def write(self) -> None:
        """Write what there is so far."""
        self._written_s = time.monotonic()
        with contextlib.suppress(OSError):
            _write_whole(self._path, json.dumps(self._document))

    def write_now_and_then(self) -> None:
        """Write what there is so far, unless that was done a moment ago."""
        if time.monotonic() - self._written_s >= _WRITE_S:
            self.write()

    def end(self) -> None:
        """Write everything: it is complete."""
        self._document["complete"] = True
        self.write()
        self._set_ended()

    def fail(self, slug: str, why: str) -> None:
        """Write why nothing more can be measured."""
        self._document["failed"] = {"slug": slug, "why": why}
        self.write()
        self._set_ended()

    def fail_by(self, error: BaseException) -> None:
        """Write that an error ended it, and the line of the user's that raised it, if one did."""
        self.fail("raised", describe_error(error))

    def is_ended(self) -> bool:
        """Return whether another process of this arm has ended its measurement."""
        return os.path.exists(self._end_path)

    def _set_ended(self) -> None:
        with contextlib.suppress(OSError):
            _write_whole(self._end_path, "")


def describe_error(error: BaseException) -> str:
    """Return an error's class, its first line, and where it was raised."""
    text = str(error).strip().splitlines()
    words = f"{type(error).__name__}: {text[0][:200]}" if text else type(error).__name__
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if not _is_ours(frame.filename)
    ]
    return f"{words} ({frames[-1].filename}:{frames[-1].lineno})" if frames else words


def _is_ours(path: str) -> bool:
    return path.startswith(os.path.dirname(os.path.dirname(__file__)))


def _write_whole(path: str, text: str) -> None:
    partial = f"{path}-{os.getpid()}"
    with open(partial, "w") as file:
        file.write(text)
    os.replace(partial, path)
