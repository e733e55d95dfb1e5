"""Every fix is tested by the cases that it states; so no test names one."""

import re

import pytest

from gapless.catalogue import fixes
from gapless.catalogue.declare import cpu_lists, listing, traps
from gapless.catalogue.declare.fix import (
    Fix,
    Option,
    changes_nothing,
    describe_edit,
    describe_proposal,
)
from gapless.catalogue.examples import example_facts
from gapless.catalogue.examples.reading import Case, read_cases
from gapless.catalogue.fixes import FIXES
from gapless.catalogue.pages import fix_pages
from gapless.errors import UsageError
from gapless.model.edit import Applicability, Edit, SetEnv, Skip, Wrap, edit_from_json, edit_to_json
from tests.catalogue.declared import declared_in

CASES = [
    pytest.param(fix, case, id=f"{fix.name}: {case.title}")
    for fix in FIXES
    for case in read_cases(fix)
]
every_fix = pytest.mark.parametrize("fix", FIXES, ids=lambda fix: fix.name)


@pytest.mark.parametrize(("fix", "case"), CASES)
def test_case(fix: Fix, case: Case) -> None:
    proposals = fix(case.facts, case.option)
    assert tuple(describe_proposal(proposal) for proposal in proposals) == case.expected
    if case.edits is not None:
        assert proposals[0].edits == case.edits


@pytest.mark.parametrize(("fix", "case"), CASES)
def test_what_is_refused_changes_nothing_and_what_is_risky_says_why(fix: Fix, case: Case) -> None:
    for proposal in fix(case.facts, case.option):
        assert proposal.fix == fix.name
        assert proposal.refused is None or proposal.edits == ()
        if proposal.edits and proposal.applicability in {
            Applicability.EQUIVALENT,
            Applicability.RISKY,
            Applicability.MANUAL,
        }:
            assert proposal.risk, "equivalent, risky, manual: say what else it may change (risk=)"


@pytest.mark.parametrize(("fix", "case"), CASES)
def test_edits_survive_their_way_into_the_training(fix: Fix, case: Case) -> None:
    for proposal in fix(case.facts, case.option):
        assert (
            tuple(edit_from_json(edit_to_json(edit)) for edit in proposal.edits) == proposal.edits
        )


@every_fix
def test_declaration(fix: Fix) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", fix.name)
    assert re.fullmatch(r"\d+\.\d+", fix.since)
    assert fix.summary.endswith(".")
    for heading in ("## Precondition", "## Safety"):
        assert heading in fix.doc, f"the page lacks '{heading}'"
    proposals = [proposal for case in read_cases(fix) for proposal in fix(case.facts, case.option)]
    assert any(proposal.edits for proposal in proposals), "no case in which it proposes"
    assert any(proposal.refused or changes_nothing(proposal) for proposal in proposals), (
        "it always proposes"
    )
    titles = [case.title for case in read_cases(fix)]
    assert len(set(titles)) == len(titles)


@every_fix
@pytest.mark.parametrize(
    "facts", [example_facts.bare_facts(), example_facts.cpu(), example_facts.gpu()]
)
def test_says_something_whatever_was_observed(fix: Fix, facts: example_facts.Facts) -> None:
    proposals = fix(facts)
    assert proposals
    assert all(describe_proposal(proposal) for proposal in proposals)


@every_fix
def test_takes_no_value_that_it_would_not_use(fix: Fix) -> None:
    if fix.value is None:
        with pytest.raises(UsageError, match="takes no value"):
            fix(example_facts.gpu(), Option(value="3"))
    else:
        with pytest.raises(UsageError, match=r"meant|there are|expected"):
            fix(
                example_facts.gpu(example_facts.worker_loader(), example_facts.ddp()),
                Option(value="x"),
            )


def test_every_fix_that_a_file_declares_is_listed() -> None:
    assert set(declared_in(fixes, Fix)) == set(FIXES)
    assert len({fix.name for fix in FIXES}) == len(FIXES)


def test_a_fix_is_asked_for_by_name_place_and_value() -> None:
    facts = example_facts.gpu(
        example_facts.loader(), example_facts.loader(id=1, location=example_facts.OPTIMIZER_LINE)
    )
    proposals = listing.propose_named("more-workers@train.py:52=4", facts)
    assert [describe_proposal(proposal) for proposal in proposals] == [
        "equivalent: num_workers 0 → 4 at train.py:52"
    ]


def test_a_loader_that_does_not_feed_the_training_is_left_alone_unless_it_is_named() -> None:
    other_loader = example_facts.loader(id=1, location=example_facts.OPTIMIZER_LINE, trains=False)
    facts = example_facts.gpu(example_facts.loader(), other_loader)
    assert [proposal.location for proposal in listing.propose_named("more-workers=4", facts)] == [
        example_facts.LOADER_LINE
    ]
    named_proposals = listing.propose_named("more-workers@train.py:52=4", facts)
    assert [proposal.location for proposal in named_proposals] == [example_facts.OPTIMIZER_LINE]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("more-worker=4", "there is no fix 'more-worker'; did you mean more-workers"),
        ("quicker", "there is no fix 'quicker'$"),
        ("more-workers=", "nothing stands behind ="),
        ("more-workers@=4", "nothing stands behind @"),
        ("more-workers=-1", "more-workers=-1: a whole number from 0 up is meant"),
        ("tf32@train.py:3", "tf32 does not apply to a single line; leave out @train.py:3"),
        ("more-workers@other.py:3=4", "no DataLoader was made at other.py:3: .* at train.py:41"),
        ("prefetch=0", "a whole number from 1 up"),
    ],
)
def test_what_cannot_be_meant_is_told(text: str, error: str) -> None:
    with pytest.raises(UsageError, match=error):
        listing.propose_named(text, example_facts.gpu(example_facts.worker_loader()))


def test_a_thing_of_unknown_line_is_not_the_one_that_is_named() -> None:
    facts = example_facts.gpu(example_facts.loader(location=None))
    assert describe_proposal(*listing.propose_named("more-workers=4", facts)).endswith(
        "4 at an unknown line"
    )
    with pytest.raises(UsageError, match=r"made at train\.py:41: none was seen"):
        listing.propose_named("more-workers@train.py:41=4", facts)


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (SetEnv("A", None), "env.A="),
        (Skip("torch.save", 3), "skip.torch.save=3"),
        (Wrap("gc", "collector", {"every": 5}), "gc through collector(every=5)"),
    ],
)
def test_edits_are_described(edit: Edit, text: str) -> None:
    assert describe_edit(edit) == text


def test_lists_of_processors() -> None:
    assert cpu_lists.parse_cpu_list("0-2,8,10-11") == (0, 1, 2, 8, 10, 11)
    assert cpu_lists.format_cpu_list([11, 0, 10, 2, 1, 8]) == "0-2,8,10-11"
    with pytest.raises(UsageError, match="'0-x' is not a list"):
        cpu_lists.parse_cpu_list("0-x")


def test_sizes_are_for_people() -> None:
    assert [traps.format_bytes(n_bytes) for n_bytes in (17, 2048, 3 << 20)] == [
        "17 bytes",
        "2.0 KiB",
        "3.0 MiB",
    ]


def test_ceilings_are_the_ablations_that_say_something() -> None:
    ceilings = listing.propose_ceilings(example_facts.gpu(logging=0, checkpoint=2, evaluation=0))
    assert [proposal.fix for proposal in ceilings] == [
        "cached-batch",
        "cached-batch-on-device",
        "no-logging",
        "no-checkpoint",
    ]
    assert {proposal.applicability for proposal in ceilings} == {Applicability.ABLATION}


def test_a_page_has_the_usage_the_text_and_the_examples() -> None:
    text = fix_pages.plain_fix_page(listing.find_fix("prefetch"))
    assert text.startswith("# prefetch\n\n`gapless try --fix prefetch[=BATCHES]` (since 0.1)\n\n")
    assert "\n## Safety\n" in text
    assert "(`prefetch=2`): nothing to change: prefetch_factor is already 2" in text
    assert fix_pages.fix_pages().count("\n### ") == len(FIXES)
