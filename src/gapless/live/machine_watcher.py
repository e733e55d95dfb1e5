"""Watch the machine where no run is watched: its figures, and who uses it."""

import os
import platform
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from gapless.launch.process_tree import Tree
from gapless.launch.samplers import Growth
from gapless.live.activity import PROC, TICK_NS
from gapless.live.gpus import Gpus, GpuShare, held_reasons, open_gpus
from gapless.live.machine import MachineSampler
from gapless.live.pauses import Pause
from gapless.live.processes import ProcessTable
from gapless.live.view import LiveView, ProcessView

_BUSY: Final = (1, 2, 3, 6, 7)  # columns of a row: user, nice, system, hard and soft interrupts
_NS: Final = 10**9


class CoreMeter(Struct):
    """Processors that are looked at again and again."""

    proc: Path = PROC
    _growth: Growth = field(default_factory=Growth)

    def look(self, now_ns: int) -> tuple[float, ...]:
        """Return the share of the time since the last look that each was busy; empty at first."""
        shares: list[float] = []
        with suppress(OSError, ValueError, IndexError):
            for row in (self.proc / "stat").read_text(encoding="ascii").splitlines():
                words = row.split()
                if words[0].startswith("cpu") and words[0] != "cpu":
                    busy_ns = sum(int(words[column]) for column in _BUSY) * TICK_NS
                    rate = self._growth.rate(words[0], now_ns, busy_ns)
                    shares += [] if rate is None else [min(1.0, rate / _NS)]
        return tuple(shares)


_TABLE_RATIO: Final = 80  # times what a look at all processes takes: until the next one
_NO_SPOOL: Final = Path("/nonexistent/gapless-spool")


class MachineWatcher(Struct):
    """The machine, and what is known of its processes so far."""

    table: ProcessTable = field(default_factory=ProcessTable)
    cores: CoreMeter = field(default_factory=CoreMeter)
    _sampler: MachineSampler | None = None
    _gpus: Gpus | None = None
    _gpu_names: dict[str, str] = field(default_factory=dict[str, str])
    _processes: tuple[ProcessView, ...] = ()
    _table_pause: Pause = field(default_factory=lambda: Pause(_TABLE_RATIO, 0.0))
    _asked_us: int = field(default_factory=lambda: time.time_ns() // 1000)

    def look(self) -> LiveView:
        """Return what is to be seen now; rates are there from the second look on."""
        now_ns = time.monotonic_ns()
        if self._sampler is None:
            self._sampler = MachineSampler(Tree(0, _NO_SPOOL))
            self._sampler.open()
            self._gpus = open_gpus()
            self._gpu_names = {} if self._gpus is None else self._gpus.names()
        self._sampler.sample(now_ns)
        cores = self.cores.look(now_ns)
        if self.table.processors is None or self._table_pause.is_due():
            with self._table_pause.measure():
                self._processes = self.table.look(now_ns, self._gpu_shares())
        figures = {
            name: value
            for name, value in self._sampler.figures.items()
            if name not in {"cpu.tree", "cpu.foreign"}  # there is no run that they could be of
        }
        total, listed = figures.get("cpu.total"), self.table.processors
        if total is not None and listed is not None:
            figures["cpu.unlisted"] = max(0.0, total - 100 * listed)
        return LiveView(
            host=platform.node(),
            taken_unix_ns=time.time_ns(),
            run=None,
            machine=figures,
            held=held_reasons(figures),
            gpu_names=self._gpu_names,
            processors=os.cpu_count(),
            processes=self._processes,
            notes=tuple(self._sampler.notes),
            cores=cores,
        )

    def _gpu_shares(self) -> dict[int, GpuShare]:
        """Return who computes on the GPUs, and how much since the last look at processes."""
        since_us, self._asked_us = self._asked_us, time.time_ns() // 1000
        return {} if self._gpus is None else self._gpus.use_by_process(since_us)

    def await_window(self, n_windows: int) -> None:
        """Await nothing: there is no run."""

    def study_when_due(self) -> bool:
        """Study nothing: there is no run."""
        return False
