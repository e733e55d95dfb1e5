"""No figure that is printed exceeds what the account leaves room for, near the whole step either.

Of drawn shares, and of all recordings of this repository: a part of them, with ``--slow`` all.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.example_facts import cpu, gpu, worker_loader
from gapless.catalogue.examples.example_facts import loader as loader_facts
from gapless.catalogue.examples.parts import example_use, example_workers
from gapless.model.change import Change, Drop, HostChange, LoaderChange, Prediction, Scale
from gapless.model.edit import FixRequest
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Finding
from gapless.model.study import Study
from gapless.pricing.bounding import (
    MAX_AFTERMATH,
    MAX_GAIN,
    SLACK,
    TIMED_REST_SHARE,
    add_aftermath,
    bound_by_account,
    bound_finding,
    goes_altogether,
    limit_gain,
    max_aftermath,
)
from gapless.pricing.charged import charge_changes
from gapless.pricing.conclude import conclude
from gapless.pricing.price import Prices
from gapless.replay.predict.calibration import EXPECTED
from gapless.store.run.unpack import unpack
from gapless.study import Options
from gapless.study.opening import open_study
from tests.traces import recorded_run

TESTS = Path(__file__).parents[1]
DATA = TESTS / "data"
FAST_PERIOD = 16  # every 16th recording is checked without --slow
ROUNDING = 1 + 1e-9


def recordings() -> Iterator[Path]:
    traces = (*DATA.glob("*.json.gz"), *DATA.glob("*.columns"), *(DATA / "opened").iterdir())
    yield from sorted(path for path in traces if ".rank1" not in path.name)
    yield recorded_run()
    for kind in ("zoo", "strangers"):
        yield from sorted((TESTS / kind / "records").glob("*/run.tar.zst"))


def recording_name(path: Path) -> str:
    return path.parent.name if path.name == "run.tar.zst" else path.name


PACKED = [path for path in recordings() if path.name == "run.tar.zst"]


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.5, 0.8, 0.9, 0.95, 0.97])
@pytest.mark.parametrize("family", sorted(EXPECTED))
def test_a_limit_is_what_all_of_a_share_gives_within_what_is_tolerated(
    share: float, family: str
) -> None:
    limit = limit_gain(share, family)
    all_of_it = 1 / (1 - share)
    assert all_of_it <= limit.middle <= min(MAX_GAIN, all_of_it * SLACK)
    assert limit.middle <= limit.high <= limit.middle * 1.06


def test_what_is_waited_for_nearly_always_bounds_its_price_too() -> None:
    loader = loader_facts()
    use = example_use(loader, {"decode": 90.65}, restart_ns=0)
    evidence = evidence_of(cpu(loader), {"busy.math": 9.35, "idle.data.decode": 90.65}, use)
    changes = (LoaderChange(0, num_workers=8, prefetch_factor=2),)
    assert charge_changes(evidence, changes).max_share == pytest.approx(0.9065, rel=1e-3)
    prediction = Prediction(
        Estimate(9.0, 14.01, 30.0), "feed", at_most=Estimate(14.01, 14.01, 14.01)
    )
    bounded = bound_by_account(evidence, changes, prediction)
    assert bounded.speedup is not None
    assert bounded.at_most is not None
    waits_gain = 1 / (1 - 0.9065)  # 10.7×
    assert bounded.speedup.low == 9.0
    assert waits_gain < bounded.speedup.mid < waits_gain * 1.1
    assert bounded.speedup.mid < bounded.speedup.high < waits_gain * 1.14
    assert bounded.at_most.mid == bounded.speedup.mid
    assert bounded.at_most.high == bounded.speedup.high
    assert bound_by_account(evidence, changes, bounded) is bounded


def test_workers_that_share_processors_take_their_part_of_the_time_and_no_more() -> None:
    loader = worker_loader()
    workers = example_workers(8, {"decode": 8.0})
    use = example_use(loader, {"decode": 50.0}, workers, restart_ns=0)
    evidence = evidence_of(cpu(loader), {"busy.math": 50, "idle.data.decode": 50}, use)
    charge = charge_changes(evidence, (LoaderChange(0, persistent_workers=True),))
    assert 0.75 <= charge.max_share <= 0.9  # several workers on each processor: no whole step


def test_a_team_of_threads_beside_a_busy_worker_has_lost_up_to_two_thirds() -> None:
    shares = []
    for n_threads in (1, 2):
        loader, machine = worker_loader(), replace(cpu().machine, cpus=2)
        use = example_use(
            loader, {"decode": 0.1}, example_workers(1, {"decode": 100 / 64}), restart_ns=0
        )
        facts = cpu(loader, replace(machine, intra_op_threads=n_threads))
        evidence = evidence_of(facts, {"busy.math": 99.9, "idle.data.decode": 0.1}, use)
        shares.append(
            charge_changes(evidence, (LoaderChange(0, persistent_workers=True),)).max_share
        )
    assert shares == pytest.approx((0.5, 2 / 3), abs=0.02)


def test_the_host_is_worth_no_more_than_the_work_of_its_device_leaves() -> None:
    evidence = evidence_of(gpu(), {"busy.math": 60, "idle.sync.return": 10, "idle.launch.api": 30})
    bounded = bound_by_account(
        evidence, (Drop(("idle.sync",)),), Prediction(Estimate(2.0, 9.0, 20.0), "sync")
    )
    assert bounded.speedup is not None
    assert bounded.speedup.mid < SLACK / 0.6


def test_whatever_priced_a_finding_its_price_is_bounded_at_last() -> None:
    evidence = evidence_of(gpu(), {"busy.math": 80, "idle.gc": 20})
    detection = Detection("G999", "new", "A new rule.", (Drop(("idle.gc",)),))
    unbounded = Finding(detection, Prediction(Estimate(3.0, 4.0, 5.0), "tail"), None)
    bounded = bound_finding(evidence, unbounded).prediction.speedup
    assert bounded is not None
    assert bounded.mid <= limit_gain(0.2, "tail").middle


def test_what_is_removed_by_hand_may_gain_more_than_its_own_time() -> None:
    evidence = evidence_of(gpu(), {"busy.math": 60, "idle.host.python": 40})
    detection = Detection(
        "G999", "new", "A new rule.", (HostChange(("idle.host.",), Estimate(0, 0, 0)),)
    )
    priced = Finding(detection, Prediction(Estimate(1.5, 1.6, 3.0), "host"), None)
    by_fix = replace(priced, detection=replace(detection, helps=(FixRequest("compile"),)))
    by_hand_high, by_fix_high = (
        bound_finding(evidence, finding).prediction.speedup for finding in (priced, by_fix)
    )
    assert by_hand_high is not None
    assert by_fix_high is not None
    assert by_hand_high.high - 1 == pytest.approx(MAX_AFTERMATH * (by_fix_high.high - 1))
    assert (by_hand_high.low, by_hand_high.mid) == (by_fix_high.low, by_fix_high.mid)
    kept = replace(detection, helps=(FixRequest("sample-cache"),))
    assert (goes_altogether(kept), goes_altogether(by_fix.detection)) == (True, False)


def test_with_what_goes_by_hand_a_part_of_the_rest_goes_where_it_is_worth_anything() -> None:
    small, large, unchanged = (
        add_aftermath(Prediction(Estimate(low, mid, 2.0), "host")).speedup
        for low, mid in ((1.01, 1.02), (1.2, 1.5), (0.9, 0.95))
    )
    assert small is not None
    assert small.mid == pytest.approx(1.028)  # most of 4 % of the step is not credible here
    assert large is not None
    assert (large.low, large.mid, large.high) == pytest.approx((1.2, 1.5 / 0.96, 2.4))
    assert unchanged is not None
    assert (unchanged.low, unchanged.mid) == (0.9, 0.95)


def test_large_copies_take_more_of_the_rest_with_them() -> None:
    copies = Scale(Estimate(0, 0, 0), leaves=("copy.d2h",))
    priced = add_aftermath(Prediction(Estimate(1.2, 1.5, 2.0), "copy"), (copies,))
    assert priced.speedup is not None
    assert priced.speedup.mid == pytest.approx(1.5 / 0.8)


def test_timed_code_of_a_data_set_leaves_more_beside_work_of_the_host() -> None:
    change = LoaderChange(0, stages={"other": 0.0})
    mids = [
        priced.speedup.mid
        for on_device in (False, True)
        if (
            priced := add_aftermath(
                Prediction(Estimate(1.2, 1.5, 2.0), "loader"), (change,), on_device=on_device
            )
        ).speedup
    ]
    assert mids == [pytest.approx(1.5 / 0.93), pytest.approx(1.5 / 0.96)]


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path,
            id=recording_name(path),
            marks=[pytest.mark.slow] if path in PACKED and PACKED.index(path) % FAST_PERIOD else [],
        )
        for path in recordings()
    ],
)
def test_of_every_recording_no_gain_exceeds_what_the_account_charges(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[Evidence] = []
    priced: list[tuple[tuple[Change, ...], Prediction]] = []

    def keep_evidence(prices: Prices) -> Study:
        runs.append(prices.evidence)
        return conclude(prices)

    def keep_price(
        evidence: Evidence, changes: tuple[Change, ...], prediction: Prediction
    ) -> Prediction:
        bounded = bound_by_account(evidence, changes, prediction)
        priced.append((tuple(changes), bounded))
        return bounded

    for module in ("build_run", "build_trace"):
        monkeypatch.setattr(f"gapless.study.{module}.conclude", keep_evidence)
    monkeypatch.setattr("gapless.pricing.price.bound_by_account", keep_price)
    study = open_study([unpack(path, tmp_path) if path in PACKED else path], Options(cache=False))
    for changes, prediction in priced:
        assert_bounded(runs[-1], changes, prediction)
    for finding in findings_of(study):
        detection = finding.detection
        assert_bounded(
            runs[-1], detection.changes, finding.prediction, by_hand=goes_altogether(detection)
        )
        assert_parts_are_parts(finding.detection.summary)
    speedups = [None, *(prediction.speedup for _, prediction in priced)]
    for proposal in study.proposals:
        assert {proposal.speedup, proposal.together} <= set(speedups)


def findings_of(study: Study) -> Iterator[Finding]:
    diagnosis = study.diagnosis
    if diagnosis is not None:
        yield from diagnosis.findings
        yield from diagnosis.present
        yield from (candidate.finding for candidate in diagnosis.to_try)


def assert_parts_are_parts(sentence: str) -> None:
    for part, step in re.findall(r"([\d.]+) ms of each ([\d.]+) ms step", sentence):
        assert float(part) <= float(step), sentence


def assert_bounded(
    evidence: Evidence,
    changes: tuple[Change, ...],
    prediction: Prediction,
    *,
    by_hand: bool = False,
) -> None:
    share = charge_changes(evidence, changes).max_share
    max_gain = 1 + SLACK * (1 / max(1 - share, 1 / MAX_GAIN) - 1)
    max_high = max_gain / (1 - EXPECTED.get(prediction.family, 0.0))
    if by_hand:
        max_high = 1 + max_aftermath(changes) * (max_high - 1)
        max_gain /= 1 - TIMED_REST_SHARE
    for estimate in filter(None, (prediction.speedup, prediction.at_most)):
        assert estimate.low <= estimate.mid <= estimate.high
        assert estimate.mid <= max_gain * ROUNDING, (changes, share)
        assert estimate.high <= max_high * ROUNDING, (changes, share)
