"""A host of a job whose network link carries less than those of the others."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import astuple, replace

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.ranks.ddp_bf16 import ddp_bf16
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.ranks import collectives, links
from gapless.catalogue.queries.ranks.links import SlowLinks
from gapless.model.change import Change
from gapless.model.edit import FixRequest
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.facts import World
from gapless.model.finding import Detection, Measure

_MIN_STEP_SHARE: Final = 0.05  # of the step
_MIN_RESENT_SHARE: Final = 0.001  # of the bytes: fewer are lost on any network
_GBIT: Final = 1000  # Mbit/s
_ANY_INTERFACE: Final = "INTERFACE"  # where its name is not known
_THAT_HOST: Final = "that host"
_REMEDY: Final = (
    "see what slows it on {place}: `ethtool {interface}` (speed, duplex), `ip -s link` (errors, "
    "drops), `nstat TcpRetransSegs`, what else is sent over it, the switch's port; if the host "
    "has a faster link, NCCL_SOCKET_IFNAME or GLOO_SOCKET_IFNAME choose it; else leave the host "
    "out, or exchange less: in bfloat16 (by NCCL: ddp-bf16), or once for several batches (no_sync)"
)


@rule(
    "G612",
    "slow-link",
    figures="""
    ring(*exchanges) = world(ranks=len(exchanges), local_ranks=1, exchanges=exchanges)
    # Four hosts, one of which sends and receives slowly
    > Host c's link (eth0) carries 12 MB/s, where those between other hosts carry 400 MB/s: what is
      exchanged is on its way over it for 80.0 ms of each 100.0 ms step.
    cpu(ddp(), ring(exchange("a", "b", 400, 0.03), exchange("b", "c", 12, 0.8),
      exchange("c", "d", 12, 0.79), exchange("d", "a", 400, 0.03)))
    rank busy.math 15, comm.exposed 85
    rank busy.math 15, comm.exposed 85
    # Two hosts, one of which sends slowly and often again
    > Host b's link (eth0) carries 12 MB/s of what it sends to a, where the other way carries
      140 MB/s: what is exchanged is on its way over it for 90.0 ms of each 100.0 ms step; 3.0 % of
      the bytes are sent again.
    cpu(ddp(), ring(exchange("a", "b", 140, 0.08), exchange("b", "a", 12, 0.9, resent_share=0.03)))
    rank busy.math 5, comm.exposed 95
    rank busy.math 5, comm.exposed 95
    # What a host receives is slow: it is the interface of that host which is named
    > Host c's link (ib0) carries 12 MB/s of what it receives, where those between other hosts carry
      400 MB/s: what is exchanged is on its way over it for 80.0 ms of each 100.0 ms step.
    cpu(ddp(), ring(exchange("b", "c", 12, 0.8), exchange("a", "c", 12, 0.79),
      exchange("c", "a", 400, 0.03, interface="ib0"), exchange("a", "b", 400, 0.03)))
    rank busy.math 15, comm.exposed 85
    rank busy.math 15, comm.exposed 85
    # What a host sends is slow; nothing is known of other hosts, nor which interface it is
    > Host b's link carries 12 MB/s of what it sends to c, where other exchanges carry 400 MB/s:
      what is exchanged is on its way over it for 80.0 ms of each 100.0 ms step.
    cpu(ddp(), ring(exchange("a", "b", 400, 0.03), exchange("b", "c", 12, 0.8, interface=None)))
    rank busy.math 15, comm.exposed 85
    rank busy.math 15, comm.exposed 85
    # Six hosts, two of which are slow
    > The links of hosts c and e (eth0) carry 12 MB/s, where those between other hosts carry
      400 MB/s: what is exchanged is on its way over them for 80.0 ms of each 100.0 ms step.
    cpu(ddp(), ring(exchange("a", "b", 400, 0.03), exchange("b", "c", 12, 0.8),
      exchange("c", "d", 12, 0.8), exchange("d", "e", 12, 0.8), exchange("e", "f", 12, 0.8),
      exchange("f", "a", 400, 0.03)))
    rank busy.math 15, comm.exposed 85
    rank busy.math 15, comm.exposed 85
    # A link that states less; what it carries is not observed
    > Host b's link has 1 Gbit/s, where those of the other hosts have 10: transfers that nothing
      hides take 40.0 ms of each 100.0 ms step.
    gpu(ddp(backend="nccl"), world(ranks=24, local_ranks=8, hosts=("a", "b", "c"), host_links={
      "a": {"eth0": 10000}, "b": {"eth0": 1000}, "c": {"eth0": 10000}}))
    rank busy.math 60, comm.exposed 40
    rank busy.math 60, comm.exposed 40
    # Two hosts, whose links carry alike
    cpu(ddp(), ring(exchange("a", "b", 1067, 0.05), exchange("b", "a", 578, 0.08)))
    rank busy.math 35, comm.exposed 65
    rank busy.math 35, comm.exposed 65
    # All are as slow
    cpu(ddp(), ring(exchange("a", "b", 12, 0.8), exchange("b", "c", 12.5, 0.8),
      exchange("c", "a", 11, 0.8)))
    rank busy.math 15, comm.exposed 85
    rank busy.math 15, comm.exposed 85
    # Five hosts, four of which send to the first at once, and share its link
    cpu(ddp(), ring(*(exchange(peer, "a", 100, 0.6) for peer in "bcde"),
      *(exchange("a", peer, 400, 0.15) for peer in "bcde")))
    rank busy.math 15, comm.exposed 85
    rank busy.math 15, comm.exposed 85
    # Slow, but computing hides it
    cpu(ddp(), ring(exchange("a", "b", 400, 0.02), exchange("b", "a", 50, 0.16)))
    rank busy.math 99, comm.exposed 1
    rank busy.math 99, comm.exposed 1
    # One host
    cpu(ddp(), world(ranks=2))
    rank busy.math 15, comm.exposed 85
    rank busy.math 15, comm.exposed 85
    """,
)
def slow_link(evidence: Evidence, world: World) -> Detection | None:
    """Recognise a host of a job whose network link carries less than those of the others.

    ## Why it costs time
    Gradients go around a ring of all hosts, so that each exchange is as fast as the slowest link:
    one port that has fallen back to 1 Gbit/s, a cable that loses frames, or exchanges over the
    wrong interface slow all hosts alike. No rank comes late, and each reports the same: a trace
    does not show which host it is.

    ## How it is measured
    The kernel counts of each TCP connection what the peer has acknowledged, and how long something
    was on its way (but for waits until the peer reads). Each host samples that twice a second,
    outside of the training; hosts are joined by their addresses. A ring gives all links the same
    bytes: a link is slow if it carries a third of what the next faster one does, and those that are
    have a host in common, or few. Of a single slow exchange the host that sends is named; it may be
    the other one's link. If all are as slow as one another, none is named; nor of two
    hosts the one whose link is slow in both directions, nor one that carries as much as others do,
    but of several exchanges at once. Where connections are not observed
    (InfiniBand, kernels without sock_diag), by the speeds that links state. What it is worth: its
    exchanges at the speed of those between other hosts, at most all transfers that nothing hides;
    for stated speeds, as far as exchanges grow with their bytes.
    """
    step_ns = evidence.step_ns
    if world.ranks < 2 or not step_ns:  # noqa: PLR2004 - no other rank
        return None
    exposed_ns = collectives.exposed_ns(evidence)
    if exposed_ns < _MIN_STEP_SHARE * step_ns:
        return None
    if not world.exchanges:
        return _detect_stated(evidence, world, exposed_ns)
    slow_links = links.find_slow_links(world)
    gain = slow_links and links.gain_share(slow_links)
    if slow_links is None or gain is None or gain.mid < _MIN_STEP_SHARE:
        return None
    busy_ns = slow_links.busy_share * step_ns
    resent = max(exchange.resent_share for exchange in slow_links.slow)
    again = f"; {resent:.1%} of the bytes are sent again".replace("%", " %")
    pronoun = "it" if len(slow_links.hosts) == 1 else "them"
    detection = slow_link.detection(
        f"{_describe(slow_links)}: what is exchanged is on its way over {pronoun} for "
        f"{windows.format_step_part(evidence, busy_ns)}"
        f"{again if resent >= _MIN_RESENT_SHARE else ''}.",
        _change_exchanges(evidence, gain, exposed_ns, busy_ns),
        measures=(
            Measure("host", _join_names(slow_links.hosts), ""),
            Measure("carried by the slow link, a second", slow_links.bytes_per_s, "bytes"),
            Measure("carried by the others", _slowest_rate(slow_links), "bytes"),
            Measure("on its way over it, a step", busy_ns, "ns"),
            Measure("exposed, a step", exposed_ns, "ns"),
            Measure("hosts", len({exchange.host for exchange in world.exchanges}), ""),
        ),
        helps=_list_fixes(evidence),
        no_remedy=_suggest_remedy(slow_links),
    )
    return replace(detection, host=_join_names(slow_links.hosts))


def _suggest_remedy(slow_links: SlowLinks) -> str:
    """Return where to look: of a single slow exchange it may be the other host's link."""
    place = _THAT_HOST if len(slow_links.hosts) == 1 else "those hosts"
    if len(slow_links.slow) == 1:
        place = f"{place}, or on {slow_links.slow[0].peer}, which receives it"
    interface = next(iter(slow_links.interfaces), _ANY_INTERFACE)
    return _REMEDY.format(place=place, interface=interface)


def _describe(slow_links: SlowLinks) -> str:
    """Return whose link it is, what it carries, and what the others do."""
    rates = (slow_links.bytes_per_s, _slowest_rate(slow_links))
    speed, usual_speed = (f"{windows.format_size(rate)}/s" for rate in rates)
    interfaces = f" ({' and '.join(slow_links.interfaces)})" if slow_links.interfaces else ""
    carry = "carries" if len(slow_links.hosts) == 1 else "carry"
    whose = f"{_name_links(slow_links.hosts)}{interfaces} {carry} {speed}"
    among = _describe_others(slow_links)
    return f"{whose}{_describe_direction(slow_links)}, where {among} {usual_speed}"


def _describe_others(slow_links: SlowLinks) -> str:
    """Return which exchanges are as fast as links should be."""
    if slow_links.untouched:
        return "those between other hosts carry"
    reversed_pairs = {(exchange.peer, exchange.host) for exchange in slow_links.slow}
    pairs = {(exchange.host, exchange.peer) for exchange in slow_links.fast}
    return "the other way carries" if pairs <= reversed_pairs else "other exchanges carry"


def _name_links(hosts: Sequence[str]) -> str:
    whose = _join_names(hosts)
    return f"Host {whose}'s link" if len(hosts) == 1 else f"The links of hosts {whose}"


def _join_names(hosts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(hosts[:-1]), hosts[-1])))


def _describe_direction(slow_links: SlowLinks) -> str:
    """Return which way a host's link is slow; nothing if it is so both ways."""
    host = slow_links.hosts[0]
    peers = [exchange.peer for exchange in slow_links.slow if exchange.host == host]
    senders = [exchange.host for exchange in slow_links.slow if exchange.peer == host]
    if len(slow_links.hosts) > 1 or (peers and senders):
        return ""
    return f" of what it sends to {_join_names(peers)}" if peers else " of what it receives"


def _slowest_rate(slow_links: SlowLinks) -> float:
    """Return what the slowest of the other links carries, in bytes a second."""
    exchanges = slow_links.untouched or slow_links.fast
    return min(exchange.bytes_per_s for exchange in exchanges)


def _change_exchanges(
    evidence: Evidence, gain: Estimate, exposed_ns: float, busy_ns: float
) -> Change:
    """Return what remains of the transfers; what computing hides goes with the rest of them."""
    total_ns = max(exposed_ns, busy_ns)
    step_ns = evidence.step_ns or 0.0
    kept = [max(0.0, 1 - share * step_ns / total_ns) for share in reversed(astuple(gain))]
    return collectives.change_exposed(evidence, Estimate(*kept))


def _detect_stated(evidence: Evidence, world: World, exposed_ns: float) -> Detection | None:
    """Recognise links that state less than others, where nothing was measured of exchanges."""
    slow, usual_links = links.find_stated(world, world.hosts)
    if not slow:
        return None
    mbit, usual = min(slow.values()), min(usual_links.values())
    verb = "has" if len(slow) == 1 else "have"
    detection = slow_link.detection(
        f"{_name_links(tuple(slow))} {verb} {mbit / _GBIT:g} Gbit/s, where those of the other "
        f"hosts have {usual / _GBIT:g}: transfers that nothing hides take "
        f"{windows.format_step_part(evidence, exposed_ns)}.",
        collectives.change_exposed(evidence, collectives.remains_at_speed(evidence, usual / mbit)),
        measures=(
            Measure("host", _join_names(tuple(slow)), ""),
            Measure("stated by the slow link", mbit, "Mbit/s"),
            Measure("stated by the others", usual, "Mbit/s"),
            Measure("exposed, a step", exposed_ns, "ns"),
            Measure("hosts", len(world.host_links), ""),
        ),
        helps=_list_fixes(evidence),
        no_remedy=_REMEDY.format(place=_THAT_HOST, interface=_ANY_INTERFACE),
    )
    return replace(detection, host=_join_names(tuple(slow)))


def _list_fixes(evidence: Evidence) -> tuple[FixRequest, ...]:
    """Return fixes by which less is exchanged: torch's hook needs NCCL."""
    is_wrapped = any(module.kind == "ddp" for module in evidence.facts.parallel)
    return (ddp_bf16.request(),) if is_wrapped and evidence.on_device else ()
