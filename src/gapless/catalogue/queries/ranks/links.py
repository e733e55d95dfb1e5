"""The host of a job whose link carries less than those of the others: as measured, or as stated."""

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Final

from msgspec import Struct

from gapless.catalogue.queries.ranks import transports
from gapless.model.estimate import Estimate
from gapless.model.facts import World
from gapless.model.recording import Exchange

_MIN_RATIO: Final = 3.0  # of the speeds of other links to that of a slow one
_MIN_CARRIED_SHARE: Final = 0.25  # of the bytes of the busiest exchange: less is no ring's part


class SlowLinks(Struct, frozen=True):
    """Exchanges that take longer than others of the same job, and whose link that is."""

    hosts: tuple[str, ...]
    slow: tuple[Exchange, ...]
    fast: tuple[Exchange, ...]

    @property
    def bytes_per_s(self) -> float:
        """Return how fast the slowest of them is."""
        return min(exchange.bytes_per_s for exchange in self.slow)

    @property
    def busy_share(self) -> float:
        """Return the share of the time in which something is on its way over a slow link."""
        return max(exchange.busy_share for exchange in self.slow)

    @property
    def interfaces(self) -> tuple[str, ...]:
        """Return through which interfaces these hosts send, slowly if they do; none: not known."""
        senders = [exchange for exchange in self.slow if exchange.host in self.hosts]
        senders = senders or [exchange for exchange in self.fast if exchange.host in self.hosts]
        return tuple(dict.fromkeys(sender.interface for sender in senders if sender.interface))

    @property
    def untouched(self) -> tuple[Exchange, ...]:
        """Return the fast exchanges that neither begin nor end at such a host."""
        return tuple(
            exchange
            for exchange in self.fast
            if exchange.host not in self.hosts and exchange.peer not in self.hosts
        )


def find_slow_links(world: World) -> SlowLinks | None:
    """Return the links that are slow by what was measured of exchanges; ``None``: none is.

    All exchanges of a ring carry the same bytes, so that they differ by their links alone. Where
    all are as slow as one another, none is the slow one; nor is one that is as fast as others, but
    shared by several at once (all send to the first host, say).
    """
    most_bytes = max((_carried_bytes(exchange) for exchange in world.exchanges), default=0.0)
    exchanges = sorted(
        (
            exchange
            for exchange in world.exchanges
            if _carried_bytes(exchange) >= _MIN_CARRIED_SHARE * most_bytes
        ),
        key=lambda exchange: exchange.bytes_per_s,
    )
    if len(exchanges) < 2:  # noqa: PLR2004 - nothing to compare with
        return None
    speeds = [exchange.bytes_per_s for exchange in exchanges]
    ratios = [after / before for before, after in pairwise(speeds)]
    count = ratios.index(max(ratios)) + 1
    slow, fast = tuple(exchanges[:count]), tuple(exchanges[count:])
    hosts = _find_hosts(slow)
    n_hosts = len({name for exchange in exchanges for name in (exchange.host, exchange.peer)})
    if max(ratios) < _MIN_RATIO or len(hosts) > max(1, (n_hosts - 1) // 2):
        return None
    if _MIN_RATIO * max(_shared_rates(hosts, slow)) > fast[0].bytes_per_s:
        return None
    return SlowLinks(hosts, slow, fast)


def _shared_rates(hosts: Sequence[str], slow: Sequence[Exchange]) -> Iterator[float]:
    """Yield what each host sends and receives a second, if its exchanges are all made at once."""
    for host in hosts:
        sent = [exchange for exchange in slow if exchange.host == host]
        received = [exchange for exchange in slow if exchange.peer == host]
        for exchanges in filter(None, (sent, received)):
            busy_share = max(exchange.busy_share for exchange in exchanges)
            yield sum(map(_carried_bytes, exchanges)) / busy_share


def _carried_bytes(exchange: Exchange) -> float:
    return exchange.bytes_per_s * exchange.busy_share


def _find_hosts(slow: Sequence[Exchange]) -> tuple[str, ...]:
    """Return the fewest hosts that have part in all slow exchanges: whoever has part in most first.

    Of a single exchange it is the one that sends.
    """
    hosts: list[str] = []
    exchanges = list(slow)
    while exchanges:
        names = [exchange.host for exchange in exchanges]
        names += [exchange.peer for exchange in exchanges]
        host = max(dict.fromkeys(names), key=names.count)
        hosts.append(host)
        exchanges = [
            exchange for exchange in exchanges if host not in (exchange.host, exchange.peer)
        ]
    return tuple(hosts)


def gain_share(links: SlowLinks) -> Estimate:
    """Return the share of the time that goes if slow links were as fast as the others.

    As the exchanges among other hosts show it. Where there are none, what comes back to the slow
    host is at least as fast as it looks: what confirms it is sent over the slow link.
    """
    fast = [exchange.bytes_per_s for exchange in links.untouched or links.fast]
    best = max(*fast, transports.GLOO.bus_bytes_per_s.high)
    ratios = (
        links.bytes_per_s / min(fast),
        links.bytes_per_s / (median(fast) if links.untouched else (min(fast) * best) ** 0.5),
        links.bytes_per_s / best,
    )
    low, mid, high = (links.busy_share * max(0.0, 1 - ratio) for ratio in ratios)
    return Estimate(low, mid, high)


def find_stated(world: World, hosts: Collection[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the hosts whose fastest link states less than those of most others, and the rest.

    In Mbit/s, by host; none is slow where some host states nothing.
    """
    speeds = {host: max(links.values()) for host, links in world.host_links.items() if links}
    if len(hosts) < 2 or set(hosts) - set(speeds):  # noqa: PLR2004 - no other
        return {}, {}
    usual = median(speeds.values())
    slow = {host: mbit for host, mbit in speeds.items() if mbit * _MIN_RATIO <= usual}
    return slow, {host: mbit for host, mbit in speeds.items() if host not in slow}
