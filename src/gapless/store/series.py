"""Series of the launcher's samplers: by name, when and how much."""

from collections.abc import Iterable

import numpy as np

from gapless import wire
from gapless.model.recording import Samples, Unseen
from gapless.store.fields import integer, members, number, parse
from gapless.store.framing import Framed
from gapless.store.told import unseen_of


def samples(logs: Iterable[Framed]) -> Samples:
    """Give the series that some logs hold; a value that is no number was not observed."""
    series: dict[str, tuple[list[int], list[float]]] = {}
    unseen: dict[Unseen, None] = {}
    for kind, body in (frame for log in logs for frame in log.frames):
        found = parse(body) if kind in {wire.SAMPLE, wire.UNSEEN} else None
        if found is None:
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
    )
