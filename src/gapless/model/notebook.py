"""An account as a small HTML table, for notebooks: no name of a trace enters it."""

from html import escape
from typing import TYPE_CHECKING

from gapless.model.leaf import GROUPS, PRINTED

if TYPE_CHECKING:
    from gapless.model.account import Account


def account_html(account: "Account") -> str:
    """Return a table of the groups: milliseconds (a step, or of the capture), shares, their sum."""
    rows = max(1, len(account.rows))
    divisor = rows if account.steps is not None else 1
    head = "ms a step" if account.steps is not None else "ms"
    wall, groups = account.wall_ns, account.groups
    body = [
        _line(PRINTED[name], groups[name], divisor, wall) for name in GROUPS if groups.get(name)
    ]
    total = _line("sum", account.wall_ns, divisor, account.wall_ns)
    titles = f"<tr><th></th><th>{head}</th><th>share</th></tr>"
    return f"<table>{titles}{''.join(body)}{total}</table>"


def _line(name: str, ns: int, divisor: int, wall_ns: int) -> str:
    share = ns / wall_ns if wall_ns else 0.0
    return f"<tr><td>{escape(name)}</td><td>{ns / divisor / 1e6:.3f}</td><td>{share:.1%}</td></tr>"
