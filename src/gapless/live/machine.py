"""The machine now, by the samplers of ``launch``; one that fails is given up and noted."""

from typing import Final

from msgspec import Struct, field

from gapless.launch.process_tree import Tree
from gapless.launch.samplers import AbsentError, Sampler, cpu, disk, gpu, memory, network, pressure
from gapless.launch.unobserved import contain_failures, describe_error

_MAX_FAILURES: Final = 3  # in a row, and a sampler is given up
_QUIET: Final = frozenset({"pressure"})  # many kernels have none, and nobody misses it


class MachineSampler(Struct):
    """The samplers that this machine has, and what they said last."""

    tree: Tree
    notes: list[str] = field(default_factory=list[str])
    figures: dict[str, float] = field(default_factory=dict[str, float])
    _samplers: dict[str, Sampler] = field(default_factory=dict[str, Sampler])
    _failures: dict[str, int] = field(default_factory=dict[str, int])

    def open(self) -> None:
        """Open every sampler that the machine has."""
        factories = {
            "processors": lambda: cpu.open_sampler(self.tree),
            "memory": memory.open_sampler,
            "disks": disk.open_sampler,
            "network": network.open_sampler,
            "pressure": pressure.open_sampler,
            "GPUs": lambda: gpu.open_sampler(self.tree, self._note, None),
        }
        for name, open_sampler in factories.items():
            with contain_failures() as failures:
                try:
                    self._samplers[name] = open_sampler()
                except AbsentError as error:
                    if name not in _QUIET:
                        self._note(name, str(error))
            for failure in failures:
                self._note(name, describe_error(failure))

    def sample(self, now_ns: int) -> None:
        """Ask each sampler; what it says seldom stays as it was last."""
        for name, sampler in list(self._samplers.items()):
            with contain_failures() as failures:
                self.figures.update(sampler(now_ns))
            self._failures[name] = self._failures.get(name, 0) + 1 if failures else 0
            if self._failures[name] >= _MAX_FAILURES:
                self._note(name, f"gave up: {describe_error(failures[0])}")
                del self._samplers[name]

    def _note(self, subject: str, why: str) -> None:
        sentence = f"{subject}: {why}"
        if sentence not in self.notes:
            self.notes.append(sentence)
