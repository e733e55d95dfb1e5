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
_REMEDY: Final = (
    "see what slows it on that host: `ethtool {interface}` (speed, duplex), "
    "`ip -s link` (errors, drops), `nstat TcpRetransSegs`, the switch's port; if the host "
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
    hosts the one whose link is slow in both directions. Where connections are not observed
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
    interface = slow_links.slow[0].interface
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
        no_remedy=_REMEDY.format(interface=interface),
    )
    return replace(detection, host=_join_names(slow_links.hosts))


def _describe(slow_links: SlowLinks) -> str:
    """Return whose link it is, what it carries, and what the others do."""
    rates = (slow_links.bytes_per_s, _slowest_rate(slow_links))
    speed, usual_speed = (f"{windows.format_size(rate)}/s" for rate in rates)
    interfaces = " and ".join(dict.fromkeys(exchange.interface for exchange in slow_links.slow))
    carry = "carries" if len(slow_links.hosts) == 1 else "carry"
    among = "those between other hosts carry" if slow_links.untouched else "the other way carries"
    whose = f"{_name_links(slow_links.hosts)} ({interfaces}) {carry} {speed}"
    return f"{whose}{_describe_direction(slow_links)}, where {among} {usual_speed}"


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
    return f" of what it sends to {peers[0]}" if peers else " of what it receives"


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
        no_remedy=_REMEDY.format(interface="INTERFACE"),
    )
    return replace(detection, host=_join_names(tuple(slow)))


def _list_fixes(evidence: Evidence) -> tuple[FixRequest, ...]:
    """Return fixes by which less is exchanged: torch's hook needs NCCL."""
    is_wrapped = any(module.kind == "ddp" for module in evidence.facts.parallel)
    return (ddp_bf16.request(),) if is_wrapped and evidence.on_device else ()
