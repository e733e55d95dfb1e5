"""The page of a rule, as ``gapless explain`` prints it and the docs show it."""

from collections.abc import Iterator, Sequence
from typing import Final

from gapless.catalogue.declare.fix import Fix
from gapless.catalogue.declare.listing import did_you_mean
from gapless.catalogue.declare.rule import Rule
from gapless.catalogue.examples.reading import RuleFigure, read_figures
from gapless.catalogue.fixes import FIXES
from gapless.catalogue.pages.fix_pages import lower_headings, mark_code, plain_fix_page
from gapless.catalogue.queries.ranks.rank_waits import find_ranks
from gapless.catalogue.queries.windows import ms
from gapless.catalogue.rules import RULES
from gapless.errors import UsageError, read_error_pages
from gapless.model.evidence import Evidence
from gapless.model.facts import Facts
from gapless.model.finding import Detection
from gapless.model.run import LoaderUse

FIXES_PAGE: Final = "fixes.md"
_MAX_LEAVES: Final = 6  # leaves of a step that are shown


def detect_in_figure(rule: Rule, figure: RuleFigure) -> tuple[Detection, ...]:
    """Return what a rule detects in a figure."""
    return tuple(answer for answer in rule(figure.evidence) if isinstance(answer, Detection))


def rule_page(rule: Rule, *, links: bool = False) -> str:
    """Return the page of a rule in Markdown, with its code and name as the heading."""
    figures = "\n\n".join(_figure_block(rule, figure) for figure in read_figures(rule))
    return "\n\n".join(
        (
            f"# {rule_title(rule)}",
            f"since {rule.since}",
            mark_code(rule.doc),
            "## What helps",
            "\n".join(_help_lines(rule, links=links)),
            "## Examples",
            figures,
        )
    )


def rule_pages(rules: Sequence[Rule] = RULES) -> str:
    """Return the pages of all rules, headings two levels down, after an index of the rules."""
    rows = ["| code | cause | |", "|---|---|---|"]
    rows += [
        f"| {rule.code} | [{rule.name}](#{_heading_anchor(rule)}) | "
        f"{mark_code(rule_summary(rule))} |"
        for rule in rules
    ]
    return "\n\n".join(
        ("\n".join(rows), *(lower_headings(rule_page(rule, links=True)) for rule in rules))
    )


def fix_page(fix: Fix) -> str:
    """Return the page of a fix, with the causes that it helps against."""
    causes = [f"- {rule_title(rule)}" for rule in RULES if fix.name in find_helpful_fixes(rule)]
    return "\n\n".join(
        (plain_fix_page(fix), *(("## Helps against", "\n".join(causes)) if causes else ()))
    )


def explain_name(name: str) -> str:
    """Return the page of a rule (by code or name), a fix or an error. Raises ``UsageError``."""
    query = name.strip()
    for rule in RULES:
        if query.upper() == rule.code or query.lower() == rule.name:
            return rule_page(rule)
    for fix in FIXES:
        if query.lower() == fix.name:
            return fix_page(fix)
    errors = dict(read_error_pages())
    if query.lower() in errors:
        return f"# {query.lower()}\n\n{errors[query.lower()]}"
    names = [*errors, *(rule.code for rule in RULES), *(entry.name for entry in (*RULES, *FIXES))]
    suggestion = did_you_mean(query, names)
    raise UsageError(
        f"there is no cause, edit or error {name!r}{suggestion or '; gapless explain lists all'}"
    )


def index_lines() -> Iterator[str]:
    """Return a line for each rule, fix and error: its name and what it is."""
    yield "Causes that gapless looks for:"
    yield from (f"  {rule.code}  {rule.name:<30}{rule_summary(rule)}" for rule in RULES)
    yield ""
    yield "Edits that gapless try knows:"
    yield from (f"  {fix.name:<36}{fix.summary}" for fix in FIXES)
    yield ""
    yield "Errors, by the name at the end of their message:"
    yield from (f"  {slug}" for slug, _ in read_error_pages())


def error_pages() -> str:
    """Return the pages of all errors, each below its name."""
    return "\n\n".join(f"## {slug}\n\n{page.strip()}" for slug, page in read_error_pages()) + "\n"


def rule_title(rule: Rule) -> str:
    """Return the title of a rule: "G101 loader-in-training-process"."""
    return f"{rule.code} {rule.name}"


def rule_summary(rule: Rule) -> str:
    """Return what a rule recognises, from the first line of its page."""
    words = rule.doc.partition("\n")[0].removeprefix("Recognise ").removeprefix("that ")
    return words[:1].upper() + words[1:]


def find_helpful_fixes(rule: Rule) -> tuple[str, ...]:
    """Return the fixes that a rule proposes in its figures, most often proposed first."""
    counts: dict[str, int] = {}
    for detection in _detect_in_figures(rule):
        for name in dict.fromkeys(request.fix for request in detection.helps):
            counts[name] = counts.get(name, 0) + 1
    return tuple(sorted(counts, key=lambda name: -counts[name]))


def _detect_in_figures(rule: Rule) -> Iterator[Detection]:
    for figure in read_figures(rule):
        yield from detect_in_figure(rule, figure)


def _heading_anchor(rule: Rule) -> str:
    return rule_title(rule).lower().replace(" ", "-")


def _help_lines(rule: Rule, *, links: bool) -> Iterator[str]:
    for name in find_helpful_fixes(rule):
        fix = next(candidate for candidate in FIXES if candidate.name == name)
        label = f"[`{name}`]({FIXES_PAGE}#{name})" if links else f"`{name}`"
        yield f"- {label}: {mark_code(fix.summary)}"
    for words in dict.fromkeys(
        detection.no_remedy for detection in _detect_in_figures(rule) if detection.no_remedy
    ):
        yield f"- by hand: {mark_code(words)}"


def _figure_block(rule: Rule, figure: RuleFigure) -> str:
    quotes = [
        f"> {mark_code(detection.summary)}" for detection in detect_in_figure(rule, figure)
    ] or ["> (says nothing)"]
    picture = figure.drawing or "\n".join(_describe_evidence(figure.evidence))
    blocks = (f"**{mark_code(figure.title)}**", f"```text\n{picture}\n```", "\n>\n".join(quotes))
    return "\n\n".join(blocks)


def _describe_evidence(evidence: Evidence) -> Iterator[str]:
    """Return a few lines that describe the evidence."""
    if evidence.step_ns:
        yield f"a step of {ms(evidence.step_ns)}: {_describe_leaves(evidence)}"
    for rank in find_ranks(evidence):
        leaves = sorted({leaf for row in rank.rows for leaf in row.leaves})
        phrases = [f"{leaf} {ms(rank.mean(leaf))}" for leaf in leaves]
        yield f"rank {rank.rank}: {' · '.join(phrases)}"
    for use in evidence.loader_uses:
        yield from _describe_loader(use)
    yield from _describe_machine(evidence.facts)


def _describe_leaves(evidence: Evidence) -> str:
    account = evidence.account
    leaves = sorted(account.leaves.items(), key=lambda pair: -pair[1])
    phrases = [f"{leaf} {ms(ns / (account.steps or 1))}" for leaf, ns in leaves[:_MAX_LEAVES]]
    return " · ".join([*phrases, *(["…"] if len(leaves) > _MAX_LEAVES else [])])


def _describe_loader(use: LoaderUse) -> Iterator[str]:
    n_workers = use.settings.get("num_workers")
    yield f"a loader with num_workers={n_workers}, waited for {ms(use.mean_ns or 0)} a batch"
    if use.workers is not None and use.workers.stages:
        stages = " · ".join(f"{stage.name} {ms(stage.wall_ns)}" for stage in use.workers.stages)
        yield f"a sample: {stages}"


def _describe_machine(facts: Facts) -> Iterator[str]:
    if facts.machine.cpus is not None:
        device = facts.machine.device or "no GPU"
        yield f"{facts.machine.cpus} processors, {device}"
