"""Watch the machine where no run is watched: its figures, and who uses it."""

import os
import platform
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gapless.launch.process_tree import Tree
from gapless.live.gpus import Gpus, held_reasons, open_gpus
from gapless.live.machine import MachineSampler
from gapless.live.processes import ProcessTable
from gapless.live.view import LiveView

_NO_SPOOL: Final = Path("/nonexistent/gapless-spool")


@dataclass
class MachineWatcher:
    """The machine, and what is known of its processes so far."""

    table: ProcessTable = field(default_factory=ProcessTable)
    _sampler: MachineSampler | None = None
    _gpus: Gpus | None = None
    _gpu_names: dict[str, str] = field(default_factory=dict[str, str])

    def look(self) -> LiveView:
        """Return what is to be seen now; rates are there from the second look on."""
        now_ns = time.monotonic_ns()
        if self._sampler is None:
            self._sampler = MachineSampler(Tree(0, _NO_SPOOL))
            self._sampler.open()
            self._gpus = open_gpus()
            self._gpu_names = {} if self._gpus is None else self._gpus.names()
        self._sampler.sample(now_ns)
        gpu_memory = {} if self._gpus is None else self._gpus.memory_by_process()
        figures = {
            name: value
            for name, value in self._sampler.figures.items()
            if name not in {"cpu.tree", "cpu.foreign"}  # there is no run that they could be of
        }
        return LiveView(
            host=platform.node(),
            taken_unix_ns=time.time_ns(),
            run=None,
            machine=figures,
            held=held_reasons(figures),
            gpu_names=self._gpu_names,
            processors=os.cpu_count(),
            processes=self.table.look(now_ns, gpu_memory),
            notes=tuple(self._sampler.notes),
        )

    def await_window(self, n_windows: int) -> None:
        """Await nothing: there is no run."""

    def study_when_due(self) -> bool:
        """Study nothing: there is no run."""
        return False
