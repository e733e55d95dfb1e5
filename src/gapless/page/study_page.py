"""A study as a page, in the order of what people look for."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from pathlib import PurePath
from typing import Final

from msgspec import Struct

from gapless.model.picture import StripKind
from gapless.model.ranges import format_ranges
from gapless.model.run import RecordedRun
from gapless.model.study import Study
from gapless.page.account import account_tree
from gapless.page.bars import BarPart, bar_parts
from gapless.page.calls import call_sheets
from gapless.page.causes import diagnose
from gapless.page.charts import chart_columns
from gapless.page.document import render_page
from gapless.page.sheets import sheets
from gapless.report.brief import head_text, why_text
from gapless.report.ranks.spread import MAX_LISTED, mean_steps, own_parts
from gapless.report.run.notable import notable_lines
from gapless.report.run.page import step_sheet, text_sections, window_lines
from gapless.report.run.sentences import headline as run_headline
from gapless.report.run.unobserved import unobserved_lines
from gapless.report.sections.account import account_sheet
from gapless.report.sections.causes import replay_lines
from gapless.report.sections.next_command import next_step, proven_lines
from gapless.report.sections.run_status import life_line
from gapless.report.sections.summary import health_lines, rank_lines, steps_lines
from gapless.report.text.numbers import duration
from gapless.report.text.text import clean

_MAX_NAMES: Final = 3  # files in the title


class RankBar(Struct, frozen=True):
    """A mean step of one rank."""

    caption: str
    parts: tuple[BarPart, ...]


def rank_bars(study: Study) -> tuple[RankBar, ...]:
    """Return a bar for each rank, of many for those that do most by themselves.

    None where there is one rank, or none is known.
    """
    steps = mean_steps(study.account.rows)
    if len(steps) < 2:  # noqa: PLR2004 - one rank is the account itself
        return ()
    lengths = {rank: sum(groups.values()) for rank, groups in steps.items()}
    longest_ns = max(lengths.values())
    own_ns = {rank: sum(own_parts(groups).values()) for rank, groups in steps.items()}
    drawn = sorted(sorted(own_ns, key=lambda rank: -own_ns[rank])[:MAX_LISTED])
    return tuple(
        RankBar(f"rank {rank}, {duration(lengths[rank])}", bar_parts(steps[rank], longest_ns))
        for rank in drawn
    )


class Prose(Struct, frozen=True):
    """A part of the report that is sentences."""

    title: str
    lines: tuple[str, ...]


def study_page(study: Study, diffs: Mapping[str, Sequence[str]] | None = None) -> str:
    """Return the page of a study; ``diffs`` are lines of what fixes would change, by their name.

    Raises ``UsageError`` without the libraries that it needs.
    """
    tree = account_tree(study)
    charts = chart_columns(study)
    ranks = rank_bars(study)
    prose = [Prose(title, tuple(lines)) for title, lines in _prose(study) if lines]
    is_moved = [bool(ranks) and part.title == "ranks" for part in prose]
    command, purpose = next_step(study) if study.diagnosis is not None else ("", "")
    picture = study.picture
    context = {
        "title": _title(study),
        "head": _head(study),
        "why": why_text(study),
        "proven": list(proven_lines(study)),
        "notes": list(notable_lines(study)),
        "next": (command, purpose),
        "tree": tree,
        "diagnosed": diagnose(study, diffs or {}),
        "picture": picture if "picture" in charts else None,
        "workers": picture is not None
        and any(strip.kind is StripKind.WORKER for strip in picture.strips),
        "steps": charts.get("steps"),
        "series": charts.get("series"),
        "calls": call_sheets(study),
        "sheets": list(sheets(study)),
        "ranks": ranks,
        "n_ranks": len(study.run.ranks),
        "rank_lines": [line for part in compress(prose, is_moved) for line in part.lines],
        "prose": [part for part, moved in zip(prose, is_moved, strict=True) if not moved],
        "forecast": _forecast_caption(study),
        "facts": list(_facts(study)),
    }
    return render_page("study", context, charts)


def _title(study: Study) -> str:
    recorded = study.recorded
    if recorded is not None:
        return clean(shlex.join(recorded.life.command))
    names = [PurePath(path).name for path in study.run.paths]
    hidden = len(names) - _MAX_NAMES
    return clean(", ".join(names[:_MAX_NAMES]) + (f" and {hidden} more" if hidden > 0 else ""))


def _forecast_caption(study: Study) -> str:
    """Return what the two timelines of a prediction show; empty where there are none."""
    forecast = study.forecast
    if forecast is None:
        return ""
    remaining_sections = (
        " Waits for data are as long as the loader's queue predicts." if forecast.by_queue else ""
    )
    return (
        f"A step of a window now ({duration(forecast.before.length_ns)}) and with "
        f"{clean(forecast.fix)} ({duration(forecast.after.length_ns)}): both replayed, less what "
        f"tracing cost; the figures above are for steps without a profiler.{remaining_sections}"
    )


def _head(study: Study) -> str:
    """Return the headline of the terminal's report."""
    recorded = study.recorded
    sheet = account_sheet(study.account) if recorded is None else step_sheet(recorded)
    if sheet is not None:
        return head_text(study, sheet)
    return "gapless" if recorded is None else run_headline(study, recorded, None)


def _prose(study: Study) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the parts of the report that are sentences, health last."""
    recorded = study.recorded
    if recorded is not None:
        yield from text_sections(study, recorded)
        yield "not seen", list(unobserved_lines(study, recorded))
        if recorded.windows or recorded.adopted:
            yield "windows", list(window_lines(study, recorded))
        return
    if study.steps is not None:
        yield "steps", list(steps_lines(study.steps, study.account))
    yield "replay", list(replay_lines(study.diagnosis))
    yield "ranks", list(rank_lines(study))
    yield "health", list(health_lines(study.health))


def _facts(study: Study) -> Iterator[tuple[str, str]]:
    """Yield what was true of the run, as far as it is known."""
    recorded, run = study.recorded, study.run
    if recorded is not None:
        yield from _run_facts(recorded)
    else:
        hidden = len(run.paths) - MAX_LISTED
        listed = ", ".join(run.paths[:MAX_LISTED])
        yield "files", clean(listed + (f" and {hidden} more" if hidden > 0 else ""))
    if run.device is not None:
        yield "device", clean(run.device)
    if run.world is not None:
        yield "world", str(run.world)
    if len(run.ranks) > 1:
        yield "ranks", format_ranges(run.ranks)
    for name, text in run.versions:
        yield clean(name), clean(text)


def _run_facts(recorded: RecordedRun) -> Iterator[tuple[str, str]]:
    yield "command", clean(shlex.join(recorded.life.command))
    yield "run", f"{clean(recorded.life.id)} · {clean(life_line(recorded))}"
    yield "folder", clean(recorded.life.path)
    for loader in recorded.loaders:
        settings = ", ".join(f"{name}={value}" for name, value in loader.settings.items())
        location_words = "" if loader.file is None else f" at {loader.file}:{loader.line}"
        yield f"loader{clean(location_words)}", clean(settings)
