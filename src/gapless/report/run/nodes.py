"""The report on the machines of a job: their ranks, how they ended, how their clocks compare."""

from collections.abc import Iterator, Sequence
from typing import Final

from gapless.model.ranges import format_ranges
from gapless.model.recording import Node
from gapless.model.run import RecordedRun
from gapless.report.text.numbers import duration, percent, rate
from gapless.report.text.text import clean

_MAX_NODES: Final = 8  # that are listed one by one
_MAX_EXCHANGES: Final = 2  # of a node that are shown: of a ring there is one
_MIN_BYTES_PER_S: Final = 1e6  # less is talk
_SOURCES: Final = {
    "collectives": "by the ends of {count:,} collectives",
    "steps": "by {count:,} steps: no window of the same steps is there on both",
    "wall clock": "by the time of day, which nothing confirms",
}


def node_lines(recorded: RecordedRun) -> Iterator[str]:
    """Return a few nodes one by one; of many those that did not finish, and the worst clock."""
    nodes = recorded.nodes
    visible = nodes if len(nodes) <= _MAX_NODES else _outlying_nodes(nodes)
    for node in visible:
        yield " · ".join(_node_parts(node, nodes[0]))
    hidden = [node for node in nodes if node not in visible]
    if hidden:
        states = " and ".join(sorted({node.status for node in hidden}))
        yield f"{len(hidden):,} more nodes: {states}{_worst_clock(hidden)}"


def _outlying_nodes(nodes: Sequence[Node]) -> list[Node]:
    usual = [node for node in nodes[1:] if node.status == "finished"]
    unusual = [node for node in nodes[1:] if node.status != "finished"]
    farthest = sorted(usual, key=lambda node: -abs(node.clock_offset_ns))
    return [nodes[0], *[*unusual, *farthest][: _MAX_NODES - 1]]


def _worst_clock(nodes: Sequence[Node]) -> str:
    errors_ns = [node.clock_error_ns for node in nodes]
    if any(error_ns is None for error_ns in errors_ns):
        return ""
    return f", clocks known to ± {duration(max(filter(None, errors_ns), default=0))}"


def _node_parts(node: Node, first: Node) -> Iterator[str]:
    name = clean(node.host) or "a host without a name"
    yield name if node.number is None else f"node {node.number}, {name}"
    if node.ranks:
        yield f"rank{'s' if len(node.ranks) > 1 else ''} {format_ranges(node.ranks)}"
    if node.first_gpu is not None:
        yield f"GPU {format_ranges(range(node.first_gpu, node.first_gpu + node.gpus))}"
    yield node.status
    if node.restarts:
        yield f"its ranks were started {node.restarts + 1} times"
    source = _SOURCES.get(node.clock_source)
    if source is not None:
        sign = "−" if node.clock_offset_ns < 0 else "+"
        error = "" if node.clock_error_ns is None else f" ± {duration(node.clock_error_ns)}"
        yield (
            f"clock {sign}{duration(abs(node.clock_offset_ns))}{error} "
            f"{source.format(count=node.clock_count)}"
        )
    else:
        yield "all times are on its clock" if node is first else "on the same machine"
    yield from _exchange_parts(node)


def _exchange_parts(node: Node) -> Iterator[str]:
    """Return what a node sends to those to which it sends most of the time."""
    busiest = sorted(node.exchanges, key=lambda exchange: -exchange.busy_share)
    for exchange in busiest[:_MAX_EXCHANGES]:
        if exchange.bytes_per_s * exchange.busy_share >= _MIN_BYTES_PER_S:
            through = "" if exchange.interface is None else f" through {clean(exchange.interface)}"
            yield (
                f"sends {rate(exchange.bytes_per_s)} to {clean(exchange.peer)}{through}, "
                f"{percent(exchange.busy_share)} of the time"
            )
