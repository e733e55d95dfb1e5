"""Export a model in all formats that were asked for, check each, and time all in turns."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any, Callable

from ..feeding.result import Result, describe_error
from . import failures, formats, memory, parity, rounds, trees
from .formats import UnavailableError, Way

if TYPE_CHECKING:
    from .subject import CaughtModel

_SMALL_BATCHES = 1, 8


def export(subject: CaughtModel, plan: dict[str, Any], result: Result) -> None:
    """Do all of it, and write it. ``plan``: {"to": formats, "seconds", "folder"}."""
    session = _ExportSession(subject, plan, result)
    if session.look():
        session.export_all()
        session.warm_up_all()
        session.measure()
        session.finish()


class _ExportSession:
    """One export: the ways to run the model so far, and what each gave."""

    def __init__(self, subject: CaughtModel, plan: dict[str, Any], result: Result) -> None:
        self._subject, self._result = subject, result
        self._formats: list[str] = list(plan["to"])
        self._seconds = float(plan["seconds"])
        self._folder = str(plan["folder"])
        self._entries: dict[str, dict[str, Any]] = {}  # by way
        self._ways: list[Way] = []
        self._calls: dict[str, Any] = {}  # (args, kwargs) by batch size
        self._outputs: dict[str, Any] = {}  # of the model itself, likewise
        self._cells: dict[rounds.Cell, float] = {}

    # ── Looking ─────────────────────────────────────────────────────────────────────────────────

    def look(self) -> bool:
        """Run the model itself; return whether that can be done."""
        subject = self._subject
        self._result.report_progress("looking at the model")
        self._result.describe(**subject.describe())
        try:
            first = subject.run(*subject.example)
        except Exception as error:
            why = f"the model itself raises when it is called again: {describe_error(error)}"
            self._result.fail("raised", why)
            return False
        subject.find_batch()
        self._list_calls()
        again = parity.compare_outputs(first, subject.run(*subject.example))
        if not again["within"]:
            self._result.note(
                "the model gives another output for the same input each time: parity says little"
            )
        self._result.describe(**subject.describe(), is_steady=again["within"])
        self._result.write()
        return True

    def _list_calls(self) -> None:
        """List the inputs of each batch size; without a batch those that were caught."""
        subject = self._subject
        if subject.batch is None:
            self._calls["as caught"] = subject.example
            return
        for size in sorted({*_SMALL_BATCHES, subject.batch.size}):
            is_own = size == subject.batch.size
            inputs = subject.example if is_own else subject.batch.resize(subject.example, size)
            self._calls[str(size)] = inputs

    # ── Exporting ───────────────────────────────────────────────────────────────────────────────

    def export_all(self) -> None:
        """Make all ways to run the model; what cannot be made has its reason."""
        self._make_way(formats.EAGER, lambda: formats.make_eager(self._subject))
        self._make_way(formats.COMPILED, lambda: formats.make_compiled(self._subject))
        os.makedirs(self._folder, exist_ok=True)
        for name in self._formats:
            self._result.report_progress(f"exporting: {name}")
            export_model = formats.EXPORTERS[name]
            self._make_way(name, lambda make=export_model: make(self._subject, self._folder))
            self._write()

    def _make_way(self, name: str, make: Callable[[], Way]) -> None:
        entry: dict[str, Any] = {"files": [], "parity": None, "why": None, "failure": None}
        self._entries[name] = entry
        before, start = memory.read_bytes(), time.monotonic()
        try:
            way = make()
            entry["made_s"] = time.monotonic() - start
            own_inputs = self._own_inputs()
            way.call(*own_inputs)
            entry["first_call_s"] = time.monotonic() - start - entry["made_s"]
        except UnavailableError as error:
            entry["why"] = str(error)
            return
        except Exception as error:
            entry["failure"] = failures.describe(error)
            entry["why"] = f"{name} failed: {entry['failure']['error']}"
            return
        entry["memory"] = memory.growth(before, memory.read_bytes())
        entry["files"] = [[os.path.basename(file), os.path.getsize(file)] for file in way.files]
        entry["untimed"] = way.untimed
        self._ways.append(way)

    def _own_inputs(self) -> Any:
        """Return the inputs that were caught."""
        return self._subject.example

    # ── Checking and timing ─────────────────────────────────────────────────────────────────────

    def warm_up_all(self) -> None:
        """Run every way at every batch size, and compare its outputs with the model's own."""
        for batch, inputs in self._calls.items():
            for way in self._ways:
                self._result.report_progress(f"checking: {way.name}, batch {batch}")
                self._check(way, batch, inputs)
        self._write()

    def _check(self, way: Way, batch: str, inputs: Any) -> None:
        cell = rounds.Cell(batch, way.name, lambda: way.call(*inputs))
        try:
            output = cell.call()
            took_s = rounds.warm_up(cell)
        except Exception as error:
            self._result.set_absent(batch, way.name, failures.describe(error)["error"])
            return
        if way.name == formats.EAGER:
            self._outputs[batch] = output
        elif batch in self._outputs:
            self._add_parity(way, batch, output)
        if way.untimed is None:
            self._cells[cell] = took_s
        else:
            self._result.set_absent(batch, way.name, way.untimed)

    def _add_parity(self, way: Way, batch: str, output: Any) -> None:
        """Keep how far a way is off, for the batch size at which it is farthest."""
        try:
            difference = parity.compare_outputs(
                self._outputs[batch], output, is_short=self._subject.is_short()
            )
        except Exception as error:  # sparse, nested, of a class of its own
            why = f"they cannot be compared: {describe_error(error)}"
            difference = {"within": False, "output": None, "why": why}
        difference["batch"] = batch
        entry = self._entries[way.name]
        if entry["parity"] is None or parity.badness(difference) > parity.badness(entry["parity"]):
            entry["parity"] = difference

    def measure(self) -> None:
        """Time all ways in turns."""
        with self._subject.surroundings():
            number = rounds.time_rounds(
                self._cells, self._seconds, self._add, self._result.report_progress
            )
        self._result.describe(rounds=number)

    def _add(self, figures: dict[tuple[str, str], Any]) -> None:
        self._result.add(figures)
        self._result.write_now_and_then()

    def finish(self) -> None:
        """Write all of it."""
        self._write()
        self._result.end()

    def _write(self) -> None:
        torch = sys.modules["torch"]
        for note in self._subject.notes:
            self._result.note(note)
        self._result.describe(
            **self._subject.describe(),
            ways=self._entries,
            torch=torch.__version__,
            threads=torch.get_num_threads(),
            processor=_name_device(self._subject),
        )
        self._result.write()


def _name_device(subject: CaughtModel) -> str:
    torch = sys.modules["torch"]
    tensors = trees.tensors_of(subject.example)
    if tensors and tensors[0].is_cuda:
        return str(torch.cuda.get_device_name(tensors[0].device))
    return "CPU"
