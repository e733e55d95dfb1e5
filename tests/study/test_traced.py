"""Opened traces: what follows from a trace alone is known, inferred, and speaks.

The traces of ``data/opened`` are five steps of small trainings on a CPU, recorded with
``torch.profiler``; "1" behind their name: with stacks and shapes.
"""

from pathlib import Path

import pytest

import gapless
from gapless.catalogue.traced import traced
from gapless.model.finding import Abstention, Loss
from gapless.model.seen import Seen
from gapless.model.study import Study
from gapless.study.charged import charged

OPENED = Path(__file__).parents[1] / "data" / "opened"
Said = dict[str, Loss]


def opened(name: str) -> Study:
    return gapless.open(OPENED / f"{name}.json.gz", cache=False)


def losses(study: Study) -> Said:
    found = study.diagnosis
    assert found is not None
    every = [*found.findings, *found.present, *(one.finding for one in found.to_try)]
    return {one.loss.name: one.loss for one in every}


def abstentions(study: Study) -> dict[str, Abstention]:
    assert study.diagnosis is not None
    return {one.name: one for one in study.diagnosis.abstentions}


def test_a_loader_in_the_training_process_is_named_with_the_function_that_is_slow() -> None:
    study = opened("home1")
    loss = losses(study)["loader-in-training-process"]
    assert "in decode (cases.py:" in loss.summary
    assert loss.where is not None
    assert loss.where.file == "cases.py"
    assert loss.inferred
    assert charged(Seen(study, traced(study)), loss.changes).own > 0.7


def test_late_workers_are_named_without_their_number() -> None:
    study = opened("late0")
    loss = losses(study)["too-few-workers"]
    assert "how many workers there are the trace does not tell" in loss.summary
    assert charged(Seen(study, traced(study)), loss.changes).own > 0.7


@pytest.mark.parametrize("name", ["healthy1", "fed1"])
def test_a_healthy_trace_stays_silent(name: str) -> None:
    study = opened(name)
    assert study.diagnosis is not None
    assert study.diagnosis.findings == ()
    assert study.diagnosis.to_try == ()


def test_rules_that_need_more_than_a_trace_say_what() -> None:
    missing = abstentions(opened("home1"))
    assert missing["untried-convolutions"].reason.startswith("a trace does not hold torch's")
    assert "decode-bound" in missing
    bare = abstentions(opened("late0"))
    assert "record_shapes=True" in bare["channels-first"].reason


def test_facts_that_do_not_follow_stay_absent() -> None:
    facts = traced(opened("home1"))
    assert facts.inferred
    assert [(one.num_workers, one.trains) for one in facts.loaders] == [(0, True)]
    assert [(one.name, one.tensors) for one in facts.optimizers] == [("torch.optim.sgd.SGD", 10)]
    assert (facts.machine.cpus, facts.machine.device, facts.precision) == (None, None, None)
    assert facts.world.micro_batches == 1.0


def test_an_opened_trace_proposes_no_edits() -> None:
    assert opened("home1").proposals == ()


def test_checkpoints_of_a_trace_are_told_with_their_line() -> None:
    loss = losses(opened("save1"))["checkpoint-in-the-way"]
    assert "in each step" in loss.summary
    assert loss.where is not None
    assert loss.where.file == "save.py"


def ranks(name: str) -> Study:
    return gapless.open(*sorted(OPENED.glob(f"{name}.rank*.json.gz")), cache=False)


def test_a_late_loader_on_one_rank_is_named_with_its_rank_and_cause() -> None:
    study = ranks("late")
    assert study.diagnosis is not None
    first = study.diagnosis.findings[0].loss
    assert first.name == "straggling-rank"
    assert first.summary.startswith("Rank 1 comes late to the collectives: the other waits")
    assert "more waiting for data, which the training process loads itself" in first.summary
    assert "loader-in-training-process" not in losses(study)


def test_gradients_that_are_reduced_one_by_one_are_named() -> None:
    study = ranks("manual")
    assert study.diagnosis is not None
    first = study.diagnosis.findings[0].loss
    assert first.name == "unhidden-collectives"
    assert "24 calls a step, one for each parameter" in first.summary


def test_a_healthy_pair_of_which_one_had_less_of_the_processors_stays_silent() -> None:
    study = ranks("healthy")
    assert study.diagnosis is not None
    assert study.diagnosis.findings == ()
    assert abstentions(study)["straggling-rank"].missing == "processors"


def test_an_evaluation_of_a_trace_is_told_by_its_function_and_as_the_most() -> None:
    loss = losses(opened("eval1"))["evaluation-in-the-way"]
    assert "seen twice, its period is not known" in loss.summary
    assert loss.where is not None
    assert loss.where.function == "evaluate"
    assert loss.unsure is not None
