"""Series of the launcher's samplers: by name, when and how much."""

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from gapless import wire
from gapless.model.recording import Host, Samples, Unseen
from gapless.store.fields import Object, integer, items, members, number, parse, text
from gapless.store.framing import Framed
from gapless.store.told import unseen_of

_KINDS: Final = frozenset({wire.SAMPLE, wire.UNSEEN, wire.HOSTS})


def samples(logs: Iterable[Framed]) -> Samples:
    """Give the series that some logs hold; a value that is no number was not observed."""
    series: dict[str, tuple[list[int], list[float]]] = {}
    unseen: dict[Unseen, None] = {}
    hosts: dict[tuple[str, int], Host] | None = None
    for kind, body in (frame for log in logs for frame in log.frames):
        found = parse(body) if kind in _KINDS else None
        if found is None:
            continue
        if kind == wire.HOSTS:
            new = {(one.address, one.port): one for one in _hosts(found)}
            hosts = {**new, **(hosts or {})}
            continue
        if kind == wire.UNSEEN:
            unseen.update({one: None for one in [unseen_of(found)] if one})
            continue
        ns = integer(found.get("ns"))
        for name, value in members(found.get("values")).items():
            amount = number(value)
            if ns is not None and amount is not None:
                times, amounts = series.setdefault(name, ([], []))
                times.append(ns)
                amounts.append(amount)
    return Samples(
        {name: (np.array(at, np.int64), tuple(much)) for name, (at, much) in series.items()},
        tuple(unseen),
        None if hosts is None else tuple(hosts.values()),
    )


def _hosts(found: Object) -> Iterator[Host]:
    ns = integer(found.get("ns"))
    for one in items(found.get("hosts")):
        address, port, program = (*items(one), None, None, None)[:3]
        known, number = text(address), integer(port)
        if ns is not None and known is not None and number is not None:
            yield Host(known, number, text(program), ns)
