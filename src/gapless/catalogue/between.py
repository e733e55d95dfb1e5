"""What lies between the operators of the training thread: Python that holds a step up, or usual."""

from dataclasses import dataclass
from typing import Final

from gapless.catalogue import ranked, sampled, windowed
from gapless.catalogue.filing import named_ns
from gapless.model.host_code import HostCode
from gapless.model.interval import Interval
from gapless.model.seen import Seen

PYTHON: Final = "idle.host.python"
SILENT: Final = "idle.host.unframed"  # long, and no frame of any thread: told of Python too
OWN: Final = (PYTHON, SILENT)
# Of Python for each operator, those within others and of the backward pass counted too: 0.1 to
# 2.8 µs in 36 recorded trainings of all kinds.
_USUAL_NS: Final = 4_000.0
_MOSTLY, _MOST = 0.25, 0.7  # of these 4 µs: what operators of most trainings have, and of any
_MADE: Final = "aten::lift_fresh"  # torch.tensor calls it once, and three others from C++
_BESIDE: Final = 3
_OTHERS: Final = 0.5  # processors that others took
_CROWDED: Final = 0.1  # of a worker's life spent waiting for a processor


@dataclass(frozen=True)
class Excess:
    """Python beside what calling operators takes, in ns of a step."""

    python: float
    silent: float
    usual: float
    named: float  # in calls that other rules name: files-in-step, chores-in-step

    @property
    def lost(self) -> float:
        """Give what is neither usual nor named elsewhere: at least so much holds the step up."""
        return self.python - self.usual + self.silent - self.named


def excess_of(seen: Seen) -> Excess:
    """Give what lies between operators, and what of it is no excess. Raises ``NotSeenError``."""
    python = ranked.least(seen, PYTHON)
    silent = ranked.least(seen, SILENT)
    if _crowded(seen):  # it may wait for a processor: what was sampled alone is sure
        silent = min(silent, sampled.everything_ns(seen))
    called = windowed.calls(seen, "aten::*").count - _BESIDE * windowed.calls(seen, _MADE).count
    usual = min(python, _USUAL_NS * max(0.0, called))
    return Excess(python, silent, usual, min(named_ns(seen), python + silent - usual))


def held(seen: Seen, excess: Excess) -> tuple[HostCode | None, Interval]:
    """Give what holds the thread up, and for how long; what was sampled in a function goes first.

    Samples tell how much of what lies between operators it is; what they leave open, windows do.
    """
    whole, lost = excess.python + excess.silent, excess.lost
    code = sampled.explaining(seen, lost)
    known = None if code is None else sampled.held_ns(seen, code, direct(seen, excess))
    left = 1 - lost / whole if whole else 1.0
    usual = Interval(whole * (1 - min(1.0, 1.5 * left + 0.05)), lost, lost)
    if known is None:
        return code, usual
    most = whole - excess.named - _MOSTLY * excess.usual
    mid = max(lost, min(known.mid, most))
    low = max(usual.low, min(known.low, mid))
    return code, Interval(low, mid, max(mid, min(known.high, most)))


def direct(seen: Seen, excess: Excess) -> Interval:
    """Give how long operators take that the user's functions call themselves, of samples there.

    In these lines Python stands, and such operators; between operators Python stands, torch's too.
    """
    more = sampled.everything_ns(seen) - excess.python - excess.silent
    ends = (max(0.0, more + part * excess.usual) for part in (0.0, _MOSTLY, _MOST))
    return Interval(*ends)


def _crowded(seen: Seen) -> bool:
    """Tell whether processes wait for processors: then a thread that does nothing may wait too."""
    recorded = seen.study.recorded
    if recorded is None:
        return False
    workers = [one.workers for one in recorded.loaders if one.workers is not None]
    others = recorded.others.cores if recorded.others is not None else 0.0
    return others > _OTHERS or any((one.run_queue or 0.0) > _CROWDED for one in workers)
