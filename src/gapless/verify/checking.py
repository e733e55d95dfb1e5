"""Delay injection: what a known delay costs, predicted by the replay, then measured by a trial.

As ``prediction.md`` has it (V3): a replay that tells what happens where time is added is believed
where time is taken away. A delay is so long that errors a prediction is expected to have
(``calibration.EXPECTED``) are 15 % of what it costs at most: less is not told from it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from gapless.model.change import Change, Delay, Feed
from gapless.model.edit import Applicability, Wrap
from gapless.model.facts import Facts, Loader
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.model.trial import Agreement, Check, Cost
from gapless.replay.calibration import EXPECTED
from gapless.study.ceilings import Ceilings
from gapless.study.price import Prices, price
from gapless.verify.wanted import Candidate

SLOPE: Final = 0.15  # of the delay, by which measured and predicted may differ
_PROVEN: Final = 2.0  # times the A/A noise: less is not proven of any effect
LOADER, THREAD = "the loader", "the training thread"
_LOADER: Final = "torch.utils.data.DataLoader"
_RESOLVED: Final = 0.5  # of the slope: so narrow is measured


@dataclass(frozen=True)
class Place:
    """A place that a run has for a delay, and what it would change there."""

    name: str
    ns: int
    most_ns: int  # that it can cost of a step
    family: str  # of predictions that are checked there
    change: Change
    edit: Wrap


@dataclass(frozen=True)
class Planned:
    """What is tried, and why nothing is checked elsewhere."""

    candidates: tuple[Candidate, ...]
    notes: tuple[str, ...]


def planned(prices: Prices) -> Planned:
    """Give a delay for each place of a run at which its cost is predicted."""
    step = prices.seen.step_ns
    if not step:
        return Planned((), ("the run has no steps that a delay could be compared with",))
    plain = replace(prices, ceilings=Ceilings())  # a check that failed may be made again
    found, notes = list[Candidate](), list[str]()
    for place in places(prices.seen, step):
        predicted = price(plain, (place.change,))
        if predicted.speedup is None:
            notes.append(f"not checked: {place.name}: nothing is predicted: {predicted.refused}")
        else:
            found.append(_candidate(place, _open(predicted.speedup, place.family), step))
    return Planned(tuple(found), tuple(notes))


def places(seen: Seen, step_ns: float) -> Iterator[Place]:
    """Give the places of a run: the loader that trains, if it is one; the training thread."""
    facts = seen.facts
    if facts is None:
        return
    every = [one for one in facts.loaders if one.trains]
    if len(every) == 1:
        yield _of_loader(every[0], facts, step_ns)
    ns = _rounded(step_ns * EXPECTED["host"] / SLOPE)
    edit = Wrap(_LOADER, "delay", {"place": "step", "ns": ns})
    yield Place(THREAD, ns, ns, "host", Delay(ns), edit)


def _of_loader(loader: Loader, facts: Facts, step_ns: float) -> Place:
    """Give a delay of each fetch: workers share it, and a step may take several batches."""
    each = max(1.0, loader.batches / facts.world.steps) if facts.world.steps else 1.0
    part = each / max(1, loader.num_workers)
    ns = _rounded(step_ns * EXPECTED["feed"] / SLOPE / part)
    where = loader.where if len(facts.loaders) > 1 else None
    edit = Wrap(_LOADER, "delay", {"place": "fetch", "ns": ns}, where)
    return Place(LOADER, ns, round(ns * part), "feed", Feed(loader.id, delay_ns=ns), edit)


def _rounded(ns: float) -> int:
    """Give a time in two digits: people read it."""
    return max(1000, int(float(f"{ns:.1e}")))


def _open(found: Interval, family: str) -> Interval:
    """Give the interval of a delay that is hidden altogether: not even that is known exactly."""
    if found.mid != 1:
        return found
    off = EXPECTED[family]
    return Interval(min(found.low, 1 / (1 + off)), 1.0, max(found.high, 1 / (1 - off)))


def _candidate(place: Place, speedup: Interval, step_ns: float) -> Candidate:
    return Candidate(
        fixes=(f"delay-in-{place.name.removeprefix('the ').replace(' ', '-')}",),
        summary=f"a delay of {place.ns / 1e6:.3g} ms in {place.name}",
        edits=(place.edit,),
        applicability=Applicability.TRIAL,
        predicted=speedup,
        check=Check(place.name, place.ns, place.most_ns, cost(speedup, step_ns), place.family),
        resolve=_RESOLVED * SLOPE * place.most_ns / step_ns,
    )


def cost(speedup: Interval, step_ns: float) -> Cost:
    """Give what a step takes longer, in ns: the slowest is the end of the highest cost."""
    return Cost(*(step_ns * (1 / one - 1) for one in (speedup.high, speedup.mid, speedup.low)))


@dataclass(frozen=True)
class Arms:
    """What arms say beside speed-ups: an unedited step, the A/A noise, whether others were busy."""

    step_ns: float | None
    noise: float | None
    busy: bool


def checked(check: Check, speedup: Interval | None, arms: Arms) -> Check:
    """Give a check with what was measured.

    Where others had the processors, a delay may cost what it would not alone: that refutes nothing.
    """
    if arms.step_ns is None or speedup is None or arms.noise is None:
        return check
    measured = cost(speedup, arms.step_ns)
    found = agreement(check, measured, _PROVEN * arms.noise * arms.step_ns)
    if found is Agreement.BESIDE and arms.busy:
        found = Agreement.UNDECIDED
    return replace(check, measured=measured, agreement=found)


def agreement(check: Check, measured: Cost, bar_ns: float) -> Agreement:
    """Say how a measured cost stands to the predicted one; what differs by less is not proven."""
    predicted = check.predicted
    if bar_ns >= check.most_ns or (measured.low <= 0 and measured.high >= check.most_ns):
        return Agreement.UNDECIDED
    if predicted.low <= measured.mid <= predicted.high:
        return Agreement.WITHIN
    apart = max(measured.low - predicted.high, predicted.low - measured.high)
    off = abs(measured.mid - predicted.mid)
    if apart <= bar_ns or off <= SLOPE * check.most_ns:
        return Agreement.NEAR
    return Agreement.BESIDE
