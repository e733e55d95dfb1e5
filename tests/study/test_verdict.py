"""The sentence on top: what takes most of a step beside computing, in words of the user's."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from gapless.catalogue.declare.listing import parse_request
from gapless.catalogue.examples.evidence import evidence_of, with_steps
from gapless.catalogue.examples.example_facts import (
    LOADER_LINE,
    cpu,
    ddp,
    evaluation,
    gpu,
    loader,
    without_loaders,
    worker_loader,
    world,
)
from gapless.catalogue.examples.parts import example_use, example_workers, operator
from gapless.catalogue.examples.ranks import evidence_of_ranks, hot_line, with_rank_lines
from gapless.catalogue.examples.work import example_work
from gapless.catalogue.queries.samples import find_top_code, is_in_single_step, suggest_remedy
from gapless.catalogue.queries.trace_facts import infer_facts
from gapless.model.change import ZERO_FACTOR, Bucket, Change, Drop, LoaderChange, Prediction
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Finding
from gapless.model.host_code import HostCode, HotLine
from gapless.model.rhythm import Sighting, UnlikeSteps
from gapless.model.study import Site
from gapless.pricing.ordering import order_findings
from gapless.pricing.words.verdict import affected_groups, verdict_of

Leaves = Mapping[str, float]


def sentence_of(run: Evidence) -> str:
    verdict = verdict_of(run, ())
    assert verdict is not None
    return verdict.sentence


def with_site(run: Evidence, leaf: str, line: int) -> Evidence:
    site = Site(leaf, "/job/train.py", line, "main", 10, 1)
    return replace(run, study=replace(run.study, sites=(site,)))


def test_what_an_agent_does_in_its_environment_is_not_called_evaluation() -> None:
    agent = gpu(evaluation(environment="gymnasium"), evaluation=12)
    leaves = {"idle.io_main.eval": 60, "busy.math": 40}
    opening = "60 % of each step goes to "
    assert sentence_of(evidence_of(agent, leaves)).startswith(f"{opening}evaluation")
    assert sentence_of(evidence_of(without_loaders(agent), leaves)).startswith(
        f"{opening}collecting experience (gymnasium), the model in eval mode"
    )
    beside_host = {"idle.host.python": 45, "idle.io_main.eval": 20, "busy.math": 35}
    sentence = sentence_of(evidence_of(without_loaders(agent), beside_host))
    assert sentence.endswith(
        "20 % goes to collecting experience (gymnasium), the model in eval mode"
    )


@pytest.mark.parametrize("kind", ["python", "file", "socket"])
def test_loaders_are_no_advice_where_there_are_none(kind: str) -> None:
    agent, step = gpu(loader()), {"busy.math": 1.0}
    code = HostCode(kind, 0.3, 0.9, "train.py", 34, "train", None, 0.3, 400)
    assert "workers" in suggest_remedy(evidence_of(agent, step), code)
    remedy = suggest_remedy(evidence_of(without_loaders(agent), step), code)
    assert "workers" not in remedy
    assert " ," not in remedy


def test_who_loads_what_the_device_waits_for_is_said_with_its_line() -> None:
    step = {"busy.math": 17, "idle.data.decode": 83}
    on_gpu = evidence_of(
        gpu(loader()),
        step,
        example_use(loader(), {"decode": 83.0}, example_workers(0, {"decode": 1})),
    )
    assert sentence_of(on_gpu) == (
        "83 % of each step the GPU waits for data, which the training process loads itself "
        f"(train.py:{LOADER_LINE.line}), mostly for decoding them; 17 % is computing"
    )
    on_cpu = evidence_of(
        cpu(loader()),
        step,
        example_use(loader(), {"decode": 83.0}, example_workers(0, {"decode": 1})),
    )
    assert sentence_of(on_cpu) == (
        "83 % of each step goes to loading data, which the training process does itself "
        f"(train.py:{LOADER_LINE.line}), mostly decoding them; 17 % is computing"
    )
    workers = evidence_of(
        gpu(worker_loader()),
        step,
        example_use(worker_loader(), {"decode": 83.0}, example_workers(8, {"decode": 1.0})),
    )
    assert "waits for data, which 8 workers load (train.py" in sentence_of(workers)


@pytest.mark.parametrize(
    ("leaves", "words"),
    [
        (
            {"idle.host.python": 60},
            (
                "60 % of each step the GPU waits for the training thread, which is mostly in "
                "Python code (train.py:88); 40 % is computing"
            ),
        ),
        ({"idle.gc": 60}, "60 % of each step goes to Python's garbage collector (train.py:88)"),
        ({"idle.io_main.eval": 60}, "60 % of each step goes to evaluation (train.py:88); 40 %"),
        ({"copy.h2d.pageable": 60}, "60 % of each step the GPU waits for copies between host"),
        ({"comm.exposed": 60}, "60 % of each step goes to communication that no computing hides"),
        ({"idle.sync.return": 60}, "60 % of each step the GPU has nothing to do, since the train"),
        (
            {"idle.device.wait": 60},
            (
                "60 % of each step the GPU leaves ready work undone, as when others compute on it; "
                "40 % is computing"
            ),
        ),
        ({"idle.unknown": 60}, "60 % of each step is not explained: nothing was recorded of what"),
    ],
)
def test_the_largest_owner_of_time_that_is_not_computing_is_named(
    leaves: Leaves, words: str
) -> None:
    run = evidence_of(gpu(), {"busy.math": 40, **leaves})
    assert sentence_of(with_site(run, next(iter(leaves)), 88)).startswith(words)


def test_without_a_device_it_is_the_training_thread() -> None:
    run = with_site(
        evidence_of(cpu(), {"busy.math": 40, "idle.host.python": 60}), "idle.host.python", 88
    )
    assert sentence_of(run) == (
        "60 % of each step the training thread spends outside operators, mostly in Python code "
        "(train.py:88); 40 % is computing"
    )


def test_a_step_that_computes_is_called_so() -> None:
    run = evidence_of(gpu(), {"busy.tc_math": 94, "idle.host.python": 6})
    verdict = verdict_of(run, ())
    assert verdict is not None
    assert (verdict.owner, verdict.share) == ("compute", pytest.approx(0.94))
    assert verdict.sentence == (
        "94 % of each step is computing, mostly matrix products and convolutions on tensor cores; "
        "6 % is waiting for the training thread"
    )


def test_of_ranks_that_wait_it_is_said_for_which() -> None:
    late = ({"comm.straggler_wait": 60, "busy.math": 40}, {"busy.math": 100})
    run = evidence_of_ranks(cpu(ddp(), world(ranks=2)), *late)
    assert sentence_of(with_site(run, "x", 1)).startswith("70 % of each step is computing") is False
    assert "ranks wait in collectives for the last to come" in sentence_of(run)


def test_threads_that_do_the_same_on_all_ranks_are_not_waited_for_as_one_rank() -> None:
    late = {"idle.host.dispatch": 60, "busy.math": 40}
    waiting = {"comm.straggler_wait": 60, "busy.math": 40}
    run = evidence_of_ranks(gpu(ddp(), world(ranks=2)), late, waiting)
    lines = (hot_line(77, 0.9),)
    assert "for the training threads, which do the same on all ranks: they are mostly busy" in (
        sentence_of(with_rank_lines(run, lines, lines))
    )
    own_lines = (hot_line(77, 0.4), hot_line(80, 0.5))
    assert "ranks wait in collectives for the last to come" in (
        sentence_of(with_rank_lines(run, own_lines, lines))
    )


def test_what_one_rank_does_more_of_is_what_the_others_wait_for() -> None:
    late = {"idle.host.python": 60, "comm.exposed": 4, "busy.math": 36}
    waiting = {"comm.straggler_wait": 50, "idle.host.python": 10, "comm.exposed": 4}
    run = evidence_of_ranks(cpu(ddp(), world(ranks=2)), late, {**waiting, "busy.math": 36})
    assert sentence_of(run).startswith(
        "29 % of each step ranks wait in collectives for the last to come"
    )
    slow_ranks = evidence_of_ranks(cpu(ddp(), world(ranks=2)), late, late)
    assert sentence_of(slow_ranks).startswith(
        "60 % of each step the training thread spends outside operators"
    )


def test_without_steps_nothing_is_said() -> None:
    assert verdict_of(evidence_of(None, {}), ()) is None


def test_no_share_is_above_the_whole() -> None:
    run = evidence_of(gpu(), {"busy.math": 100, "idle.data.decode": 150})
    verdict = verdict_of(run, ())
    assert verdict is not None
    assert verdict.share <= 1


def test_what_would_tell_more_of_the_owner_is_named_where_it_can_be_tried() -> None:
    run = evidence_of(gpu(loader()), {"busy.math": 17, "idle.data.decode": 83})
    verdict = verdict_of(run, ())
    assert verdict is not None
    assert "cached-batch" in verdict.ceilings
    assert not verdict.named
    foreign = verdict_of(Evidence(run.study, infer_facts(run.study)), ())
    assert foreign is not None
    assert foreign.ceilings == ()


# ── What causes are about, and their order ──────────────────────────────────────────────────────


def finding(low: float, *changes: Change, helps: tuple[str, ...] = ()) -> Finding:
    detection = Detection(
        f"G{low}",
        "odd",
        "It is odd.",
        changes,
        Location("/a/train.py", 7),
        helps=tuple(map(parse_request, helps)),
    )
    return Finding(detection, Prediction(Estimate(low, low, low), "feed"), None)


def test_a_finding_about_the_owner_is_known_as_such() -> None:
    assert affected_groups((LoaderChange(0, wait=False),)) == {"data"}
    assert affected_groups((Drop(("idle.gc",)), Drop(("idle.io_main.",)))) == {"runtime", "io"}
    run = evidence_of(gpu(loader()), {"busy.math": 17, "idle.data.decode": 83})
    verdict = verdict_of(run, (finding(1.2, LoaderChange(0, num_workers=4)),))
    assert verdict is not None
    assert verdict.named


@pytest.mark.parametrize(
    ("fix", "first_code"),
    [
        (finding(1.6, LoaderChange(0, num_workers=4), helps=("more-workers=4",)), "G1.6"),
        (
            finding(1.3, LoaderChange(0, num_workers=4), helps=("more-workers=4",)),
            "G2.0",
        ),  # too little
        (
            finding(1.6, LoaderChange(1, num_workers=4), helps=("more-workers=4",)),
            "G2.0",
        ),  # another's
        (finding(1.6, LoaderChange(0, num_workers=4), helps=("no-sync",)), "G2.0"),  # not here
    ],
)
def test_a_fix_that_gives_half_of_a_wish_stands_before_it(fix: Finding, first_code: str) -> None:
    run = evidence_of(gpu(loader()), {"busy.math": 17, "idle.data.decode": 83})
    ideal = finding(2.0, LoaderChange(0, stages={"decode": 0.1}))
    assert order_findings((ideal, fix), run)[0].detection.code == first_code


def test_a_fix_that_saves_most_of_a_long_wait_stands_before_a_wish_of_twice_the_speed() -> None:
    run = evidence_of(gpu(loader()), {"busy.math": 9, "idle.data.other": 91})
    ideal = finding(4.8, LoaderChange(0, stages={"blocked": 0.0}))
    fix = finding(2.3, LoaderChange(0, num_workers=4), helps=("more-workers=4",))
    assert order_findings((ideal, fix), run)[0].detection.code == "G2.3"


def test_two_causes_of_computing_explain_no_common_wait() -> None:
    run = evidence_of(gpu(loader()), {"busy.math": 80, "idle.data.decode": 20})
    ideal = finding(2.0, Drop(("busy.math",), 0.5))
    fix = finding(1.6, Drop(("busy.math",), 0.6), helps=("more-workers=4",))
    assert order_findings((fix, ideal), run)[0].detection.code == "G2.0"


@pytest.mark.parametrize(("stake", "first_code"), [(1.9, "G1.0"), (1.3, "G1.5")])
def test_an_exchange_by_hand_is_first_where_most_is_at_stake(stake: float, first_code: str) -> None:
    run = evidence_of(gpu(loader()), {"busy.math": 60, "comm.exposed": 40})
    by_hand = finding(1.0, Bucket(25 << 20, 1 << 20, ZERO_FACTOR, ZERO_FACTOR))
    most = Prediction(None, "replay", at_most=Estimate(1.0, stake, stake))
    other = finding(1.5, Drop(("idle.host.python",)))
    order = order_findings((other, replace(by_hand, prediction=most)), run)
    assert order[0].detection.code == first_code


def test_what_no_window_shows_is_said_with_the_line_that_samples_tell() -> None:
    run = evidence_of(cpu(), {"busy.math": 30, "step": 70})
    recorded = run.study.recorded
    assert recorded is not None
    assert recorded.account is not None
    opening = "70 % of each step is known only as a whole: no window shows what happens within it"
    assert sentence_of(run).startswith(opening)
    line = HotLine("training", "/job/ppo.py", 21, "rollout", 30, 0.6)
    unlike = UnlikeSteps(steps=0.0625, time=0.7, mean_ns=70_000_000)
    with_unlike = replace(recorded, lines=(line,), account=replace(recorded.account, unlike=unlike))
    assert sentence_of(replace(run, study=replace(run.study, recorded=with_unlike))).startswith(
        "70 % of each step is in steps of a kind that no window holds (6 % of all, 70.0 ms "
        "each); stacks sampled in all steps stood mostly at ppo.py:21 (60 %)"
    )


def test_a_single_long_step_has_no_share_of_each_step() -> None:
    run = evidence_of(cpu(), {"busy.math": 22, "idle.host.python": 3, "step": 75})
    recorded = run.study.recorded
    assert recorded is not None
    assert recorded.account is not None
    assert recorded.steps is not None
    for count in (1, 2):
        unlike = UnlikeSteps(count / recorded.steps.noted, 0.75, 4_000_000_000)
        account = replace(recorded.account, unlike=unlike)
        study = replace(run.study, recorded=replace(recorded, account=account))
        evidence = replace(run, study=study)
        sentence = sentence_of(evidence)
        assert sentence.startswith("88 % of each step is computing") is (count == 1)
        words = "leave aside a long step seen once, 4.00 s, 75 % of the recorded steps' time"
        assert (words in sentence) is (count == 1)
        for share, is_in in ((0.7, count == 1), (0.3, False)):
            assert is_in_single_step(evidence, share) is is_in
        code = HostCode("socket", 0.74, 1.0, "/job/train.py", 12, "download", None, 0.74, 200)
        with_code = replace(study, recorded=replace(recorded, account=account, host_code=(code,)))
        assert (find_top_code(replace(run, study=with_code)) is None) is (count == 1)


def test_the_line_of_python_is_where_it_was_sampled_not_where_operators_run() -> None:
    run = with_site(
        evidence_of(cpu(), {"busy.math": 30, "idle.host.python": 70}), "idle.host.python", 74
    )
    assert "in Python code (train.py:74)" in sentence_of(run)
    for share, line in ((0.5, " (train.py:21)"), (0.1, "")):
        code = HostCode("python", share, 1.0, "/job/train.py", 21, "scores", None, share, 200)
        recorded = run.study.recorded
        assert recorded is not None
        with_code = replace(recorded, host_code=(code,))
        sentence = sentence_of(replace(run, study=replace(run.study, recorded=with_code)))
        assert f"in Python code{line}; 30 % is computing" in sentence


@pytest.mark.parametrize(
    ("kind", "library", "words"),
    [
        ("sleep", None, "sleeping"),
        ("file", None, "reading or writing files"),
        ("socket", None, "waiting for a socket"),
        ("lock", None, "waiting for another thread"),
        ("python", "PIL", "in PIL"),
    ],
)
def test_what_the_thread_does_is_called_what_it_is(
    kind: str, library: str | None, words: str
) -> None:
    code = HostCode(kind, 0.6, 1.0, "/job/train.py", 21, "poll", library, 0.6, 200)
    leaves = {"busy.math": 30, "idle.host.unframed": 70}
    assert f"operators, mostly {words} (train.py:21);" in sentence_of(
        evidence_of(cpu(), leaves, code)
    )
    assert f"thread, which is mostly {words} (train.py:21);" in sentence_of(
        evidence_of(gpu(), leaves, code)
    )


def test_a_trace_claims_no_python_where_a_wait_looks_the_same() -> None:
    leaves = {"busy.math": 30, "idle.host.python": 70}
    words = "mostly in code of the script, or in what that waits for; 30 %"
    for parts, part_of_sentence in (
        ((), "the trace holds no operator"),
        ((operator("aten::mm", calls=10, host_ms=30),), words),
    ):
        run = evidence_of(cpu(), leaves, *parts)
        traced = replace(run, study=replace(run.study, recorded=None))
        assert part_of_sentence in sentence_of(traced)


def test_what_a_library_takes_long_for_is_done_beforehand() -> None:
    code = HostCode("python", 0.6, 1.0, "/job/train.py", 21, "load", "PIL", 0.6, 200)
    remedy = suggest_remedy(evidence_of(cpu(), {"busy.math": 1.0}), code)
    assert remedy.startswith("do it once beforehand, or less often")
    assert "what works on the model's outputs can be written as operations on tensors" in remedy


def test_operators_of_no_known_kind_are_named_where_one_is_most_of_them() -> None:
    leaves = {"busy.math": 10, "busy.other": 80, "idle.host.python": 10}
    cdist = example_work("aten::cdist", ((64, 8),), 70, "busy.other", calls=1)
    roll = example_work("aten::roll", ((64, 8),), 10, "busy.other", calls=1)
    assert "is computing, mostly aten::cdist" in sentence_of(
        evidence_of(cpu(), leaves, cdist, roll)
    )
    flip = example_work("aten::flip", ((64, 8),), 70, "busy.other", calls=1)
    sentence = sentence_of(evidence_of(cpu(), leaves, cdist, flip))
    assert "mostly aten::cdist and aten::flip" in sentence
    renorm = example_work("aten::renorm", ((64, 8),), 70, "busy.other", calls=1)
    trace = example_work("aten::trace", ((64, 8),), 70, "busy.other", calls=1)
    long_sentence = sentence_of(evidence_of(cpu(), leaves, cdist, flip, renorm, trace))
    assert "mostly operators of no known kind" in long_sentence
    layers = (
        example_work(name, ((64, 8),), 30, "busy.other", calls=1)
        for name in ("aten::lstm", "aten::mkldnn_rnn_layer_backward", "aten::_cudnn_rnn")
    )
    assert "mostly recurrent layers;" in f"{sentence_of(evidence_of(cpu(), leaves, *layers))};"


def test_an_evaluation_that_was_seen_once_owns_no_steps() -> None:
    single_sighting = Sighting(count=1, each_ns=900_000_000, period=None, at_start=True)
    run = evidence_of(gpu(), {"busy.math": 30, "idle.host.python": 30, "idle.io_main.eval": 40})
    sentence = sentence_of(with_steps(run, sightings={"idle.io_main.eval": single_sighting}))
    assert sentence.startswith("50 % of each step the GPU waits for the training thread")
    assert sentence.endswith(
        "50 % is computing; these shares leave aside an evaluation seen once, 0.90 s, "
        "40 % of the recorded steps' time"
    )
    periodic_sighting = replace(single_sighting, count=3, period=500.0)
    assert sentence_of(
        with_steps(run, sightings={"idle.io_main.eval": periodic_sighting})
    ).startswith("40 % of each")


def test_the_recorder_owns_no_time_of_a_run_but_a_profiler_does_of_a_trace() -> None:
    step = {"busy.math": 20, "idle.host.python": 20, "idle.profiler": 60}
    assert sentence_of(evidence_of(gpu(), step)).startswith(
        "20 % of each step the GPU waits for the training"
    )
    assert sentence_of(evidence_of(None, step)).startswith("60 % of each step goes to a profiler")
