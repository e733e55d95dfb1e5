"""Delay injection: what a known delay costs, predicted by the replay, then measured by a trial.

A replay that predicts what happens where time is added is trusted where time is removed. A delay is
so long that the expected errors of a prediction (``calibration.EXPECTED``) are at most 15 % of its
cost: smaller costs could not be distinguished from them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from gapless.model.change import Change, Delay, LoaderChange
from gapless.model.edit import Applicability, Wrap
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.facts import Facts, Loader
from gapless.model.trial import Agreement, Check, DelayCost
from gapless.pricing.ceilings import Ceilings
from gapless.pricing.price import Prices, price_changes
from gapless.replay.predict.calibration import EXPECTED
from gapless.verify.specs import Candidate

SLOPE: Final = 0.15  # of the delay, by which measured and predicted may differ
_NOISE_FACTOR: Final = 2.0  # times the A/A noise: smaller effects are not proven
LOADER, THREAD = "the loader", "the training thread"
_LOADER: Final = "torch.utils.data.DataLoader"
_RESOLUTION: Final = 0.5  # of the slope: so narrow is measured


@dataclass(frozen=True)
class DelaySite:
    """A place of a run for a delay, and what it would change there."""

    name: str
    ns: int
    max_cost_ns: int  # that it can cost of a step
    family: str  # of predictions that are checked there
    change: Change
    edit: Wrap


@dataclass(frozen=True)
class CheckPlan:
    """What is tried, and why nothing is checked elsewhere."""

    candidates: tuple[Candidate, ...]
    notes: tuple[str, ...]


def plan_checks(prices: Prices) -> CheckPlan:
    """Return a delay for each place of a run where its cost is predicted."""
    step_ns = prices.evidence.step_ns
    if not step_ns:
        return CheckPlan((), ("the run has no steps that a delay could be compared with",))
    plain = replace(prices, ceilings=Ceilings())  # a check that failed may be made again
    candidates, notes = list[Candidate](), list[str]()
    for site in find_sites(prices.evidence, step_ns):
        prediction = price_changes(plain, (site.change,))
        if prediction.speedup is None:
            notes.append(f"not checked: {site.name}: nothing is predicted: {prediction.refused}")
        else:
            candidates.append(
                _candidate(site, _widen_hidden(prediction.speedup, site.family), step_ns)
            )
    return CheckPlan(tuple(candidates), tuple(notes))


def find_sites(evidence: Evidence, step_ns: float) -> Iterator[DelaySite]:
    """Return the places of a run: the loader that trains, if it is one; the training thread."""
    facts = evidence.facts
    if facts is None:
        return
    loaders = [loader for loader in facts.loaders if loader.trains]
    if len(loaders) == 1:
        yield _loader_site(loaders[0], facts, step_ns)
    ns = _round_time(step_ns * EXPECTED["host"] / SLOPE)
    edit = Wrap(_LOADER, "delay", {"place": "step", "ns": ns})
    yield DelaySite(THREAD, ns, ns, "host", Delay(ns), edit)


def _loader_site(loader: Loader, facts: Facts, step_ns: float) -> DelaySite:
    """Return a delay of each fetch: workers share it, and a step may take several batches."""
    step_batches = max(1.0, loader.batches / facts.world.steps) if facts.world.steps else 1.0
    share = step_batches / max(1, loader.num_workers)
    ns = _round_time(step_ns * EXPECTED["feed"] / SLOPE / share)
    location = loader.location if len(facts.loaders) > 1 else None
    edit = Wrap(_LOADER, "delay", {"place": "fetch", "ns": ns}, location)
    return DelaySite(
        LOADER, ns, round(ns * share), "feed", LoaderChange(loader.id, delay_ns=ns), edit
    )


def _round_time(ns: float) -> int:
    """Return a time in two digits: people read it."""
    return max(1000, int(float(f"{ns:.1e}")))


def _widen_hidden(estimate: Estimate, family: str) -> Estimate:
    """Return the interval of a wholly hidden delay: not even that is known exactly."""
    if estimate.mid != 1:
        return estimate
    error = EXPECTED[family]
    return Estimate(min(estimate.low, 1 / (1 + error)), 1.0, max(estimate.high, 1 / (1 - error)))


def _candidate(site: DelaySite, speedup: Estimate, step_ns: float) -> Candidate:
    return Candidate(
        fixes=(f"delay-in-{site.name.removeprefix('the ').replace(' ', '-')}",),
        summary=f"a delay of {site.ns / 1e6:.3g} ms in {site.name}",
        edits=(site.edit,),
        applicability=Applicability.ABLATION,
        predicted=speedup,
        check=Check(site.name, site.ns, site.max_cost_ns, cost(speedup, step_ns), site.family),
        max_half_width=_RESOLUTION * SLOPE * site.max_cost_ns / step_ns,
    )


def cost(speedup: Estimate, step_ns: float) -> DelayCost:
    """Return how much longer a step takes, in ns: the lowest speed-up is the highest cost."""
    return DelayCost(
        *(step_ns * (1 / ratio - 1) for ratio in (speedup.high, speedup.mid, speedup.low))
    )


@dataclass(frozen=True)
class TrialConditions:
    """What arms show besides speed-ups: the unedited step, the A/A noise, whether others ran."""

    step_ns: float | None
    noise: float | None
    is_busy: bool


def complete_check(check: Check, speedup: Estimate | None, conditions: TrialConditions) -> Check:
    """Return a check with what was measured.

    Where others used the processors, a delay may cost more than it would alone: that refutes
    nothing.
    """
    if conditions.step_ns is None or speedup is None or conditions.noise is None:
        return check
    measured = cost(speedup, conditions.step_ns)
    conclusion = agreement(check, measured, _NOISE_FACTOR * conditions.noise * conditions.step_ns)
    if conclusion is Agreement.FAR and conditions.is_busy:
        conclusion = Agreement.UNDECIDED
    return replace(check, measured=measured, agreement=conclusion)


def agreement(check: Check, measured: DelayCost, bar_ns: float) -> Agreement:
    """Compare a measured cost to the predicted one; smaller differences are not proven."""
    predicted = check.predicted
    if bar_ns >= check.most_ns or (measured.low <= 0 and measured.high >= check.most_ns):
        return Agreement.UNDECIDED
    if predicted.low <= measured.mid <= predicted.high:
        return Agreement.WITHIN
    gap_ns = max(measured.low - predicted.high, predicted.low - measured.high)
    error_ns = abs(measured.mid - predicted.mid)
    if gap_ns <= bar_ns or error_ns <= SLOPE * check.most_ns:
        return Agreement.NEAR
    return Agreement.FAR
