"""One leaf in detail: its longest pieces, where in the step they lie, and the events to blame."""

from collections.abc import Iterator

from rich.text import Text

from gapless.model.study import Leaf, Piece
from gapless.report.text.numbers import count, duration
from gapless.report.text.text import clean, cut_middle, kernel_name


def leaf_lines(leaf: Leaf, width: int, divisor: int) -> Iterator[Text]:
    """Return a leaf's longest pieces: how long and when, what is to blame, and where."""
    yield Text("")
    if not leaf.count:
        yield Text(f"{leaf.prefix}: nothing of the account is charged to it", "bold")
        return
    median = (
        "" if leaf.median_ns is None else f", half of them longer than {duration(leaf.median_ns)}"
    )
    total = (
        f"{leaf.prefix}: {duration(leaf.ns / divisor)} a step"
        if divisor > 1
        else f"{leaf.prefix}: {duration(leaf.ns)}"
    )
    yield Text(f"{total}, in {count(leaf.count)} pieces{median}; the longest:", "bold")
    for piece in leaf.longest:
        yield Text.assemble(
            (f"  {duration(piece.ns):>10}", "bold"), f"  {position_text(piece, leaf)}"
        )
        for line in blame_lines(piece):
            yield Text(f"              {cut_middle(line, width - 14)}")


def position_text(piece: Piece, leaf: Leaf) -> str:
    """Describe where a piece lies: step, rank, device, how far into the row."""
    row = piece.row
    row_parts = [f"step {row.step}"] if row.step is not None else []
    row_parts += [f"rank {row.rank}"] if row.rank is not None else []
    row_parts += [f"device {row.device}"] if row.device is not None else []
    leaf_suffix = "" if piece.leaf == leaf.prefix else f" · {piece.leaf}"
    return f"{', '.join(row_parts)} at {duration(piece.offset_ns)}{leaf_suffix}"


def blame_lines(piece: Piece) -> Iterator[str]:
    """Describe the event to blame for a piece, what was around it, and what it pays for."""
    if piece.culprit is not None:
        thread = f" on {clean(piece.thread)}" if piece.thread else ""
        inside = (
            f", in {clean(piece.operator)}"
            if piece.operator and piece.operator != piece.culprit
            else ""
        )
        yield f"{kernel_name(clean(piece.culprit))}{inside}{thread}"
    if piece.line is not None and piece.category != "python_function":
        yield f"in {clean(piece.line)}"
    if piece.under is not None:
        yield f"while the host was at {piece.under}"
    if piece.refill is not None and piece.refill != piece.culprit:
        yield f"refilling after {clean(piece.refill)}"
