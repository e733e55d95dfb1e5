"""How busy each processor of the machine is: the kernel counts it in /proc/stat."""

from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from gapless.launch.samplers import Growth
from gapless.live.activity import PROC, TICK_NS

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
