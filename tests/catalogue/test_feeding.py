"""What fixes of loaders change, and how a loader keeps up with its training."""

import pytest
from msgspec.structs import replace

from gapless.catalogue.declare import listing
from gapless.catalogue.declare.listing import EFFECTS
from gapless.catalogue.effects.loaders import loader_changes
from gapless.catalogue.examples import example_facts
from gapless.catalogue.examples.evidence import evidence_of, with_recorded, with_steps
from gapless.catalogue.examples.parts import example_use, example_workers
from gapless.catalogue.fixes.input.prefetch import prefetch
from gapless.catalogue.fixes.input.workers_and_one_thread import request_workers
from gapless.catalogue.queries.input.loaders import (
    Loading,
    find_loading,
    find_waited_loading,
)
from gapless.catalogue.rules.input.sampler_bound import sampler_bound
from gapless.catalogue.rules.input.slow_stages import SLOW_STAGES
from gapless.model.change import LoaderChange
from gapless.model.edit import Applicability, Location, Proposal, SetArgument, SetEnv
from gapless.model.evidence import Evidence, NotObservedError
from gapless.model.facts import Facts, Loader
from gapless.model.finding import Detection
from gapless.model.host_code import HotLine
from gapless.model.run import LoaderUse

(DECODE_BOUND,) = (rule for rule in SLOW_STAGES if rule.name == "decode-bound")

STEP = {"busy.math": 60.0, "idle.data.decode": 40.0}


@pytest.mark.parametrize(
    ("text", "facts", "changes"),
    [
        ("more-workers=8", example_facts.gpu(), LoaderChange(0, num_workers=8)),
        (
            "more-workers=0",
            example_facts.gpu(example_facts.worker_loader(persistent_workers=True)),
            LoaderChange(0, num_workers=0, persistent_workers=False),
        ),
        (
            "workers-and-one-thread=2",
            example_facts.cpu(),
            LoaderChange(0, num_workers=2, intra_op_threads=1),
        ),
        (
            "prefetch=8",
            example_facts.gpu(example_facts.worker_loader()),
            LoaderChange(0, prefetch_factor=8),
        ),
        (
            "persistent-workers",
            example_facts.gpu(example_facts.worker_loader()),
            LoaderChange(0, persistent_workers=True),
        ),
        (
            "out-of-order",
            example_facts.gpu(example_facts.worker_loader()),
            LoaderChange(0, in_order=False),
        ),
        (
            "worker-threads=2",
            example_facts.gpu(example_facts.worker_loader()),
            LoaderChange(0, worker_threads=2),
        ),
        ("one-thread", example_facts.cpu(), LoaderChange(0, intra_op_threads=1)),
        ("intra-op-threads=4", example_facts.cpu(), LoaderChange(0, intra_op_threads=4)),
        ("cached-batch", example_facts.gpu(), LoaderChange(0, wait=False)),
    ],
)
def test_a_fix_changes_how_the_training_is_fed(
    text: str, facts: Facts, changes: LoaderChange
) -> None:
    (proposal,) = listing.propose_named(text, facts)
    effect = EFFECTS[proposal.fix]
    assert effect(evidence_of(facts, STEP), proposal) == (changes,)


def test_pinning_is_of_the_loader_too() -> None:
    facts = example_facts.gpu()
    (proposal,) = listing.propose_named("pin-memory", facts)
    assert loader_changes(evidence_of(facts, STEP), proposal) == (LoaderChange(0, pin_memory=True),)


def test_loaders_of_other_lines_stay_as_they_are() -> None:
    other_loader = example_facts.loader(id=1, location=example_facts.OPTIMIZER_LINE)
    facts = example_facts.gpu(example_facts.loader(), other_loader)
    (proposal,) = listing.propose_named("more-workers@train.py:52=4", facts)
    assert loader_changes(evidence_of(facts, STEP), proposal) == (LoaderChange(1, num_workers=4),)


def test_threads_of_the_training_stand_beside_every_loader_that_feeds_it() -> None:
    facts = example_facts.cpu(
        example_facts.loader(), example_facts.loader(id=1), example_facts.loader(id=2, trains=False)
    )
    (proposal,) = listing.propose_named("one-thread", facts)
    changes = loader_changes(evidence_of(facts, STEP), proposal)
    assert changes == (LoaderChange(0, intra_op_threads=1), LoaderChange(1, intra_op_threads=1))


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
    proposal = Proposal("any", "any", edits, Applicability.IDENTICAL)
    assert loader_changes(evidence_of(example_facts.gpu(), STEP), proposal) is None
    assert loader_changes(evidence_of(None, STEP), proposal) is None


def loader_evidence(loader: Loader, use: LoaderUse, facts: Facts | None = None) -> Evidence:
    return evidence_of(facts or example_facts.gpu(loader), STEP, use)


def measure_loading(loader: Loader, use: LoaderUse, facts: Facts | None = None) -> Loading:
    loading = find_waited_loading(loader_evidence(loader, use, facts), loader)
    assert loading is not None
    return loading


def test_as_many_workers_as_keep_up_and_one_more() -> None:
    loading = measure_loading(
        example_facts.worker_loader(),
        example_use(
            example_facts.worker_loader(), {"decode": 40.0}, example_workers(8, {"decode": 2.0})
        ),
    )
    assert (loading.fetch_ns, loading.work_ns) == pytest.approx((128e6, 60e6))
    assert (loading.enough_workers(), loading.max_workers(), loading.target_workers()) == (4, 16, 4)


def test_waiting_for_a_processor_is_no_part_of_a_fetch() -> None:
    workers = example_workers(8, {"decode": (2.0, 1.0)}, on_cpu=0.25, run_queue=0.5, blocked=0.25)
    loading = measure_loading(
        example_facts.worker_loader(),
        example_use(example_facts.worker_loader(), {"decode": 40.0}, workers),
    )
    assert (loading.cpu_ns, loading.fetch_ns) == pytest.approx((64e6, 128e6))


def test_reads_leave_their_processor_to_others() -> None:
    facts = example_facts.gpu(example_facts.loader(), example_facts.machine(cpus=4))
    workers = example_workers(0, {"read": (8.0, 2.0)})
    loading = measure_loading(
        example_facts.loader(), example_use(example_facts.loader(), {"read": 40.0}, workers), facts
    )
    assert loading.max_workers() == 16


@pytest.mark.parametrize(
    ("stage", "n_workers", "n_busy"), [("collate", 16, 12.8), ("tokenise", 2, 128)]
)
def test_a_fetch_that_waits_for_threads_keeps_processors_busy_and_one_that_waits_does_not(
    stage: str, n_workers: int, n_busy: float
) -> None:
    facts = example_facts.cpu(example_facts.loader())
    workers = example_workers(0, {stage: (2.0, 0.2)})
    loading = measure_loading(
        example_facts.loader(), example_use(example_facts.loader(), {stage: 40.0}, workers), facts
    )
    assert loading.max_workers() == n_workers
    assert loading.busy_processors(4) == pytest.approx(n_busy / 60)


def test_workers_that_are_blocked_leave_the_threads_of_the_training_their_processors() -> None:
    facts = example_facts.cpu(example_facts.loader())
    workers = example_workers(0, {"read": (2.0, 0.1)})
    loading = measure_loading(
        example_facts.loader(), example_use(example_facts.loader(), {"read": 40.0}, workers), facts
    )
    assert loading.busy_processors(4) == pytest.approx(6.4 / 60)
    assert loading.busy_processors(1) == pytest.approx(6.4 / 128)
    assert tuple(map(str, request_workers(loading))) == ("more-workers=4", "more-workers=8")


def test_two_processors_that_compute_get_one_thread_beside_workers() -> None:
    facts = example_facts.cpu(example_facts.loader())
    workers = example_workers(0, {"decode": 2.0})
    loading = measure_loading(
        example_facts.loader(),
        example_use(example_facts.loader(), {"decode": 40.0}, workers),
        facts,
    )
    assert tuple(map(str, request_workers(loading))) == (
        "workers-and-one-thread=2",
        "more-workers=2",
        "workers-and-one-thread=1",
        "more-workers=1",
    )


def test_one_of_several_loaders_is_named_by_its_line() -> None:
    facts = example_facts.gpu(example_facts.loader(), example_facts.loader(id=1))
    workers = example_workers(0, {"decode": 2.0})
    loading = measure_loading(
        example_facts.loader(),
        example_use(example_facts.loader(), {"decode": 40.0}, workers),
        facts,
    )
    assert str(loading.request(prefetch, 8)) == "prefetch@train.py:41=8"


@pytest.mark.parametrize(
    ("workers", "gap"),
    [
        (None, "fetches"),
        (example_workers(8, {}, cpu_per_sample_ns=None, fetch_median_ns=None), "fetches"),
        (example_workers(8, {}, cpu_per_sample_ns=None), "stages"),
    ],
)
def test_what_was_not_seen_is_told(workers: object, gap: str) -> None:
    loading = measure_loading(
        example_facts.worker_loader(),
        example_use(example_facts.worker_loader(), {"decode": 40.0}, workers=workers),  # pyright: ignore[reportArgumentType]
    )
    with pytest.raises(NotObservedError) as error_info:
        _ = (loading.fetch_ns, loading.stages())
    assert error_info.value.missing == gap


def test_a_loader_that_nobody_waits_for_between_steps_does_not_feed_the_training() -> None:
    idle_loader = example_facts.loader(trains=False)
    assert (
        find_loading(
            loader_evidence(idle_loader, example_use(idle_loader, {"decode": 40.0})), idle_loader
        )
        is None
    )
    assert find_loading(evidence_of(example_facts.gpu(), STEP), example_facts.loader()) is None
    quick_use = example_use(
        example_facts.worker_loader(), {"hand-over": 0.5}, example_workers(8, {"decode": 2.0})
    )
    assert (
        find_waited_loading(
            loader_evidence(example_facts.worker_loader(), quick_use), example_facts.worker_loader()
        )
        is None
    )
    assert (
        find_loading(
            loader_evidence(example_facts.worker_loader(), quick_use), example_facts.worker_loader()
        )
        is not None
    )


def test_what_workers_can_do_at_best_is_bound_by_the_processors_that_compute() -> None:
    facts = example_facts.cpu(
        example_facts.loader(batch_bytes=0), example_facts.machine(cpus=2, device=None)
    )
    workers = example_workers(0, {"collate": 0.625})
    loading = measure_loading(
        example_facts.loader(),
        example_use(example_facts.loader(), {"collate": 40.0}, workers),
        facts,
    )
    assert loading.min_step_ns(0, fetch_share=0.5) == pytest.approx(80e6)
    assert loading.min_step_ns(1) == pytest.approx(60e6 + loading.hand_over_ns)
    assert loading.min_step_ns(2, fetch_share=4.0) == pytest.approx(
        (160e6 + 60e6 + loading.hand_over_ns) / 2
    )


@pytest.mark.parametrize(("threads", "eased_ns"), [(1, 0), (2, 20e6)])
def test_less_work_of_workers_is_room_where_they_shared_processors(
    threads: int, eased_ns: float
) -> None:
    loader = example_facts.loader(num_workers=1, batch_bytes=0)
    machine = example_facts.machine(cpus=2, device=None, intra_op_threads=threads)
    workers = example_workers(1, {"decode": 0.625}, on_cpu=0.5, run_queue=0.5, blocked=0.0)
    facts = example_facts.cpu(loader, machine)
    loading = measure_loading(loader, example_use(loader, {"decode": 40.0}, workers), facts)
    assert loading.min_step_ns(1, fetch_share=0.0) == pytest.approx(
        60e6 - eased_ns + loading.hand_over_ns
    )


def test_large_batches_take_longer_to_be_handed_over() -> None:
    def hand_over_of_size(size: int | None) -> float:
        loader = example_facts.worker_loader(batch_bytes=size)
        return measure_loading(
            loader, example_use(loader, {"decode": 40.0}, example_workers(8, {}))
        ).hand_over_ns

    assert hand_over_of_size(None) == hand_over_of_size(0) < hand_over_of_size(100 << 20)


def test_of_a_stage_what_must_be_written_is_left() -> None:
    for size, n_detections in ((0, 1), (4 << 30, 0)):
        loader = example_facts.loader(num_workers=2, prefetch_factor=2, batch_bytes=size)
        facts = example_facts.gpu(loader, example_facts.machine(cpus=2))
        workers = example_workers(2, {"decode": 9.0})
        detections = DECODE_BOUND(
            evidence_of(facts, STEP, example_use(loader, {"decode": 40.0}, workers))
        )
        assert len(detections) == n_detections


def test_without_processors_counted_it_is_not_known_how_many_workers_they_feed() -> None:
    facts = example_facts.gpu(example_facts.loader(), example_facts.machine(cpus=None))
    workers = example_workers(0, {"decode": 2.0})
    loading = measure_loading(
        example_facts.loader(),
        example_use(example_facts.loader(), {"decode": 40.0}, workers),
        facts,
    )
    with pytest.raises(NotObservedError) as error_info:
        loading.max_workers()
    assert error_info.value.missing == "processors"


def test_the_line_at_which_workers_were_seen_most_is_where_a_stage_is_slow() -> None:
    loader = example_facts.loader(num_workers=2, prefetch_factor=2)
    workers = example_workers(2, {"decode": 9.0})
    lines = (
        HotLine("worker", "data.py", 7, "load", 10, 0.2),
        HotLine("worker", "data.py", 9, "decode", 40, 0.8),
        HotLine("training", "train.py", 3, "main", 90, 1.0),
    )
    facts = example_facts.gpu(loader, example_facts.machine(cpus=2))
    evidence = evidence_of(facts, STEP, example_use(loader, {"decode": 40.0}, workers), *lines)
    (detection,) = DECODE_BOUND(evidence)
    assert isinstance(detection, Detection)
    assert detection.location == Location("data.py", 9, "decode")


def add_lines(evidence: Evidence, *lines: HotLine) -> Evidence:
    recorded = evidence.study.recorded
    assert recorded is not None
    recorded = replace(recorded, loading_lines=lines)
    return replace(evidence, study=replace(evidence.study, recorded=recorded))


def test_without_workers_it_is_the_line_at_which_the_training_thread_made_batches() -> None:
    loader = example_facts.loader()
    facts = example_facts.gpu(loader, example_facts.machine(cpus=1))
    evidence = evidence_of(
        facts, STEP, example_use(loader, {"decode": 40.0}, example_workers(0, {"decode": 9.0}))
    )
    lines = (
        HotLine("making", "data.py", 9, "decode", 40, 0.4),
        HotLine("choosing", "data.py", 30, "__iter__", 50, 0.5),
    )
    (detection,) = DECODE_BOUND(add_lines(evidence, *lines))
    assert isinstance(detection, Detection)
    assert detection.location == Location("data.py", 9, "decode")
    sampler_use = example_use(loader, {"sampler": 40.0}, example_workers(0, {"decode": 0.1}))
    sampler_evidence = evidence_of(
        facts, {"busy.math": 60.0, "idle.data.sampler": 40.0}, sampler_use
    )
    (detection,) = sampler_bound(add_lines(sampler_evidence, *lines))
    assert isinstance(detection, Detection)
    assert detection.location == Location("data.py", 30, "__iter__")


def test_without_workers_a_slow_stage_is_that_of_the_loader() -> None:
    loader = example_facts.loader()
    facts = example_facts.gpu(loader, example_facts.machine(cpus=1))
    evidence = evidence_of(
        facts, STEP, example_use(loader, {"decode": 40.0}, example_workers(0, {"decode": 9.0}))
    )
    (detection,) = DECODE_BOUND(evidence)
    assert isinstance(detection, Detection)
    assert detection.location == loader.location


def test_only_what_was_recorded_can_be_stated_otherwise() -> None:
    evidence = with_steps(evidence_of(example_facts.gpu(), STEP), noise=0.2)
    assert evidence.study.recorded is not None
    assert evidence.study.recorded.steps is not None
    assert evidence.study.recorded.steps.noise == 0.2
    for change in (with_steps, with_recorded):
        with pytest.raises(ValueError, match="foreign"):
            change(evidence_of(None, STEP))
