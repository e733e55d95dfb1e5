"""Disks: ``disk.NAME.read``, ``.written`` in bytes a second, ``.busy`` in per cent of the time."""

from pathlib import Path
from typing import Final

from gapless.launch.samplers import AbsentError, Growth, Sampler, Values, keep_observed

_STATISTICS: Final = Path("/proc/diskstats")
_DEVICES: Final = Path("/sys/block")  # whole devices, no partitions
_SECTOR: Final = 512  # bytes; in this file always (Documentation/admin-guide/iostats.rst)
_NO_DISKS: Final = ("loop", "ram", "zram", "sr", "fd")


def open_sampler() -> Sampler:
    """Return the sampler of disks."""
    if not _STATISTICS.exists():
        raise AbsentError("there is no /proc/diskstats")
    growth = Growth()

    def sample(now: int) -> Values:
        devices = {path.name.replace("!", "/") for path in _DEVICES.iterdir()}
        values: dict[str, float | None] = {}
        for line in _STATISTICS.read_text(encoding="ascii").splitlines():
            words = line.split()
            name = words[2]
            if name not in devices or name.startswith(_NO_DISKS):
                continue
            busy = growth.rate(f"{name} busy", now, int(words[12]))
            disk = f"disk.{name}"
            values[f"{disk}.read"] = growth.rate(disk + " r", now, int(words[5]) * _SECTOR)
            values[f"{disk}.written"] = growth.rate(disk + " w", now, int(words[9]) * _SECTOR)
            values[f"{disk}.busy"] = None if busy is None else min(100.0, busy / 10)  # ms a s
        return keep_observed(values)

    return sample
