"""A study as it stands in the cell of a notebook: where a step goes, and what was found.

Styles are within the elements, since notebooks drop style sheets; text has the notebook's own
colour, so that light and dark are followed. Names of traces and sources are escaped.
"""

from collections.abc import Sequence
from html import escape
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from gapless.model.leaf import GROUPS, PRINTED

if TYPE_CHECKING:
    from gapless.model.account import Account
    from gapless.model.finding import Diagnosis, Finding
    from gapless.model.study import Study

_COLOURS: Final = {  # of bars: readable on white and on black
    "data": "#d95568",
    "compute": "#3aa56e",
    "copy": "#2ba4b8",
    "communication": "#5079dc",
    "host": "#d99e2b",
    "sync": "#ad5fcb",
    "runtime": "#cf7a3c",
    "io": "#9c8160",
    "unknown": "#8b9199",
    "observer": "#99a1ab",
}
_CELL: Final = "text-align:left;padding:1px 10px 1px 0;white-space:nowrap"
_FIGURE: Final = "text-align:right;padding:1px 10px 1px 0;font-variant-numeric:tabular-nums"
_BAR_PIXELS: Final = 220
_MAX_FINDINGS: Final = 5


def study_html(study: "Study") -> str:
    """Return the account of a study (of a run, that of its steps) and its findings."""
    recorded = study.recorded
    run_account = None if recorded is None else recorded.account
    account = study.account if run_account is None else run_account.account
    diagnosis = "" if study.diagnosis is None else diagnosis_html(study.diagnosis)
    return f"<div>{account_html(account)}{diagnosis}</div>"


def account_html(account: "Account") -> str:
    """Return a table of the groups: milliseconds (a step, or of the capture), shares, their sum."""
    divisor = 1 if account.steps is None else len(account.rows) or account.steps or 1
    head = "ms a step" if account.steps is not None else "ms"
    wall, groups = account.wall_ns, account.groups
    body = [
        _line(PRINTED[name], groups[name], divisor, wall, _COLOURS.get(name))
        for name in GROUPS
        if groups.get(name)
    ]
    total = _line("sum", account.wall_ns, divisor, account.wall_ns)
    return _table(["", head, "share", ""], [*body, total])


def diagnosis_html(diagnosis: "Diagnosis") -> str:
    """Return a table of the findings, the most valuable first, with what each is worth."""
    if not diagnosis.findings:
        return f"<p>{escape(diagnosis.outlook or 'No cause is worth naming.')}</p>"
    shown_findings = diagnosis.findings[:_MAX_FINDINGS]
    n_more = len(diagnosis.findings) - len(shown_findings)
    table = _table(["cause", "line", "a step gets", ""], list(map(_finding_row, shown_findings)))
    return table + (f"<p>{n_more} more: study.diagnosis.findings</p>" if n_more else "")


def _finding_row(finding: "Finding") -> str:
    detection, speedup = finding.detection, finding.prediction.speedup
    place = detection.location
    line = "" if place is None else f"{PurePath(place.file).name}:{place.line}"
    gain = "not predicted"
    if speedup is not None:
        gain = f"{speedup.mid:.2f}× [{speedup.low:.2f} … {speedup.high:.2f}]"
    cells = [f"{detection.code} {detection.name}", line, gain]
    summary = f'<td style="text-align:left">{escape(detection.summary)}</td>'
    return "".join(f'<td style="{_CELL}">{escape(cell)}</td>' for cell in cells) + summary


def _line(name: str, ns: int, divisor: int, wall_ns: int, colour: str | None = None) -> str:
    share = ns / wall_ns if wall_ns else 0.0
    width = round(share * _BAR_PIXELS)
    bar = f"display:inline-block;height:0.7em;width:{width}px;background:{colour}"
    drawn = f'<span style="{bar}"></span>' if colour and width else ""
    return (
        f'<td style="{_CELL}">{escape(name)}</td>'
        f'<td style="{_FIGURE}">{ns / divisor / 1e6:.3f}</td>'
        f'<td style="{_FIGURE}">{share:.1%}</td><td style="{_CELL}">{drawn}</td>'
    )


def _table(heads: Sequence[str], rows: Sequence[str]) -> str:
    head = "".join(f'<th style="{_CELL}">{escape(text)}</th>' for text in heads)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<table style="border-collapse:collapse"><tr>{head}</tr>{body}</table>'
