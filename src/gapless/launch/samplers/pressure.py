"""Pressure stall information: ``pressure.cpu.some``, ``pressure.io.full`` … in per cent of time.

"some": at least one task of the machine waited; "full": all that were not idle did.
Source: Documentation/accounting/psi.rst.
"""

from pathlib import Path
from typing import Final

from gapless.launch.samplers import AbsentError, Growth, Sampler, Values, keep_observed

_FOLDER: Final = Path("/proc/pressure")
_KINDS: Final = ("cpu", "io", "memory")


def open_sampler() -> Sampler:
    """Return the sampler of pressure."""
    try:
        kinds = [kind for kind in _KINDS if (_FOLDER / kind).read_bytes()]
    except OSError as error:
        raise AbsentError(f"{_FOLDER}: {error.strerror}") from error
    growth = Growth()

    def sample(now: int) -> Values:
        values: dict[str, float | None] = {}
        for kind in kinds:
            for line in (_FOLDER / kind).read_text(encoding="ascii").splitlines():
                share, *_, total = line.split()
                name = f"pressure.{kind}.{share}"
                stalled = growth.rate(name, now, int(total.removeprefix("total=")))
                values[name] = None if stalled is None else stalled / 10_000  # µs a second
        return keep_observed(values)

    return sample
