"""Fixes in the terms of a framework: by the names of its modules alone, as windows show them."""

import pytest

from gapless.catalogue import examples, listing
from gapless.catalogue.frameworks import ADVICE, CAUSES, advice, framework
from gapless.catalogue.rules import RULES
from gapless.catalogue.rules.loader_in_training_process import loader_in_training_process
from gapless.catalogue.seen_examples import seen
from gapless.catalogue.seen_parts import made_by, source, used
from gapless.model.finding import Loss
from gapless.model.seen import Seen

_TRAINER = source("transformers/trainer.py", 2230, "train", host=1, total=80)
_FIT = source("/env/site-packages/lightning/pytorch/loops/fit_loop.py", 201, "run", total=80)
_OLD = source("pytorch_lightning/trainer/trainer.py", 520, "fit", total=80)
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


def test_all_that_is_advised_is_a_fix_or_a_cause() -> None:
    for known in ADVICE.values():
        for fix in known:
            listing.find(fix)
    names = {one.name for one in RULES}
    assert all(cause in names for known in CAUSES.values() for cause in known)
