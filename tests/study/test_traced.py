"""Opened traces: what follows from a trace alone is known, inferred, and speaks.

The traces of ``data/opened`` are five steps of small trainings on a CPU, recorded with
``torch.profiler``; "1" behind their name: with stacks and shapes.
"""

import pytest

import gapless
from gapless.catalogue.queries.trace_facts import infer_facts
from gapless.model.evidence import Evidence
from gapless.model.finding import Abstention, Detection
from gapless.model.study import Study
from gapless.pricing.charged import charge_changes
from tests.traces import OPENED

DetectionsByName = dict[str, Detection]


def open_trace(name: str) -> Study:
    return gapless.open(OPENED[name], cache=False)


def detections_by_name(study: Study) -> DetectionsByName:
    diagnosis = study.diagnosis
    assert diagnosis is not None
    findings = [
        *diagnosis.findings,
        *diagnosis.present,
        *(candidate.finding for candidate in diagnosis.to_try),
    ]
    return {finding.detection.name: finding.detection for finding in findings}


def abstentions(study: Study) -> dict[str, Abstention]:
    assert study.diagnosis is not None
    return {abstention.name: abstention for abstention in study.diagnosis.abstentions}


def test_a_loader_in_the_training_process_is_named_with_the_function_that_is_slow() -> None:
    study = open_trace("home1")
    detection = detections_by_name(study)["loader-in-training-process"]
    assert "in decode (cases.py:" in detection.summary
    assert detection.location is not None
    assert detection.location.file == "cases.py"
    assert detection.inferred
    assert charge_changes(Evidence(study, infer_facts(study)), detection.changes).own_share > 0.7


def test_late_workers_are_named_without_their_number() -> None:
    study = open_trace("late0")
    detection = detections_by_name(study)["too-few-workers"]
    assert "how many workers there are the trace does not tell" in detection.summary
    assert charge_changes(Evidence(study, infer_facts(study)), detection.changes).own_share > 0.7


@pytest.mark.parametrize("name", ["healthy1", "fed1"])
def test_a_healthy_trace_stays_silent(name: str) -> None:
    study = open_trace(name)
    assert study.diagnosis is not None
    assert study.diagnosis.findings == ()
    assert study.diagnosis.to_try == ()


def test_rules_that_need_more_than_a_trace_say_what() -> None:
    with_stacks = abstentions(open_trace("home1"))
    assert with_stacks["untried-convolutions"].reason.startswith("a trace does not hold torch's")
    assert "decode-bound" in with_stacks
    without_stacks = abstentions(open_trace("late0"))
    assert "record_shapes=True" in without_stacks["channels-first"].reason


def test_facts_that_do_not_follow_stay_absent() -> None:
    facts = infer_facts(open_trace("home1"))
    assert facts.inferred
    assert [(loader.num_workers, loader.trains) for loader in facts.loaders] == [(0, True)]
    assert [(optimizer.name, optimizer.tensors) for optimizer in facts.optimizers] == [
        ("torch.optim.sgd.SGD", 10)
    ]
    assert (facts.machine.cpus, facts.machine.device, facts.precision) == (None, None, None)
    assert facts.world.micro_batches == 1.0


def test_an_opened_trace_proposes_no_edits() -> None:
    assert open_trace("home1").proposals == ()


def test_checkpoints_of_a_trace_are_told_with_their_line() -> None:
    detection = detections_by_name(open_trace("save1"))["checkpoint-in-the-way"]
    assert "in each step" in detection.summary
    assert detection.location is not None
    assert detection.location.file == "save.py"


def open_ranks(name: str) -> Study:
    return gapless.open(*(OPENED[f"{name}.rank{rank}"] for rank in (0, 1)), cache=False)


def test_a_late_loader_on_one_rank_is_named_with_its_rank_and_cause() -> None:
    study = open_ranks("late")
    assert study.diagnosis is not None
    detection = study.diagnosis.findings[0].detection
    assert detection.name == "loader-in-training-process"
    assert detection.summary.startswith("Rank 1 comes late to the collectives: the other waits")
    assert "more waiting for data, which the training process loads itself" in detection.summary


def test_gradients_that_are_reduced_one_by_one_are_named() -> None:
    study = open_ranks("manual")
    assert study.diagnosis is not None
    detection = study.diagnosis.findings[0].detection
    assert detection.name == "unhidden-collectives"
    assert "24 calls a step, one for each parameter" in detection.summary


def test_a_healthy_pair_of_which_one_had_less_of_the_processors_stays_silent() -> None:
    study = open_ranks("healthy")
    assert study.diagnosis is not None
    assert study.diagnosis.findings == ()
    assert abstentions(study)["straggling-rank"].missing == "processors"


def test_an_evaluation_of_a_trace_is_told_by_its_function_and_as_the_most() -> None:
    detection = detections_by_name(open_trace("eval1"))["evaluation-in-the-way"]
    assert "seen twice, its period is not known" in detection.summary
    assert detection.location is not None
    assert detection.location.function == "evaluate"
    assert detection.unsure is not None
