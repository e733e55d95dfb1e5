"""What fixes of loaders change, and how a loader keeps up with its training."""

from dataclasses import replace

import pytest

from gapless.catalogue import examples, listing
from gapless.catalogue.effects import EFFECTS
from gapless.catalogue.effects.feeding import feeding
from gapless.catalogue.fixes import FIXES
from gapless.catalogue.loading import Loading, loading, more_workers, waited
from gapless.catalogue.rules.decode_bound import decode_bound
from gapless.catalogue.rules.sampler_bound import sampler_bound
from gapless.catalogue.ruling import NotSeenError
from gapless.catalogue.seen_examples import changed, seen, stepped
from gapless.catalogue.seen_parts import made_by, used
from gapless.model.change import Feed
from gapless.model.edit import Applicability, Proposal, SetArgument, SetEnv, Where
from gapless.model.facts import Facts, Loader
from gapless.model.finding import Loss
from gapless.model.host_code import HotLine
from gapless.model.run import LoaderUse
from gapless.model.seen import Seen

STEP = {"busy.math": 60.0, "idle.data.decode": 40.0}


@pytest.mark.parametrize(
    ("text", "facts", "changes"),
    [
        ("more-workers=8", examples.gpu(), Feed(0, num_workers=8)),
        (
            "more-workers=0",
            examples.gpu(examples.fed(persistent_workers=True)),
            Feed(0, num_workers=0, persistent_workers=False),
        ),
        ("workers-and-one-thread=2", examples.cpu(), Feed(0, num_workers=2, intra_op_threads=1)),
        ("prefetch=8", examples.gpu(examples.fed()), Feed(0, prefetch_factor=8)),
        ("persistent-workers", examples.gpu(examples.fed()), Feed(0, persistent_workers=True)),
        ("out-of-order", examples.gpu(examples.fed()), Feed(0, in_order=False)),
        ("worker-threads=2", examples.gpu(examples.fed()), Feed(0, worker_threads=2)),
        ("one-thread", examples.cpu(), Feed(0, intra_op_threads=1)),
        ("intra-op-threads=4", examples.cpu(), Feed(0, intra_op_threads=4)),
        ("cached-batch", examples.gpu(), Feed(0, wait=False)),
    ],
)
def test_a_fix_changes_how_the_training_is_fed(text: str, facts: Facts, changes: Feed) -> None:
    (proposal,) = listing.propose(text, facts)
    effect = EFFECTS[proposal.fix]
    assert effect(seen(facts, STEP), proposal) == (changes,)


def test_pinning_is_of_the_loader_too() -> None:
    facts = examples.gpu()
    (proposal,) = listing.propose("pin-memory", facts)
    assert feeding(seen(facts, STEP), proposal) == (Feed(0, pin_memory=True),)


def test_loaders_of_other_lines_stay_as_they_are() -> None:
    other = examples.loader(id=1, where=examples.OPTIMIZER_LINE)
    facts = examples.gpu(examples.loader(), other)
    (proposal,) = listing.propose("more-workers@train.py:52=4", facts)
    assert feeding(seen(facts, STEP), proposal) == (Feed(1, num_workers=4),)


def test_threads_of_the_training_stand_beside_every_loader_that_feeds_it() -> None:
    facts = examples.cpu(
        examples.loader(), examples.loader(id=1), examples.loader(id=2, trains=False)
    )
    (proposal,) = listing.propose("one-thread", facts)
    found = feeding(seen(facts, STEP), proposal)
    assert found == (Feed(0, intra_op_threads=1), Feed(1, intra_op_threads=1))


@pytest.mark.parametrize(
    "edits",
    [
        (),
        (SetEnv("OMP_NUM_THREADS", "1"),),
        (SetArgument("torch.optim.SGD", "foreach", value=True),),
        (SetArgument("torch.utils.data.DataLoader", "batch_size", 8),),
    ],
)
def test_of_other_edits_nothing_is_foretold(edits: tuple[SetArgument | SetEnv, ...]) -> None:
    proposal = Proposal("any", "any", edits, Applicability.SAME)
    assert feeding(seen(examples.gpu(), STEP), proposal) is None
    assert feeding(seen(None, STEP), proposal) is None


def test_every_effect_is_that_of_a_fix() -> None:
    assert set(EFFECTS) <= {one.name for one in FIXES}


def of(loader: Loader, use: LoaderUse, facts: Facts | None = None) -> Seen:
    return seen(facts or examples.gpu(loader), STEP, use)


def kept_up(loader: Loader, use: LoaderUse, facts: Facts | None = None) -> Loading:
    found = waited(of(loader, use, facts), loader)
    assert found is not None
    return found


def test_as_many_workers_as_keep_up_and_one_more() -> None:
    one = kept_up(
        examples.fed(), used(examples.fed(), {"decode": 40.0}, made_by(8, {"decode": 2.0}))
    )
    assert (one.fetch_ns, one.work_ns) == pytest.approx((128e6, 60e6))
    assert (one.enough(), one.most(), one.target()) == (4, 16, 4)


def test_waiting_for_a_processor_is_no_part_of_a_fetch() -> None:
    made = made_by(8, {"decode": (2.0, 1.0)}, on_cpu=0.25, run_queue=0.5, blocked=0.25)
    one = kept_up(examples.fed(), used(examples.fed(), {"decode": 40.0}, made))
    assert (one.cpu_ns, one.fetch_ns) == pytest.approx((64e6, 128e6))


def test_reads_leave_their_processor_to_others() -> None:
    facts = examples.gpu(examples.loader(), examples.machine(cpus=4))
    made = made_by(0, {"read": (8.0, 2.0)})
    one = kept_up(examples.loader(), used(examples.loader(), {"read": 40.0}, made), facts)
    assert one.most() == 16


def test_workers_that_are_blocked_leave_the_threads_of_the_training_their_processors() -> None:
    facts = examples.cpu(examples.loader())
    made = made_by(0, {"read": (2.0, 0.1)})
    one = kept_up(examples.loader(), used(examples.loader(), {"read": 40.0}, made), facts)
    assert one.kept_busy(4) == pytest.approx(6.4 / 60)
    assert one.kept_busy(1) == pytest.approx(6.4 / 128)
    assert more_workers(one) == ("more-workers=4", "more-workers=8")


def test_two_processors_that_compute_get_one_thread_beside_workers() -> None:
    facts = examples.cpu(examples.loader())
    made = made_by(0, {"decode": 2.0})
    one = kept_up(examples.loader(), used(examples.loader(), {"decode": 40.0}, made), facts)
    assert more_workers(one) == (
        "workers-and-one-thread=2",
        "more-workers=2",
        "workers-and-one-thread=1",
        "more-workers=1",
    )


def test_one_of_several_loaders_is_named_by_its_line() -> None:
    facts = examples.gpu(examples.loader(), examples.loader(id=1))
    made = made_by(0, {"decode": 2.0})
    one = kept_up(examples.loader(), used(examples.loader(), {"decode": 40.0}, made), facts)
    assert one.asked("prefetch", 8) == "prefetch@train.py:41=8"


@pytest.mark.parametrize(
    ("made", "missing"),
    [
        (None, "fetches"),
        (made_by(8, {}, cpu_per_sample_ns=None, fetch_median_ns=None), "fetches"),
        (made_by(8, {}, cpu_per_sample_ns=None), "stages"),
    ],
)
def test_what_was_not_seen_is_told(made: object, missing: str) -> None:
    one = kept_up(examples.fed(), used(examples.fed(), {"decode": 40.0}, workers=made))  # pyright: ignore[reportArgumentType]
    with pytest.raises(NotSeenError) as caught:
        _ = (one.fetch_ns, one.stages())
    assert caught.value.missing == missing


def test_a_loader_that_nobody_waits_for_between_steps_does_not_feed_the_training() -> None:
    aside = examples.loader(trains=False)
    assert loading(of(aside, used(aside, {"decode": 40.0})), aside) is None
    assert loading(seen(examples.gpu(), STEP), examples.loader()) is None
    quick = used(examples.fed(), {"hand-over": 0.5}, made_by(8, {"decode": 2.0}))
    assert waited(of(examples.fed(), quick), examples.fed()) is None
    assert loading(of(examples.fed(), quick), examples.fed()) is not None


def test_what_workers_can_do_at_best_is_bound_by_the_processors_that_compute() -> None:
    facts = examples.cpu(examples.loader(batch_bytes=0), examples.machine(cpus=2, device=None))
    made = made_by(0, {"collate": 0.625})
    one = kept_up(examples.loader(), used(examples.loader(), {"collate": 40.0}, made), facts)
    assert one.at_best(0, kept=0.5) == pytest.approx(80e6)
    assert one.at_best(1) == pytest.approx(60e6 + one.hand_over_ns)
    assert one.at_best(2, kept=4.0) == pytest.approx((160e6 + 60e6 + one.hand_over_ns) / 2)


@pytest.mark.parametrize(("threads", "eased_ns"), [(1, 0), (2, 20e6)])
def test_less_work_of_workers_is_room_where_they_shared_processors(
    threads: int, eased_ns: float
) -> None:
    loader = examples.loader(num_workers=1, batch_bytes=0)
    machine = examples.machine(cpus=2, device=None, intra_op_threads=threads)
    made = made_by(1, {"decode": 0.625}, on_cpu=0.5, run_queue=0.5, blocked=0.0)
    facts = examples.cpu(loader, machine)
    one = kept_up(loader, used(loader, {"decode": 40.0}, made), facts)
    assert one.at_best(1, kept=0.0) == pytest.approx(60e6 - eased_ns + one.hand_over_ns)


def test_large_batches_take_longer_to_be_handed_over() -> None:
    def of_size(size: int | None) -> float:
        loader = examples.fed(batch_bytes=size)
        return kept_up(loader, used(loader, {"decode": 40.0}, made_by(8, {}))).hand_over_ns

    assert of_size(None) == of_size(0) < of_size(100 << 20)


def test_of_a_stage_what_must_be_written_is_left() -> None:
    for size, found in ((0, 1), (4 << 30, 0)):
        loader = examples.loader(num_workers=2, prefetch_factor=2, batch_bytes=size)
        facts = examples.gpu(loader, examples.machine(cpus=2))
        made = made_by(2, {"decode": 9.0})
        said = decode_bound(seen(facts, STEP, used(loader, {"decode": 40.0}, made)))
        assert len(said) == found


def test_without_processors_counted_it_is_not_known_how_many_workers_they_feed() -> None:
    facts = examples.gpu(examples.loader(), examples.machine(cpus=None))
    made = made_by(0, {"decode": 2.0})
    one = kept_up(examples.loader(), used(examples.loader(), {"decode": 40.0}, made), facts)
    with pytest.raises(NotSeenError) as caught:
        one.most()
    assert caught.value.missing == "processors"


def test_the_line_at_which_workers_were_seen_most_is_where_a_stage_is_slow() -> None:
    loader = examples.loader(num_workers=2, prefetch_factor=2)
    made = made_by(2, {"decode": 9.0})
    lines = (
        HotLine("worker", "data.py", 7, "load", 10, 0.2),
        HotLine("worker", "data.py", 9, "decode", 40, 0.8),
        HotLine("training", "train.py", 3, "main", 90, 1.0),
    )
    facts = examples.gpu(loader, examples.machine(cpus=2))
    found = seen(facts, STEP, used(loader, {"decode": 40.0}, made), *lines)
    (loss,) = decode_bound(found)
    assert isinstance(loss, Loss)
    assert loss.where == Where("data.py", 9, "decode")


def sampled(found: Seen, *lines: HotLine) -> Seen:
    recorded = found.study.recorded
    assert recorded is not None
    recorded = replace(recorded, loading_lines=lines)
    return replace(found, study=replace(found.study, recorded=recorded))


def test_without_workers_it_is_the_line_at_which_the_training_thread_made_batches() -> None:
    loader = examples.loader()
    facts = examples.gpu(loader, examples.machine(cpus=1))
    found = seen(facts, STEP, used(loader, {"decode": 40.0}, made_by(0, {"decode": 9.0})))
    lines = (
        HotLine("making", "data.py", 9, "decode", 40, 0.4),
        HotLine("choosing", "data.py", 30, "__iter__", 50, 0.5),
    )
    (loss,) = decode_bound(sampled(found, *lines))
    assert isinstance(loss, Loss)
    assert loss.where == Where("data.py", 9, "decode")
    drawn = used(loader, {"sampler": 40.0}, made_by(0, {"decode": 0.1}))
    chosen = seen(facts, {"busy.math": 60.0, "idle.data.sampler": 40.0}, drawn)
    (loss,) = sampler_bound(sampled(chosen, *lines))
    assert isinstance(loss, Loss)
    assert loss.where == Where("data.py", 30, "__iter__")


def test_without_workers_a_slow_stage_is_that_of_the_loader() -> None:
    loader = examples.loader()
    facts = examples.gpu(loader, examples.machine(cpus=1))
    found = seen(facts, STEP, used(loader, {"decode": 40.0}, made_by(0, {"decode": 9.0})))
    (loss,) = decode_bound(found)
    assert isinstance(loss, Loss)
    assert loss.where == loader.where


def test_only_what_was_recorded_can_be_stated_otherwise() -> None:
    one = stepped(seen(examples.gpu(), STEP), noise=0.2)
    assert one.study.recorded is not None
    assert one.study.recorded.steps is not None
    assert one.study.recorded.steps.noise == 0.2
    for change in (stepped, changed):
        with pytest.raises(ValueError, match="foreign"):
            change(seen(None, STEP))
