"""Fixes in the terms of a framework: by the names of its modules alone, as windows show them."""

import pytest
from msgspec.structs import replace

from gapless.catalogue.declare import listing
from gapless.catalogue.declare.listing import parse_request
from gapless.catalogue.examples import example_facts
from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.parts import example_use, example_workers, source_line
from gapless.catalogue.frameworks.frameworks import (
    find_advice,
    find_framework,
    find_part,
    find_place,
    is_of_framework,
)
from gapless.catalogue.frameworks.terms import (
    CAUSE_ADVICE,
    FIX_ADVICE,
    FRAMEWORK_TITLES,
    LIBRARY_ADVICE,
    LIBRARY_TITLES,
    PLACES,
)
from gapless.catalogue.rules import RULES
from gapless.catalogue.rules.input.loader_in_training_process import loader_in_training_process
from gapless.model.edit import Location
from gapless.model.evidence import Evidence
from gapless.model.facts import Loader
from gapless.model.finding import Detection
from gapless.model.host_code import CallLine, HotLine

_TRAINER = source_line("transformers/trainer.py", 2230, "train", host=1, total=80)
_FIT = source_line("/env/site-packages/lightning/pytorch/loops/fit_loop.py", 201, "run", total=80)
_OLD = source_line("pytorch_lightning/trainer/trainer.py", 520, "fit", total=80)
_LEARNER = source_line("/env/site-packages/fastai/learner.py", 224, "_do_one_batch", total=70)
_NET = source_line("C:\\env\\skorch\\net.py", 1123, "step_fn", total=70)
_NAMED = (
    source_line("train.py", 12, "train", total=100),
    source_line("my_transformers/trainer.py", 3, "fit"),
)


def loop_evidence(*lines: object) -> Evidence:
    loader = example_facts.loader()
    wait = example_use(loader, {"decode": 80.0}, example_workers(0, {"decode": 1.25}))
    return evidence_of(
        example_facts.gpu(loader), {"busy.math": 20, "idle.data.decode": 80}, wait, *lines
    )


def find_detection(evidence: Evidence) -> Detection:
    (detection,) = (
        answer for answer in loader_in_training_process(evidence) if isinstance(answer, Detection)
    )
    return detection


@pytest.mark.parametrize(
    ("line", "name", "words"),
    [
        (_TRAINER, "transformers", "With TrainingArguments: dataloader_num_workers="),
        (_FIT, "lightning", "With Lightning: in train_dataloader, DataLoader(num_workers="),
        (_OLD, "lightning", "With Lightning: in train_dataloader, DataLoader(num_workers="),
        (_LEARNER, "fastai", "With fastai: DataLoaders made with num_workers="),
        (_NET, "skorch", "With the net of skorch: iterator_train__num_workers="),
    ],
)
def test_a_loop_of_a_framework_is_told_how_it_is_set(line: object, name: str, words: str) -> None:
    evidence = loop_evidence(*_NAMED, line)
    assert find_framework(evidence) == name
    assert (find_detection(evidence).no_remedy or "").startswith(words)


def test_a_loop_of_the_users_is_not() -> None:
    assert find_framework(loop_evidence(*_NAMED)) is None
    assert find_detection(loop_evidence(*_NAMED)).no_remedy is None


def test_what_a_framework_has_no_word_for_is_left_out() -> None:
    assert find_advice("transformers", parse_request("out-of-order@train.py:41")) is None
    assert (
        find_advice("transformers", parse_request("more-workers@train.py:41=8"))
        == "dataloader_num_workers=8"
    )
    assert find_advice("transformers", parse_request("more-workers")) is None


def test_of_loops_that_call_one_another_the_outermost_is_told() -> None:
    prepared_line = source_line("accelerate/data_loader.py", 560, "__iter__", host=1, total=60)
    assert find_framework(loop_evidence(prepared_line)) == "accelerate"
    assert find_framework(loop_evidence(prepared_line, _TRAINER)) == "transformers"
    derived_line = source_line(
        "sentence_transformers/base/trainer.py", 410, "compute_loss", total=30
    )
    assert (
        find_framework(loop_evidence(prepared_line, _TRAINER, derived_line))
        == "sentence_transformers"
    )


def test_what_makes_the_samples_has_words_of_its_own() -> None:
    loader = example_facts.loader()
    workers = example_workers(0, {"augment": 1.25})
    settings = {"num_workers": 0, "dataset": "monai.data.dataset.Dataset"}
    wait = example_use(loader, {"augment": 80.0}, workers, settings=settings)
    evidence = evidence_of(
        example_facts.gpu(loader), {"busy.math": 20, "idle.data.augment": 80}, wait
    )
    assert (find_detection(evidence).advice or "").startswith(
        "With MONAI: CacheDataset or PersistentDataset"
    )
    assert (find_detection(evidence).no_remedy or "").startswith(
        find_detection(evidence).advice or "-"
    )


def test_all_that_is_advised_is_a_fix_or_a_cause() -> None:
    for terms in FIX_ADVICE.values():
        for fix in terms:
            listing.find_fix(fix)
    names = {rule.name for rule in RULES}
    cause_groups = (*CAUSE_ADVICE.values(), *LIBRARY_ADVICE.values())
    assert all(cause in names for causes in cause_groups for cause in causes)
    assert set(FIX_ADVICE) | set(CAUSE_ADVICE) == set(FRAMEWORK_TITLES)
    assert set(PLACES) < set(FRAMEWORK_TITLES)
    assert set(LIBRARY_ADVICE) == set(LIBRARY_TITLES)


def test_the_line_that_runs_the_whole_loop_gives_way_to_the_frameworks_words() -> None:
    fit = Location("train.py", 21, "<module>")
    whole = HotLine("training", "train.py", 21, "<module>", count=99, share=0.99)
    half = replace(whole, share=0.5)
    evidence = loop_evidence(_TRAINER, whole)
    assert find_place(evidence, "loader", fit) == "in Trainer's train_dataloader"
    assert find_place(evidence, "optimizer", fit) == "in Trainer's optimizer step"
    assert find_place(evidence, None, fit) is None
    assert find_place(evidence, "loader", replace(fit, line=22)) is None
    assert find_place(loop_evidence(_TRAINER, half), "loader", fit) is None
    assert find_place(loop_evidence(whole), "loader", fit) is None


def test_without_stacks_of_a_window_sampled_calls_tell_the_framework() -> None:
    call = CallLine("train.py", 21, "<module>", "/env/transformers/trainer.py", "train", 0.97)
    assert find_framework(loop_evidence(call)) == "transformers"
    assert find_framework(loop_evidence(replace(call, share=0.5))) is None
    assert find_framework(loop_evidence(*_NAMED, call)) is None


def test_files_of_frameworks_are_not_the_users() -> None:
    assert is_of_framework("sentence_transformers/losses/ranking.py")
    assert not is_of_framework("model.py")
    assert not is_of_framework("my_transformers/trainer.py")
    assert is_of_framework("pytorch_lightning/core/module.py")


def test_a_cause_is_about_what_its_rule_looks_at() -> None:
    assert find_part((Loader,), ()) == "loader"
    assert find_part((), (parse_request("fused"),)) == "optimizer"
    assert find_part((), (parse_request("more-workers"),)) is None
    assert find_detection(loop_evidence(_TRAINER)).part == "loader"
