"""What marks alone tell of other loaders: where a replay is refused, and where it says less."""

from dataclasses import replace

import pytest

from gapless.catalogue.examples import cpu, gpu, loader, machine
from gapless.catalogue.seen_examples import seen
from gapless.catalogue.seen_parts import made_by, used
from gapless.model.change import Change, Feed, Predicted
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.study.loader_marks import with_marks

ANEW = loader(num_workers=2, prefetch_factor=2, iterations=10)
STEP = {"busy.math": 6.0, "idle.data.hand-over": 2.0, "idle.data.start-up": 2.0}
REFUSED = Predicted(None, "feed", refused="threads wait for one another")


def run(made_ms: float = 0.04, stage: str = "collate", restarts_ms: float = 2.0) -> Seen:
    use = used(
        ANEW,
        {"hand-over": 2.0},
        made_by(2, {stage: made_ms}),
        restart_ns=round(100 * restarts_ms * 1_000_000),
    )
    return seen(gpu(ANEW), STEP, use)


def told(change: Change, of: Seen | None = None) -> Interval | None:
    return with_marks(of or run(), [change], REFUSED).speedup


def test_workers_that_live_on_leave_what_starting_them_took() -> None:
    alive = told(Feed(ANEW.id, persistent_workers=True))
    assert alive is not None
    assert alive.mid == pytest.approx(10 / 8.2)  # the first of ten starts is in no step
    assert alive.low == pytest.approx(1 / (1 - 0.85 * 0.18))


def test_without_workers_neither_starts_nor_waits_are_left_but_batches_are_made() -> None:
    none = told(Feed(ANEW.id, num_workers=0))
    many = told(Feed(ANEW.id, num_workers=0), run(0.4, "decode"))
    assert none is not None
    assert 1.25 < none.mid < 10 / 6
    assert none.low < none.mid < none.high
    assert many is None  # what is not collated takes the training process as long


def test_settings_of_workers_that_shall_not_be_change_nothing() -> None:
    bare = told(Feed(ANEW.id, num_workers=0))
    assert told(Feed(ANEW.id, num_workers=0, persistent_workers=False, prefetch_factor=2)) == bare
    assert told(Feed(ANEW.id, num_workers=0, intra_op_threads=4)) is None


def test_workers_take_processors_from_operators_that_need_them_all() -> None:
    def gained(cpus: int, threads: int) -> Interval | None:
        use = used(ANEW, {"hand-over": 2.0}, made_by(2, {"collate": 0.04}))
        here = cpu(ANEW, machine(cpus=cpus, intra_op_threads=threads, device=None))
        return told(Feed(ANEW.id, num_workers=0), seen(here, STEP, use))

    shared, roomy, free = gained(2, 2), gained(8, 2), gained(8, 8)
    assert shared is not None
    assert roomy is not None
    assert free is not None
    assert shared.low > roomy.low
    assert shared.mid > free.mid > roomy.mid
    assert shared.high == free.high  # all wait for the thread that was put aside


def test_of_other_changes_and_other_loaders_marks_tell_nothing() -> None:
    assert told(Feed(ANEW.id, num_workers=4)) is None
    assert told(Feed(ANEW.id, persistent_workers=True, num_workers=4)) is None
    assert told(Feed(ANEW.id + 1, persistent_workers=True)) is None
    both = [Feed(ANEW.id, persistent_workers=True), Feed(ANEW.id, num_workers=0)]
    assert with_marks(run(), both, REFUSED) == REFUSED


def test_workers_that_start_in_no_time_gain_nothing() -> None:
    assert told(Feed(ANEW.id, persistent_workers=True), run(restarts_ms=0.01)) is None


def test_a_replay_that_says_more_stands_and_one_that_says_less_is_raised() -> None:
    alive = Feed(ANEW.id, persistent_workers=True)
    more = Predicted(Interval(1.3, 1.5, 1.7), "feed")
    stands = with_marks(run(), [alive], more)
    assert stands.speedup == more.speedup
    assert stands.floor == pytest.approx(1 / (1 - 0.85 * 0.18))  # seen, whatever replays are off by
    vague = with_marks(run(), [alive], Predicted(Interval(0.6, 1.0, 1.8), "feed"))
    assert vague.speedup is not None
    assert vague.speedup.low > 1.1
    assert vague.speedup.high == pytest.approx(1.8)


def test_where_no_fetch_was_recorded_nothing_is_told_of_a_loader_without_workers() -> None:
    of = run()
    assert of.study.recorded is not None
    uses = tuple(replace(one, workers=None) for one in of.study.recorded.loaders)
    blind = replace(of, study=replace(of.study, recorded=replace(of.study.recorded, loaders=uses)))
    assert told(Feed(ANEW.id, num_workers=0), blind) is None
    assert told(Feed(ANEW.id, persistent_workers=True), blind) is not None


def test_the_first_start_of_workers_is_part_of_no_step() -> None:
    of = run()
    assert of.study.recorded is not None
    uses = tuple(replace(one, iterations=1) for one in of.study.recorded.loaders)
    once = replace(of, study=replace(of.study, recorded=replace(of.study.recorded, loaders=uses)))
    assert told(Feed(ANEW.id, persistent_workers=True), once) is None


def test_what_choosing_samples_takes_stays_without_workers() -> None:
    use = used(ANEW, {"sampler": 6.0}, made_by(2, {"collate": 0.04}))
    step = {"busy.math": 10.0, "idle.data.sampler": 6.0}
    assert told(Feed(ANEW.id, num_workers=0), seen(gpu(ANEW), step, use)) is None
