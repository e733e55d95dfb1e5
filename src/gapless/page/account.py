"""The account as a tree that opens: groups, their leaves, the longest pieces of each."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from gapless.model.account import Account
from gapless.model.leaf import group_of
from gapless.model.study import Leaf, Piece, Study
from gapless.report.run.page import group_remarks, step_sheet
from gapless.report.run.sentences import footing as run_footing
from gapless.report.sections.account import AccountSheet, GroupLine, account_sheet
from gapless.report.sections.leaves import blame_lines, position_text
from gapless.report.sections.summary import footing
from gapless.report.text.names import short_name
from gapless.report.text.numbers import count, duration

_MAX_PIECES: Final = 5


class PieceEntry(Struct, frozen=True):
    """One piece of the ledger: how long, where in the step, and what is to blame."""

    length: str
    position: str
    blame: tuple[str, ...]


class LeafEntry(Struct, frozen=True):
    """A leaf of a group: its figures, and the longest of its pieces where windows show them."""

    name: str
    leaves: str  # as --leaf takes them
    digits: int
    figure: str
    share: float  # of the whole
    percent: str
    caption: str
    pieces: tuple[PieceEntry, ...]


class GroupEntry(Struct, frozen=True):
    """A group of the account."""

    group: str
    name: str
    digits: int
    figure: str
    percent: str
    share: float
    remark: str
    leaves: tuple[LeafEntry, ...]
    details: tuple["DetailEntry", ...]  # of leaves that only the ledger of windows tells apart


class DetailEntry(Struct, frozen=True):
    """A leaf of the ledger that the account above it divides otherwise: into stages, say."""

    name: str
    caption: str
    pieces: tuple[PieceEntry, ...]


class AccountTree(Struct, frozen=True):
    """An account as a page shows it; the digits of the groups sum to ``digits``."""

    title: str
    footing: str
    unit: str
    digits: int
    figure: str
    groups: tuple[GroupEntry, ...]


def account_tree(study: Study) -> AccountTree | None:
    """Lay out the account that the report prints; ``None`` for a run without two steps."""
    recorded = study.recorded
    if recorded is None:
        title = "where a step goes" if study.account.steps is not None else "where the time goes"
        return _tree(study, account_sheet(study.account), study.account, (title, footing(study)))
    sheet = step_sheet(recorded)
    if sheet is None or recorded.account is None or recorded.steps is None:
        return None
    captions = "where a step goes", run_footing(recorded, recorded.steps)
    return _tree(study, sheet, recorded.account.account, captions, group_remarks(recorded))


def _tree(
    study: Study,
    sheet: AccountSheet,
    account: Account,
    captions: tuple[str, str],
    remarks: Mapping[str, str] | None = None,
) -> AccountTree:
    details = {leaf.prefix: leaf for leaf in study.leaves}
    return AccountTree(
        title=captions[0],
        footing=captions[1],
        unit=sheet.unit.name,
        digits=sheet.digits,
        figure=sheet.unit.text(sheet.digits),
        groups=tuple(
            GroupEntry(
                group=line.group,
                name=line.name,
                digits=line.digits,
                figure=sheet.unit.text(line.digits),
                percent=line.percent,
                share=line.share,
                remark=(remarks or {}).get(line.group, ""),
                leaves=_leaf_entries(line, sheet, account.parts.get(line.group, {}), details),
                details=_detail_entries(
                    line.group, account.parts.get(line.group, {}), study.leaves
                ),
            )
            for line in sheet.lines
        ),
    )


def _leaf_entries(
    line: GroupLine,
    sheet: AccountSheet,
    leaves_ns: Mapping[str, int],
    details: Mapping[str, Leaf],
) -> tuple[LeafEntry, ...]:
    names = {leaf: short_name(leaf) for leaf in leaves_ns}
    entries: list[LeafEntry] = []
    for part in line.parts:
        if not part.digits:
            continue
        leaves = [leaf for leaf, name in names.items() if name == part.name]
        detail_rows = [details[leaf] for leaf in leaves if leaf in details]
        share = part.digits / sheet.digits if sheet.digits else 0.0
        entries.append(
            LeafEntry(
                name=part.name,
                leaves=" ".join(leaves),
                digits=part.digits,
                figure=sheet.unit.text(part.digits),
                share=share,
                percent=f"{share * 100:.1f} %",
                caption=_caption(detail_rows),
                pieces=_longest_pieces(detail_rows),
            )
        )
    return tuple(entries)


def _detail_entries(
    group: str, leaves_ns: Mapping[str, int], leaves: Sequence[Leaf]
) -> tuple[DetailEntry, ...]:
    return tuple(
        DetailEntry(short_name(leaf.prefix), _caption([leaf]), _longest_pieces([leaf]))
        for leaf in leaves
        if group_of(leaf.prefix) == group and leaf.prefix not in leaves_ns
    )


def _caption(leaves: Sequence[Leaf]) -> str:
    """Describe of how many pieces a leaf is, in the steps that were recorded whole."""
    if not leaves:
        return ""
    n_pieces, ns = sum(leaf.count for leaf in leaves), sum(leaf.ns for leaf in leaves)
    medians = [leaf.median_ns for leaf in leaves if leaf.median_ns is not None]
    median = (
        f", half of them longer than {duration(medians[0])}"
        if len(leaves) == 1 and medians and n_pieces > 1
        else ""
    )
    pieces = "one piece" if n_pieces == 1 else f"{count(n_pieces)} pieces"
    return f"{duration(ns)} in {pieces} of the steps recorded whole{median}; the longest:"


def _longest_pieces(leaves: Sequence[Leaf]) -> tuple[PieceEntry, ...]:
    pieces = [(piece, leaf) for leaf in leaves for piece in leaf.longest]
    pieces.sort(key=lambda pair: -pair[0].ns)
    return tuple(_piece_entry(piece, leaf) for piece, leaf in pieces[:_MAX_PIECES])


def _piece_entry(piece: Piece, leaf: Leaf) -> PieceEntry:
    return PieceEntry(duration(piece.ns), position_text(piece, leaf), tuple(blame_lines(piece)))
