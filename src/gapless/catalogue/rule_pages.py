"""The page of a rule: what ``gapless explain`` prints, and the docs show."""

from collections.abc import Iterator, Sequence
from textwrap import dedent
from typing import Final

from gapless.catalogue import drawing
from gapless.catalogue.declare import Fix
from gapless.catalogue.fixes import FIXES
from gapless.catalogue.listing import asked, did_you_mean
from gapless.catalogue.pages import lowered, page, quoted
from gapless.catalogue.ranked import ranks_of
from gapless.catalogue.rules import RULES
from gapless.catalogue.ruling import Figure, Rule
from gapless.catalogue.seen_examples import drawn
from gapless.catalogue.windowed import ms
from gapless.errors import UsageError, pages
from gapless.model.facts import Facts
from gapless.model.finding import Loss
from gapless.model.run import LoaderUse
from gapless.model.seen import Seen

FIXES_PAGE: Final = "fixes.md"
_FEW: Final = 6  # leaves of a stated step that are shown


def seen_of(figure: Figure) -> Seen:
    """Give what a rule sees in a figure, stated or drawn."""
    if figure.seen is not None:
        return figure.seen
    if figure.facts is None:
        return drawing.seen(figure.drawing or "")
    return drawn(figure.drawing or "", figure.facts, *figure.parts)


def losses(rule: Rule, figure: Figure) -> tuple[Loss, ...]:
    """Give what a rule says of a figure."""
    return tuple(one for one in rule(seen_of(figure)) if isinstance(one, Loss))


def rule_page(rule: Rule, *, links: bool = False) -> str:
    """Give the page of a rule in Markdown, with its code and name as the heading."""
    figures = "\n\n".join(_figure(rule, one) for one in rule.figures)
    return "\n\n".join(
        (
            f"# {title(rule)}",
            f"since {rule.since}",
            quoted(rule.doc),
            "## What helps",
            "\n".join(_helps(rule, links=links)),
            "## Examples",
            figures,
        )
    )


def rule_pages(rules: Sequence[Rule] = RULES) -> str:
    """Give all of them one after another, two levels down, after an index of what there is."""
    rows = ["| code | cause | |", "|---|---|---|"]
    rows += [
        f"| {one.code} | [{one.name}](#{_anchor(one)}) | {quoted(summary(one))} |" for one in rules
    ]
    return "\n\n".join(("\n".join(rows), *(lowered(rule_page(one, links=True)) for one in rules)))


def fix_page(fix: Fix) -> str:
    """Give the page of a fix, and which causes it helps against."""
    causes = [f"- {title(one)}" for one in RULES if fix.name in helpful(one)]
    return "\n\n".join((page(fix), *(("## Helps against", "\n".join(causes)) if causes else ())))


def explained(name: str) -> str:
    """Give the page of a rule, by its code or name, of a fix or an error; else ``UsageError``."""
    wanted = name.strip()
    for rule in RULES:
        if wanted.upper() == rule.code or wanted.lower() == rule.name:
            return rule_page(rule)
    for fix in FIXES:
        if wanted.lower() == fix.name:
            return fix_page(fix)
    errors = dict(pages())
    if wanted.lower() in errors:
        return f"# {wanted.lower()}\n\n{errors[wanted.lower()]}"
    known = [*errors, *(one.code for one in RULES), *(one.name for one in (*RULES, *FIXES))]
    near = did_you_mean(wanted, known)
    raise UsageError(
        f"there is no cause, edit or error {name!r}{near or '; gapless explain lists all'}"
    )


def index() -> Iterator[str]:
    """Give a line for each rule and for each fix: its name and what it is."""
    yield "Causes that gapless looks for:"
    yield from (f"  {one.code}  {one.name:<30}{summary(one)}" for one in RULES)
    yield ""
    yield "Edits that gapless try knows:"
    yield from (f"  {one.name:<36}{one.summary}" for one in FIXES)
    yield ""
    yield "Errors, by the name at the end of their message:"
    yield from (f"  {slug}" for slug, _ in pages())


def error_pages() -> str:
    """Return the pages of all errors one after another, each below its name."""
    return "\n\n".join(f"## {slug}\n\n{page.strip()}" for slug, page in pages()) + "\n"


def title(rule: Rule) -> str:
    """Name a rule: "G101 loader-in-training-process"."""
    return f"{rule.code} {rule.name}"


def summary(rule: Rule) -> str:
    """Say what it recognises, by the first line of its page."""
    words = rule.doc.partition("\n")[0].removeprefix("Recognise ").removeprefix("that ")
    return words[:1].upper() + words[1:]


def helpful(rule: Rule) -> tuple[str, ...]:
    """Name the fixes that a rule proposes in its figures, the most often proposed first."""
    counts: dict[str, int] = {}
    for one in _said(rule):
        for name in dict.fromkeys(asked(text)[0].name for text in one.helps):
            counts[name] = counts.get(name, 0) + 1
    return tuple(sorted(counts, key=lambda name: -counts[name]))


def _said(rule: Rule) -> Iterator[Loss]:
    for figure in rule.figures:
        yield from losses(rule, figure)


def _anchor(rule: Rule) -> str:
    return title(rule).lower().replace(" ", "-")


def _helps(rule: Rule, *, links: bool) -> Iterator[str]:
    for name in helpful(rule):
        fix = next(one for one in FIXES if one.name == name)
        shown = f"[`{name}`]({FIXES_PAGE}#{name})" if links else f"`{name}`"
        yield f"- {shown}: {quoted(fix.summary)}"
    for words in dict.fromkeys(one.no_remedy for one in _said(rule) if one.no_remedy):
        yield f"- by hand: {quoted(words)}"


def _figure(rule: Rule, figure: Figure) -> str:
    said = [f"> {quoted(one.summary)}" for one in losses(rule, figure)] or ["> (says nothing)"]
    shown = dedent(figure.drawing).strip("\n") if figure.drawing else "\n".join(_stated(figure))
    parts = (f"**{quoted(figure.title)}**", f"```text\n{shown}\n```", "\n>\n".join(said))
    return "\n\n".join(parts)


def _stated(figure: Figure) -> Iterator[str]:
    """Say in a few lines what a stated figure is of."""
    seen = seen_of(figure)
    if seen.step_ns:
        yield f"a step of {ms(seen.step_ns)}: {_leaves(seen)}"
    for rank in ranks_of(seen):
        leaves = sorted({leaf for one in rank.rows for leaf in one.leaves})
        parts = [f"{leaf} {ms(rank.mean(leaf))}" for leaf in leaves]
        yield f"rank {rank.rank}: {' · '.join(parts)}"
    recorded = seen.study.recorded
    for one in recorded.loaders if recorded is not None else ():
        yield from _loader(one)
    yield from _machine(seen.facts)


def _leaves(seen: Seen) -> str:
    recorded = seen.study.recorded
    joint = recorded.account if recorded is not None else None
    account = seen.study.account if joint is None else joint.account
    most = sorted(account.leaves.items(), key=lambda item: -item[1])
    parts = [f"{leaf} {ms(ns / (account.steps or 1))}" for leaf, ns in most[:_FEW]]
    return " · ".join([*parts, *(["…"] if len(most) > _FEW else [])])


def _loader(one: LoaderUse) -> Iterator[str]:
    many = one.settings.get("num_workers")
    yield f"a loader with num_workers={many}, waited for {ms(one.mean_ns or 0)} a batch"
    if one.workers is not None and one.workers.stages:
        stages = " · ".join(f"{part.name} {ms(part.wall_ns)}" for part in one.workers.stages)
        yield f"a sample: {stages}"


def _machine(facts: Facts | None) -> Iterator[str]:
    if facts is not None and facts.machine.cpus is not None:
        device = facts.machine.device or "no GPU"
        yield f"{facts.machine.cpus} processors, {device}"
