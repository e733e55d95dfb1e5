"""Every rule is tested by the figures that it states; so no test names one."""

import re
import sys
from typing import Final

import pytest
from msgspec.structs import replace

from gapless.catalogue import rules
from gapless.catalogue.declare import listing
from gapless.catalogue.declare.rule import Rule, needed_types, rule
from gapless.catalogue.examples import example_facts
from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.reading import RuleFigure, read_figures
from gapless.catalogue.pages import rule_pages
from gapless.catalogue.rules import RULES
from gapless.errors import UsageError
from gapless.model.change import LoaderChange
from gapless.model.evidence import Evidence, NotObservedError
from gapless.model.facts import Evaluation, Loader, Model, Precision
from gapless.model.finding import Abstention, Detection
from gapless.model.leaf import DATA_STAGES, LEAVES
from gapless.replay.loader.costs import BLOCKED
from tests.catalogue.declared import declared_in

FIGURES = [
    pytest.param(rule, figure, id=f"{rule.name}: {figure.title}")
    for rule in RULES
    for figure in read_figures(rule)
]
every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
every_figure = pytest.mark.parametrize(("rule", "figure"), FIGURES)
_UNSPLIT: Final = "step"  # the leaf of steps that no window holds
RANGES: Final = range(1, 900)  # G0xx quality of the measurement … G8xx machine


def test_importing_the_catalogue_builds_no_example() -> None:
    held = [
        f"{name}.{variable}"
        for name, module in sys.modules.items()
        if name.startswith(("gapless.catalogue.rules", "gapless.catalogue.fixes"))
        for variable, value in vars(module).items()
        if isinstance(value, Evidence)
    ]
    assert held == []


@every_figure
def test_figure(rule: Rule, figure: RuleFigure) -> None:
    summaries = tuple(detection.summary for detection in rule_pages.detect_in_figure(rule, figure))
    assert summaries == figure.expected


@every_figure
def test_a_loss_says_what_removes_it_and_how_or_why_not(rule: Rule, figure: RuleFigure) -> None:
    for detection in rule_pages.detect_in_figure(rule, figure):
        assert (detection.code, detection.name) == (rule.code, rule.name)
        assert detection.helps or detection.no_remedy, (
            "no fix, and not a word on what to do by hand"
        )
        assert detection.measures, "no figure that it rests on"
        assert detection.summary.endswith("."), "a summary is a sentence: it ends in '.'"
        loader_ids = {
            loader.id for loader in (figure.evidence.facts or example_facts.bare_facts()).loaders
        }
        for change in detection.changes:
            if isinstance(change, LoaderChange):
                assert change.loader in loader_ids
                assert set(change.stages) <= {*DATA_STAGES, BLOCKED}
            for leaf in getattr(change, "leaves", ()):
                assert leaf == _UNSPLIT or any(name.startswith(leaf) for name in LEAVES), leaf


@every_figure
def test_a_loader_offers_its_workers_where_one_is(rule: Rule, figure: RuleFigure) -> None:
    facts = figure.evidence.facts or example_facts.bare_facts()
    for detection in rule_pages.detect_in_figure(rule, figure):
        remedy = detection.no_remedy or ""
        assert "{" not in remedy, "words that are still to be chosen"
        assert facts.loaders or "loader's workers" not in remedy


@every_figure
def test_fixes_that_help_exist_and_propose_something_there(rule: Rule, figure: RuleFigure) -> None:
    facts = figure.evidence.facts
    for detection in rule_pages.detect_in_figure(rule, figure):
        for request in detection.helps:
            assert listing.propose_requested(request, facts or example_facts.gpu())


@every_rule
def test_declaration(rule: Rule) -> None:
    assert re.fullmatch(r"G\d{3}", rule.code)
    assert int(rule.code[1:]) in RANGES
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.name)
    assert re.fullmatch(r"\d+\.\d+", rule.since)
    first_line = rule.doc.partition("\n")[0]
    assert re.fullmatch(r"Recognise .*\.", first_line), "a page begins with 'Recognise … .'"
    for heading in ("## Why it costs time", "## How it is measured"):
        assert heading in rule.doc, f"the page lacks '{heading}'"
    titles = [figure.title for figure in read_figures(rule)]
    assert len(set(titles)) == len(titles)


@every_rule
def test_speaks_once_and_is_silent_once(rule: Rule) -> None:
    assert any(figure.expected for figure in read_figures(rule)), "no figure in which it speaks"
    assert any(not figure.expected for figure in read_figures(rule)), (
        "no figure in which it is silent"
    )


@every_rule
def test_a_name_is_the_fault_and_no_fix(rule: Rule) -> None:
    with pytest.raises(UsageError):
        listing.find_fix(rule.name)


@every_rule
@pytest.mark.parametrize(
    "evidence", [evidence_of(None, {"busy.math": 9.0}), evidence_of(example_facts.bare_facts(), {})]
)
def test_says_nothing_of_what_was_not_seen(rule: Rule, evidence: Evidence) -> None:
    answers = rule(evidence)
    assert not [answer for answer in answers if isinstance(answer, Detection)]
    gaps = {answer.missing for answer in answers if isinstance(answer, Abstention)}
    if evidence.is_trace_only and {Precision, Model, Evaluation} & set(needed_types(rule.check)):
        assert gaps & {"precision", "model", "evaluation"}


def test_every_rule_that_a_file_declares_is_listed() -> None:
    assert set(declared_in(rules, Rule)) == set(RULES), (
        "name it in rules/__init__.py, import and _LISTED"
    )


def test_codes_are_used_once_and_in_order() -> None:
    codes = [rule.code for rule in RULES]
    assert codes == sorted(set(codes))
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_of_a_drawing_and_its_facts_the_evidence_is_a_recorded_run() -> None:
    figures = [figure for rule in RULES for figure in read_figures(rule) if figure.drawing]
    assert {figure.evidence.is_trace_only for figure in figures} == {True, False}


def test_lines_before_the_first_figure_define_names_and_nothing_else() -> None:
    with pytest.raises(ValueError, match="defines a name, and not"):
        read_figures(replace(twofold, figures="busy.math 9\n# Nothing\nbare_facts()"))


def test_a_figure_has_no_leaf_that_there_is_not() -> None:
    with pytest.raises(ValueError, match=r"there is no leaf busy\.maths"):
        read_figures(replace(twofold, figures="# Nothing\ncpu()\nbusy.maths 9"))


@pytest.mark.parametrize("line", ["cpu(", "cpus()", "busy=cpus()"])
def test_a_line_without_sense_is_named_with_its_figure(line: str) -> None:
    with pytest.raises(ValueError, match=rf"Of typos: {re.escape(line)}: "):
        read_figures(replace(twofold, figures=f"# Of typos\n{line}\nbusy.math 9"))


@every_rule
def test_a_page_tells_what_a_rule_looks_for_and_shows_its_figures(rule: Rule) -> None:
    text = rule_pages.rule_page(rule)
    assert text.startswith(f"# {rule.code} {rule.name}\n\nsince {rule.since}\n\n")
    assert "\n## What helps\n\n- " in text
    assert text.count("\n> ") >= len(read_figures(rule))
    assert rule_pages.explain_name(rule.code.lower()) == rule_pages.explain_name(rule.name) == text


def test_the_pages_of_rules_begin_with_an_index() -> None:
    text = rule_pages.rule_pages()
    assert text.count("\n### ") == len(RULES)
    assert all(f"](#{rule.code.lower()}-{rule.name})" in text for rule in RULES)


def test_the_page_of_a_fix_names_the_causes_that_it_helps_against() -> None:
    fix_name = next(iter(rule_pages.find_helpful_fixes(RULES[0])))
    assert f"## Helps against\n\n- {RULES[0].code} {RULES[0].name}" in rule_pages.explain_name(
        fix_name
    )


def test_what_has_no_page_is_refused_with_what_is_like_it() -> None:
    with pytest.raises(UsageError, match=f"did you mean {RULES[0].name}"):
        rule_pages.explain_name(RULES[0].name[:-1])
    with pytest.raises(UsageError, match="gapless explain lists all"):
        rule_pages.explain_name("?")


def detect_slow(evidence: Evidence, loader: Loader) -> Detection | None:
    if loader.id == 0:
        raise NotObservedError("stages", "no stage was seen")
    del evidence
    return twofold.detection("It is slow.", LoaderChange(loader.id, wait=False))


twofold = rule("G999", "twofold", since="0.1", figures="")(detect_slow)


def test_a_rule_speaks_of_one_thing_and_abstains_of_another() -> None:
    facts = example_facts.gpu(example_facts.loader(), example_facts.loader(id=1))
    answers = twofold(evidence_of(facts, {"busy.math": 9.0}))
    assert [type(answer) for answer in answers] == [Abstention, Detection]
    assert [answer.changes for answer in answers if isinstance(answer, Detection)] == [
        (LoaderChange(1, wait=False),)
    ]


def test_of_a_training_without_a_loader_a_rule_of_loaders_says_nothing() -> None:
    assert twofold(evidence_of(example_facts.bare_facts(), {"busy.math": 9.0})) == ()


def test_a_figure_of_which_hardly_anything_is_known_has_a_page() -> None:
    text = rule_pages.rule_page(replace(twofold, figures="# Nothing\nbare_facts()"))
    assert "**Nothing**\n\n```text\n\n```\n\n> (says nothing)" in text


@pytest.mark.parametrize("name", ["short-of-memory", "throttled-device", "shared-device"])
def test_without_a_device_rules_of_devices_have_nothing_to_abstain_from(name: str) -> None:
    (rule,) = (rule for rule in RULES if rule.name == name)
    assert (
        rule(evidence_of(example_facts.cpu(example_facts.machine(device=None)), {"busy.math": 9.0}))
        == ()
    )
    answers = rule(evidence_of(example_facts.gpu(), {"busy.math": 9.0}))
    assert [type(answer) for answer in answers] == [Abstention]
