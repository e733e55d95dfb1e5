"""Put known delays into a training, and say whether they cost what the replay predicts.

``python -m benchmarks.check_prediction [RUN] [--budget SECONDS] [--out FILE]``. A replay that
predicts what happens where time is added is trusted where time is removed. A delay is put into the
fetches of the loader that feeds the training (off a processor, with or without workers) and into
the training thread, each time that it has stepped its optimizer; alternating arms measure it. It is
so long that the expected errors of a prediction (``calibration.EXPECTED``) are at most 15 % of its
cost: smaller costs could not be distinguished from them.
"""

import argparse
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from benchmarks.machine import machine, write_result
from gapless.commands.options import progress
from gapless.commands.trying import find_subject
from gapless.errors import GaplessError
from gapless.model.change import Change, Delay, LoaderChange
from gapless.model.edit import Applicability, Wrap
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.facts import Facts, Loader
from gapless.model.options import Options
from gapless.model.trial import Side, Trial
from gapless.pricing.ceilings import Ceilings
from gapless.pricing.price import Prices, price_changes
from gapless.replay.predict.calibration import EXPECTED
from gapless.study.build_run import account_run, prices_of_run
from gapless.verify.requests import TrialRequest
from gapless.verify.specs import ArmMode, Candidate
from gapless.verify.trial import TrialTask, attempt

SLOPE: Final = 0.15  # of the delay, by which measured and predicted may differ
_NOISE_FACTOR: Final = 2.0  # times the A/A noise: smaller effects are not proven
_MAX_FOREIGN_SHARE: Final = 0.1  # of the processors, taken by others: refutes nothing then
LOADER, THREAD = "the loader", "the training thread"
_LOADER: Final = "torch.utils.data.DataLoader"
_RESOLUTION: Final = 0.5  # of the slope: so narrow is measured


class Agreement(StrEnum):
    """How the measured cost of a known delay stands to the predicted one."""

    WITHIN = "within"  # its middle lies within the predicted bounds
    NEAR = "near"  # beside it, but the intervals overlap, or lie within 15 % of the delay
    FAR = "beside"  # further off: what the replay says of the like does not hold here
    UNDECIDED = "undecided"  # too noisy: it may have cost nothing, or all of the delay


class DelayCost(Struct, frozen=True):
    """What a delay costs of a step, in ns: 95 % where it was measured, 90 % where predicted."""

    low: float
    mid: float
    high: float


class Check(Struct, frozen=True):
    """A known delay at a place of a run, what it was predicted to cost, and what it did."""

    place: str
    delay_ns: int  # each fetch, each step
    most_ns: int  # that it can cost of a step: workers share it
    predicted: DelayCost
    measured: DelayCost | None = None
    agreement: Agreement = Agreement.UNDECIDED


class DelaySite(Struct, frozen=True):
    """A place of a run for a delay, and what it would change there."""

    name: str
    ns: int
    max_cost_ns: int  # that it can cost of a step
    family: str  # of predictions that are checked there
    change: Change
    edit: Wrap


class CheckPlan(Struct, frozen=True):
    """The checks, what is tried for each, and why nothing is checked elsewhere."""

    checks: tuple[Check, ...]
    candidates: tuple[Candidate, ...]
    notes: tuple[str, ...]


def plan_checks(prices: Prices) -> CheckPlan:
    """Return a delay for each place of a run where its cost is predicted."""
    step_ns = prices.evidence.step_ns
    if not step_ns:
        return CheckPlan((), (), ("the run has no steps that a delay could be compared with",))
    unbounded = replace(prices, ceilings=Ceilings())
    checks, candidates, notes = list[Check](), list[Candidate](), list[str]()
    for site in find_sites(prices.evidence, step_ns):
        prediction = price_changes(unbounded, (site.change,))
        if prediction.speedup is None:
            notes.append(f"not checked: {site.name}: nothing is predicted: {prediction.refused}")
            continue
        speedup = _widen_hidden(prediction.speedup, site.family)
        checks.append(Check(site.name, site.ns, site.max_cost_ns, cost(speedup, step_ns)))
        candidates.append(_candidate(site, speedup, step_ns))
    return CheckPlan(tuple(checks), tuple(candidates), tuple(notes))


def find_sites(evidence: Evidence, step_ns: float) -> Iterator[DelaySite]:
    """Return the places of a run: the loader that trains, if it is one; the training thread."""
    facts = evidence.facts
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
    change = LoaderChange(loader.id, delay_ns=ns)
    return DelaySite(LOADER, ns, round(ns * share), "feed", change, edit)


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
        applicability=Applicability.IDENTICAL,
        predicted=speedup,
        max_half_width=_RESOLUTION * SLOPE * site.max_cost_ns / step_ns,
    )


def cost(speedup: Estimate, step_ns: float) -> DelayCost:
    """Return how much longer a step takes, in ns: the lowest speed-up is the highest cost."""
    return DelayCost(
        *(step_ns * (1 / ratio - 1) for ratio in (speedup.high, speedup.mid, speedup.low))
    )


def complete_check(check: Check, side: Side, trial: Trial) -> Check:
    """Return a check with what its side of a trial measured.

    Where others used the processors, a delay may cost more than it would alone: that refutes
    nothing.
    """
    if trial.step_ns is None or side.speedup is None or trial.noise is None:
        return check
    if side.why is not None:  # refused: it took no effect, or the training was another
        return check
    measured = cost(side.speedup, trial.step_ns)
    conclusion = agreement(check, measured, _NOISE_FACTOR * trial.noise * trial.step_ns)
    counted_arms = [arm for arm in trial.arms if arm.failed is None]
    is_busy = any((arm.foreign or 0.0) > _MAX_FOREIGN_SHARE for arm in counted_arms)
    if conclusion is Agreement.FAR and is_busy:
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


def check_line(check: Check) -> str:
    """Describe what a delay was predicted to cost a step, and its measured cost."""
    delay = f"a delay of {check.delay_ns / 1e6:.3g} ms in {check.place}"
    sentence = f"{delay} was predicted to cost {_cost_text(check.predicted)} a step"
    if check.measured is None:
        return f"{sentence}; it was not measured"
    return f"{sentence}, measured {_cost_text(check.measured)}: {check.agreement}"


def _cost_text(delay_cost: DelayCost) -> str:
    low, mid, high = (bound / 1e6 for bound in (delay_cost.low, delay_cost.mid, delay_cost.high))
    return f"{mid:.2f} ms [{low:.2f} … {high:.2f}]"


def main() -> int:
    """Check the replay of a run, and print each check."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run", nargs="?", help="id, the beginning of it, or folder; else the last")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="for all arms")
    parser.add_argument("--out", type=Path, help="write the result here as JSON")
    parser.set_defaults(command_line=(), place=None)
    options = parser.parse_args()
    recording, command, folder = find_subject(options)
    if recording is None:
        parser.error("there is no recorded run; record one (gapless run)")
    with progress() as say:
        prices = prices_of_run(account_run(recording, Options(), say), cached=True)
        plan = plan_checks(prices)
        task = TrialTask(
            TrialRequest(), command, folder, Path(recording.path).parent, has_private_view=False,
            budget_s=options.budget, candidates=plan.candidates, windows=False, mode=ArmMode.FRESH,
        )  # fmt: skip
        trial = attempt(task, recording, say).trial if plan.candidates else None
    checks = plan.checks
    if trial is not None:
        pairs = zip(plan.checks, trial.sides, strict=True)
        checks = tuple(complete_check(check, side, trial) for check, side in pairs)
    print(*map(check_line, checks), *plan.notes, sep="\n")
    if options.out is not None:
        write_result({"machine": machine(), "checks": msgspec.to_builtins(checks)}, options.out)
    return int(any(check.agreement is Agreement.FAR for check in checks))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except GaplessError as error:  # too short a budget, a run that cannot be tried
        sys.exit(f"{error}")
