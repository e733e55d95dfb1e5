"""What machines of a job send to one another, by the connections that each of them sampled."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gapless.model.recording import Exchange, Node, Recording, Samples
from gapless.model.trace import Int64
from gapless.recorded.machine.samples import samples_within

_SERIES: Final = re.compile(r"connection\.(\S+) (\S+) (\S+)\.(?:sent|busy|resent)")
_SENT: Final = ".sent"
_NO_NAME: Final = "?"  # of an interface, whose address is not its first one, say
_PER_CENT: Final = 100.0
_Columns = tuple[Int64, tuple[float, ...]]


class _Flow(Struct, frozen=True):
    """What one address sends to another: means over the steps."""

    exchange: Exchange
    bytes_per_s: float  # of all the time


def local_addresses(samples: Samples) -> tuple[str, ...]:
    """Return the addresses from which a machine sends to others."""
    matches = filter(None, map(_SERIES.fullmatch, samples.series))
    return tuple(dict.fromkeys(match[2] for match in matches))


def join_connections(recordings: Sequence[Recording]) -> dict[str, _Columns]:
    """Return the series of connections of all machines."""
    return {
        name: columns
        for recording in recordings
        for name, columns in recording.samples.series.items()
        if _SERIES.fullmatch(name)
    }


def add_exchanges(recording: Recording, steps: tuple[int, int] | None) -> tuple[Node, ...]:
    """Return the machines of a job, each with what it sends to the others."""
    exchanges = () if steps is None else find_exchanges(recording, steps)
    return tuple(
        replace(node, exchanges=tuple(row for row in exchanges if row.host == node.host))
        for node in recording.nodes
    )


def find_exchanges(recording: Recording, steps: tuple[int, int]) -> tuple[Exchange, ...]:
    """Return what each machine sends to each other one that is here, over a span of steps.

    Where two have several connections, of different addresses: the one that carries most.
    """
    largest: dict[tuple[str, str], _Flow] = {}
    for flow in _iter_flows(recording, steps):
        pair = (flow.exchange.host, flow.exchange.peer)
        if pair not in largest or largest[pair].bytes_per_s < flow.bytes_per_s:
            largest[pair] = flow
    return tuple(flow.exchange for flow in largest.values())


def _iter_flows(recording: Recording, steps: tuple[int, int]) -> Iterator[_Flow]:
    hosts = _hosts_by_address(recording.nodes)
    series = recording.samples.series
    for name in series:
        match = _SERIES.fullmatch(name)
        if match is None or not name.endswith(_SENT):
            continue
        interface, local, peer = match[1], match[2], match[3]
        sent, busy, resent = _mean_rates(series, name.removesuffix(_SENT), steps)
        if local not in hosts or peer not in hosts or not sent or not busy:
            continue
        exchange = Exchange(
            hosts[local],
            hosts[peer],
            None if interface == _NO_NAME else interface,
            sent * _PER_CENT / busy,
            busy / _PER_CENT,
            min(1.0, resent / sent),
        )
        yield _Flow(exchange, sent)


def _hosts_by_address(nodes: Sequence[Node]) -> dict[str, str]:
    """Return whose an address is; not those that several have, as behind bridges of containers."""
    hosts: dict[str, set[str]] = {}
    for node in nodes:
        for address in node.addresses:
            hosts.setdefault(address, set()).add(node.host)
    return {address: next(iter(names)) for address, names in hosts.items() if len(names) == 1}


def _mean_rates(
    series: Mapping[str, _Columns], prefix: str, steps: tuple[int, int]
) -> tuple[float, float, float]:
    """Return the means of what is sent, is on its way, and is sent again, within a span.

    Nothing was sent again where no sample says so.
    """
    times, sent = series[f"{prefix}.sent"]
    is_inside = samples_within(times, steps)
    count = max(1, int(is_inside.sum()))
    sums = [float(np.array(sent, np.float64)[is_inside].sum())]
    for kind in ("busy", "resent"):
        other_times, values = series.get(f"{prefix}.{kind}", (np.empty(0, np.int64), ()))
        is_meant = np.isin(other_times, times[is_inside])
        sums.append(float(np.array(values, np.float64)[is_meant].sum()))
    sent_mean, busy_mean, resent_mean = (total / count for total in sums)
    return sent_mean, busy_mean, resent_mean
