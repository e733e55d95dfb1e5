"""Fixes in the terms of a framework: by the names of its modules alone, as windows show them."""

import pytest

from gapless.catalogue import examples, listing
from gapless.catalogue.framework_terms import ADVICE, CAUSES, DATA, DATA_IN, IN
from gapless.catalogue.frameworks import advice, framework
from gapless.catalogue.rules import RULES
from gapless.catalogue.rules.loader_in_training_process import loader_in_training_process
from gapless.catalogue.seen_examples import seen
from gapless.catalogue.seen_parts import made_by, source, used
from gapless.model.finding import Loss
from gapless.model.seen import Seen

_TRAINER = source("transformers/trainer.py", 2230, "train", host=1, total=80)
_FIT = source("/env/site-packages/lightning/pytorch/loops/fit_loop.py", 201, "run", total=80)
_OLD = source("pytorch_lightning/trainer/trainer.py", 520, "fit", total=80)
_LEARNER = source("/env/site-packages/fastai/learner.py", 224, "_do_one_batch", total=70)
_NET = source("C:\\env\\skorch\\net.py", 1123, "step_fn", total=70)
_NAMED = source("train.py", 12, "train", total=100), source("my_transformers/trainer.py", 3, "fit")


def looped(*lines: object) -> Seen:
    one = examples.loader()
    wait = used(one, {"decode": 80.0}, made_by(0, {"decode": 1.25}))
    return seen(examples.gpu(one), {"busy.math": 20, "idle.data.decode": 80}, wait, *lines)


def said(of: Seen) -> Loss:
    (one,) = (loss for loss in loader_in_training_process(of) if isinstance(loss, Loss))
    return one


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
    of = looped(*_NAMED, line)
    assert framework(of) == name
    assert (said(of).no_remedy or "").startswith(words)


def test_a_loop_of_the_users_is_not() -> None:
    assert framework(looped(*_NAMED)) is None
    assert said(looped(*_NAMED)).no_remedy is None


def test_what_a_framework_has_no_word_for_is_left_out() -> None:
    assert advice("transformers", "out-of-order@train.py:41") is None
    assert advice("transformers", "more-workers@train.py:41=8") == "dataloader_num_workers=8"
    assert advice("transformers", "more-workers") is None


def test_of_loops_that_call_one_another_the_outermost_is_told() -> None:
    prepared = source("accelerate/data_loader.py", 560, "__iter__", host=1, total=60)
    assert framework(looped(prepared)) == "accelerate"
    assert framework(looped(prepared, _TRAINER)) == "transformers"
    derived = source("sentence_transformers/base/trainer.py", 410, "compute_loss", total=30)
    assert framework(looped(prepared, _TRAINER, derived)) == "sentence_transformers"


def test_what_makes_the_samples_has_words_of_its_own() -> None:
    one = examples.loader()
    made = made_by(0, {"augment": 1.25})
    settings = {"num_workers": 0, "dataset": "monai.data.dataset.Dataset"}
    wait = used(one, {"augment": 80.0}, made, settings=settings)
    of = seen(examples.gpu(one), {"busy.math": 20, "idle.data.augment": 80}, wait)
    assert (said(of).told or "").startswith("With MONAI: CacheDataset or PersistentDataset")
    assert (said(of).no_remedy or "").startswith(said(of).told or "-")


def test_all_that_is_advised_is_a_fix_or_a_cause() -> None:
    for known in ADVICE.values():
        for fix in known:
            listing.find(fix)
    names = {one.name for one in RULES}
    every = (*CAUSES.values(), *DATA.values())
    assert all(cause in names for known in every for cause in known)
    assert set(ADVICE) | set(CAUSES) == set(IN)
    assert set(DATA) == set(DATA_IN)
