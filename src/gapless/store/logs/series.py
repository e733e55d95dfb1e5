"""Series of the launcher's samplers: by name, when and how much."""

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from gapless import wire
from gapless.model.recording import Host, Samples, Unobserved
from gapless.store.logs.fields import Object, integer, items, members, number, parse, text
from gapless.store.logs.framing import FramedLog
from gapless.store.logs.process_log import parse_unobserved

_KINDS: Final = frozenset({wire.SAMPLE, wire.UNOBSERVED, wire.HOSTS})


def read_samples(logs: Iterable[FramedLog]) -> Samples:
    """Return the series in some logs; a value that is not a number was not observed."""
    series: dict[str, tuple[list[int], list[float]]] = {}
    unobserved: dict[Unobserved, None] = {}
    hosts: dict[tuple[str, int], Host] | None = None
    for kind, body in (frame for log in logs for frame in log.frames):
        document = parse(body) if kind in _KINDS else None
        if document is None:
            continue
        if kind == wire.HOSTS:
            new_hosts = {(host.address, host.port): host for host in _parse_hosts(document)}
            hosts = {**new_hosts, **(hosts or {})}
            continue
        if kind == wire.UNOBSERVED:
            unobserved.update({parsed: None for parsed in [parse_unobserved(document)] if parsed})
            continue
        ns = integer(document.get("ns"))
        for name, value in members(document.get("values")).items():
            amount = number(value)
            if ns is not None and amount is not None:
                times, amounts = series.setdefault(name, ([], []))
                times.append(ns)
                amounts.append(amount)
    return Samples(
        {
            name: (np.array(times, np.int64), tuple(amounts))
            for name, (times, amounts) in series.items()
        },
        tuple(unobserved),
        None if hosts is None else tuple(hosts.values()),
    )


def _parse_hosts(document: Object) -> Iterator[Host]:
    for host in items(document.get("hosts")):
        address, port, program = (*items(host), None, None, None)[:3]
        host_address, number = text(address), integer(port)
        if host_address is not None and number is not None:
            yield Host(host_address, number, text(program))
