"""Every fix is tested by the cases that it states; so no test names one."""

import re
from pathlib import Path

import pytest

from gapless.catalogue import examples, fixes, listing, pages, processors, traps
from gapless.catalogue.declare import Case, Fix, Option, is_nothing, spoken
from gapless.catalogue.fixes import FIXES
from gapless.errors import UsageError
from gapless.model.edit import Applicability, Edit, SetEnv, Skip, Wrap, as_json, from_json

CASES = [
    pytest.param(one, case, id=f"{one.name}: {case.title}") for one in FIXES for case in one.cases
]
every_fix = pytest.mark.parametrize("one", FIXES, ids=lambda one: one.name)


@pytest.mark.parametrize(("one", "case"), CASES)
def test_case(one: Fix, case: Case) -> None:
    found = one(case.facts, case.option)
    expected = (case.says,) if isinstance(case.says, str) else case.says
    assert tuple(spoken(proposal) for proposal in found) == expected
    if case.edits is not None:
        assert found[0].edits == case.edits


@pytest.mark.parametrize(("one", "case"), CASES)
def test_what_is_refused_changes_nothing_and_what_is_risky_says_why(one: Fix, case: Case) -> None:
    for proposal in one(case.facts, case.option):
        assert proposal.fix == one.name
        assert proposal.refused is None or proposal.edits == ()
        if proposal.edits and proposal.applicability in {
            Applicability.EQUIVALENT,
            Applicability.RISKY,
            Applicability.MANUAL,
        }:
            assert proposal.risk


@pytest.mark.parametrize(("one", "case"), CASES)
def test_edits_survive_their_way_into_the_training(one: Fix, case: Case) -> None:
    for proposal in one(case.facts, case.option):
        assert tuple(from_json(as_json(edit)) for edit in proposal.edits) == proposal.edits


@every_fix
def test_declaration(one: Fix) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", one.name)
    assert re.fullmatch(r"\d+\.\d+", one.since)
    assert one.summary.endswith(".")
    assert "## Precondition" in one.doc
    assert "## Safety" in one.doc
    said = [proposal for case in one.cases for proposal in one(case.facts, case.option)]
    assert any(proposal.edits for proposal in said), "no case in which it proposes"
    assert any(proposal.refused or is_nothing(proposal) for proposal in said), "it always proposes"
    titles = [case.title for case in one.cases]
    assert len(set(titles)) == len(titles)


@every_fix
@pytest.mark.parametrize("facts", [examples.bare(), examples.cpu(), examples.gpu()])
def test_says_something_whatever_was_observed(one: Fix, facts: examples.Facts) -> None:
    found = one(facts)
    assert found
    assert all(spoken(proposal) for proposal in found)


@every_fix
def test_takes_no_value_that_it_would_not_use(one: Fix) -> None:
    if one.value is None:
        with pytest.raises(UsageError, match="takes no value"):
            one(examples.gpu(), Option(value="3"))
    else:
        with pytest.raises(UsageError, match=r"meant|there are"):
            one(examples.gpu(examples.fed(), examples.ddp()), Option(value="x"))


def test_every_file_is_listed() -> None:
    folder = Path(fixes.__file__).parent
    files = {path.stem.replace("_", "-") for path in folder.glob("[a-z]*.py")}
    assert files == {one.name for one in FIXES}
    assert len({one.name for one in FIXES}) == len(FIXES)


def test_a_fix_is_asked_for_by_name_place_and_value() -> None:
    facts = examples.gpu(examples.loader(), examples.loader(id=1, where=examples.OPTIMIZER_LINE))
    found = listing.propose("more-workers@train.py:52=4", facts)
    assert [spoken(one) for one in found] == ["equivalent: num_workers 0 → 4 at train.py:52"]


def test_a_loader_that_does_not_feed_the_training_is_left_alone_unless_it_is_named() -> None:
    other = examples.loader(id=1, where=examples.OPTIMIZER_LINE, trains=False)
    facts = examples.gpu(examples.loader(), other)
    assert [one.where for one in listing.propose("more-workers=4", facts)] == [examples.LOADER_LINE]
    named = listing.propose("more-workers@train.py:52=4", facts)
    assert [one.where for one in named] == [examples.OPTIMIZER_LINE]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("more-worker=4", "there is no fix 'more-worker'; did you mean more-workers"),
        ("quicker", "there is no fix 'quicker'$"),
        ("more-workers=", "nothing stands behind ="),
        ("more-workers@=4", "nothing stands behind @"),
        ("more-workers=-1", "more-workers=-1: a whole number from 0 up is meant"),
        ("tf32@train.py:3", "tf32 is about no single line; leave out @train.py:3"),
        ("more-workers@other.py:3=4", "no DataLoader was made at other.py:3: .* at train.py:41"),
        ("prefetch=0", "a whole number from 1 up"),
    ],
)
def test_what_cannot_be_meant_is_told(text: str, error: str) -> None:
    with pytest.raises(UsageError, match=error):
        listing.propose(text, examples.gpu(examples.fed()))


def test_a_thing_of_unknown_line_is_not_the_one_that_is_named() -> None:
    facts = examples.gpu(examples.loader(where=None))
    assert spoken(*listing.propose("more-workers=4", facts)).endswith("4 at an unknown line")
    with pytest.raises(UsageError, match=r"made at train\.py:41: none was seen"):
        listing.propose("more-workers@train.py:41=4", facts)


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (SetEnv("A", None), "env.A="),
        (Skip("torch.save", 3), "skip.torch.save=3"),
        (Wrap("gc", "collector", {"every": 5}), "gc through collector(every=5)"),
    ],
)
def test_edits_are_described(edit: Edit, text: str) -> None:
    assert pages.described(edit) == text


def test_lists_of_processors() -> None:
    assert processors.parsed("0-2,8,10-11") == (0, 1, 2, 8, 10, 11)
    assert processors.written([11, 0, 10, 2, 1, 8]) == "0-2,8,10-11"
    with pytest.raises(UsageError, match="'0-x' is no list"):
        processors.parsed("0-x")


def test_sizes_are_for_people() -> None:
    assert [traps.size(one) for one in (17, 2048, 3 << 20)] == ["17 bytes", "2.0 KiB", "3.0 MiB"]


def test_ceilings_are_the_ablations_that_say_something() -> None:
    found = listing.ceilings(examples.gpu(logging=0, checkpoint=2, evaluation=0))
    assert [one.fix for one in found] == [
        "cached-batch",
        "cached-batch-on-device",
        "no-logging",
        "no-checkpoint",
    ]
    assert {one.applicability for one in found} == {Applicability.TRIAL}


def test_a_page_has_the_usage_the_text_and_the_examples() -> None:
    text = pages.page(listing.find("prefetch"))
    assert text.startswith("# prefetch\n\n`gapless try --fix prefetch[=BATCHES]` (since 0.1)\n\n")
    assert "\n## Safety\n" in text
    assert "(`prefetch=2`): nothing to change: prefetch_factor is already 2" in text
    assert pages.pages().count("\n### ") == len(FIXES)
