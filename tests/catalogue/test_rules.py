"""Every rule is tested by the figures that it states; so no test names one."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from gapless.catalogue import examples, listing, rule_pages, rules
from gapless.catalogue.rules import RULES
from gapless.catalogue.ruling import Figure, NotSeenError, Rule, needs_of, rule
from gapless.catalogue.seen_examples import seen
from gapless.errors import UsageError
from gapless.model.change import Feed
from gapless.model.facts import Evaluation, Loader, Model, Precision
from gapless.model.finding import Abstention, Loss
from gapless.model.leaf import DATA_STAGES, LEAVES
from gapless.model.seen import Seen
from gapless.replay.service import BLOCKED

FIGURES = [
    pytest.param(one, figure, id=f"{one.name}: {figure.title}")
    for one in RULES
    for figure in one.figures
]
every_rule = pytest.mark.parametrize("one", RULES, ids=lambda one: one.name)
every_figure = pytest.mark.parametrize(("one", "figure"), FIGURES)
RANGES: Final = range(1, 900)  # G0xx quality of the measurement … G8xx machine


def says(figure: Figure) -> tuple[str, ...]:
    return (figure.says,) if isinstance(figure.says, str) else figure.says or ()


@every_figure
def test_figure(one: Rule, figure: Figure) -> None:
    assert tuple(said.summary for said in rule_pages.losses(one, figure)) == says(figure)


@every_figure
def test_a_loss_says_what_removes_it_and_how_or_why_not(one: Rule, figure: Figure) -> None:
    for said in rule_pages.losses(one, figure):
        assert (said.code, said.name) == (one.code, one.name)
        assert said.helps or said.no_remedy, "no fix, and not a word on what to do by hand"
        assert said.evidence, "no figure that it rests on"
        assert said.summary.endswith(".")
        known = {
            loader.id for loader in (rule_pages.seen_of(figure).facts or examples.bare()).loaders
        }
        for change in said.changes:
            if isinstance(change, Feed):
                assert change.loader in known
                assert set(change.stages) <= {*DATA_STAGES, BLOCKED}
            for leaf in getattr(change, "leaves", ()):
                assert any(name.startswith(leaf) for name in LEAVES), leaf


@every_figure
def test_fixes_that_help_exist_and_propose_something_there(one: Rule, figure: Figure) -> None:
    facts = rule_pages.seen_of(figure).facts
    for said in rule_pages.losses(one, figure):
        for asked in said.helps:
            assert listing.propose(asked, facts) if facts else listing.asked(asked)


@every_rule
def test_declaration(one: Rule) -> None:
    assert re.fullmatch(r"G\d{3}", one.code)
    assert int(one.code[1:]) in RANGES
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", one.name)
    assert re.fullmatch(r"\d+\.\d+", one.since)
    assert re.fullmatch(r"Recognise .*\.", one.doc.partition("\n")[0])
    assert "## Why it costs time" in one.doc
    assert "## How it is measured" in one.doc
    titles = [figure.title for figure in one.figures]
    assert len(set(titles)) == len(titles)


@every_rule
def test_speaks_once_and_is_silent_once(one: Rule) -> None:
    assert any(figure.says for figure in one.figures), "no figure in which it speaks"
    assert any(not figure.says for figure in one.figures), "no figure in which it is silent"


@every_rule
def test_a_name_is_the_fault_and_no_fix(one: Rule) -> None:
    with pytest.raises(UsageError):
        listing.find(one.name)


@every_rule
@pytest.mark.parametrize("of", [seen(None, {"busy.math": 9.0}), seen(examples.bare(), {})])
def test_says_nothing_of_what_was_not_seen(one: Rule, of: Seen) -> None:
    said = one(of)
    assert not [loss for loss in said if isinstance(loss, Loss)]
    missing = {one.missing for one in said if isinstance(one, Abstention)}
    if of.foreign and {Precision, Model, Evaluation} & set(needs_of(one.check)):
        assert missing & {"precision", "model", "evaluation"}


def test_every_file_is_listed() -> None:
    folder = Path(rules.__file__).parent
    files = {path.stem.replace("_", "-") for path in folder.glob("[a-z]*.py")}
    assert files == {one.name for one in RULES}


def test_codes_are_used_once_and_in_order() -> None:
    codes = [one.code for one in RULES]
    assert codes == sorted(set(codes))
    assert len({one.name for one in RULES}) == len(RULES)


def test_a_figure_states_what_is_seen_or_draws_it() -> None:
    figures = [figure for one in RULES for figure in one.figures]
    assert all((figure.seen is None) != (figure.drawing is None) for figure in figures)
    assert all(figure.drawing for figure in figures if figure.facts is not None)
    assert all(figure.facts is not None for figure in figures if figure.parts)


@every_rule
def test_a_page_tells_what_a_rule_looks_for_and_shows_its_figures(one: Rule) -> None:
    text = rule_pages.rule_page(one)
    assert text.startswith(f"# {one.code} {one.name}\n\nsince {one.since}\n\n")
    assert "\n## What helps\n\n- " in text
    assert text.count("\n> ") >= len(one.figures)
    assert rule_pages.explained(one.code.lower()) == rule_pages.explained(one.name) == text


def test_the_pages_of_rules_begin_with_an_index() -> None:
    text = rule_pages.rule_pages()
    assert text.count("\n### ") == len(RULES)
    assert all(f"](#{one.code.lower()}-{one.name})" in text for one in RULES)


def test_the_page_of_a_fix_names_the_causes_that_it_helps_against() -> None:
    named = next(iter(rule_pages.helpful(RULES[0])))
    assert f"## Helps against\n\n- {RULES[0].code} {RULES[0].name}" in rule_pages.explained(named)


def test_what_has_no_page_is_refused_with_what_is_like_it() -> None:
    with pytest.raises(UsageError, match=f"did you mean {RULES[0].name}"):
        rule_pages.explained(RULES[0].name[:-1])
    with pytest.raises(UsageError, match="gapless explain lists all"):
        rule_pages.explained("?")


def of_two(found: Seen, loader: Loader) -> Loss | None:
    if loader.id == 0:
        raise NotSeenError("stages", "no stage was seen")
    del found
    return twofold.loss("It is slow.", Feed(loader.id, wait=False))


twofold = rule("G999", "twofold", since="0.1", figures=[])(of_two)


def test_a_rule_speaks_of_one_thing_and_abstains_of_another() -> None:
    facts = examples.gpu(examples.loader(), examples.loader(id=1))
    said = twofold(seen(facts, {"busy.math": 9.0}))
    assert [type(one) for one in said] == [Abstention, Loss]
    assert [one.changes for one in said if isinstance(one, Loss)] == [(Feed(1, wait=False),)]


def test_of_a_training_without_a_loader_a_rule_of_loaders_says_nothing() -> None:
    assert twofold(seen(examples.bare(), {"busy.math": 9.0})) == ()


def test_a_figure_of_which_hardly_anything_is_known_has_a_page() -> None:
    figures = (Figure("Nothing", None, seen(examples.bare(), {})),)
    text = rule_pages.rule_page(replace(twofold, figures=figures))
    assert "**Nothing**\n\n```text\n\n```\n\n> (says nothing)" in text


@pytest.mark.parametrize("name", ["short-of-memory", "throttled-device", "shared-device"])
def test_without_a_device_rules_of_devices_have_nothing_to_abstain_from(name: str) -> None:
    (one,) = (rule for rule in RULES if rule.name == name)
    assert one(seen(examples.cpu(examples.machine(device=None)), {"busy.math": 9.0})) == ()
    unseen = one(seen(examples.gpu(), {"busy.math": 9.0}))
    assert [type(said) for said in unseen] == [Abstention]
