"""What an exchange takes where the run's own do not tell: α + bytes ÷ bandwidth, by its transport.

gloo's was measured (``benchmarks/exchange_costs.py``). Those of GPUs are assumed, and as wide as
that asks for; NVLink's holds what was measured later between two H200s: 48 µs, and 265 GB/s. What
computing beside an exchange loses was measured there, too (``benchmarks/bucket_sizes.py``): on
NVLink 0.7 to 0.8 of what is hidden of it, through the host's memory 0.26.
"""

import re
from typing import Final

from msgspec import Struct

from gapless.model.estimate import Estimate
from gapless.model.facts import Facts, Machine

_NVLINK: Final = re.compile(r"^(?!.*(PCIe|NVL)).*(\b(H|B|GB|GH)\d00|H20\b|SXM|PG50\d)")
_NO_PEERS: Final = "NCCL_P2P_DISABLE"
_MBIT: Final = 1e6 / 8  # bytes
_LINK_SHARES: Final = (0.3, 0.7, 0.95)  # of the speed of links, that exchanges reach


class Transport(Struct, frozen=True):
    """What a call takes whatever its size, in ns, and bytes/s of the bus as nccl-tests have it."""

    call_ns: Estimate
    bus_bytes_per_s: Estimate
    slowdown: Estimate  # how much longer computing takes, for what it hides of exchanges

    def exchange_ns(self, n_calls: float, n_bytes: float, n_ranks: int) -> Estimate:
        """Return what an all-reduce of so many bytes takes, in so many calls."""
        moved = moved_bytes(n_bytes, n_ranks)
        call, bus = self.call_ns, self.bus_bytes_per_s
        return Estimate(
            n_calls * call.low + 1e9 * moved / bus.high,
            n_calls * call.mid + 1e9 * moved / bus.mid,
            n_calls * call.high + 1e9 * moved / bus.low,
        )

    def latency_share(self, n_calls: float, n_bytes: float, n_ranks: int) -> Estimate:
        """Return the share of so many all-reduces that each takes whatever its size.

        Links of long calls are taken for the fast ones, which makes the interval wide.
        """
        moved = 1e9 * moved_bytes(n_bytes, n_ranks)
        call, bus = self.call_ns, self.bus_bytes_per_s
        ends = ((call.low, bus.low), (call.mid, bus.mid), (call.high, bus.high))
        return Estimate(*(n_calls * ns / (n_calls * ns + moved / rate) for ns, rate in ends))


def moved_bytes(n_bytes: float, n_ranks: int) -> float:
    """Return what a ring moves over each link in an all-reduce, as nccl-tests count it."""
    return n_bytes * 2 * (n_ranks - 1) / max(1, n_ranks)


_FAST_LINK: Final = Estimate(0.4, 0.7, 1.0)
_SLOW_LINK: Final = Estimate(0.0, 0.2, 0.6)
_SHARED_PROCESSORS: Final = Estimate(0.2, 0.7, 1.0)  # of threads that copy and add: none is left
GLOO: Final = Transport(Estimate(5e4, 2e5, 6e5), Estimate(4e8, 1.2e9, 4e9), _SLOW_LINK)
NVLINK: Final = Transport(Estimate(1e4, 3e4, 8e4), Estimate(6e10, 1.5e11, 4e11), _FAST_LINK)
PCIE: Final = Transport(Estimate(1.5e4, 4e4, 1.5e5), Estimate(3e9, 1e10, 2.5e10), _SLOW_LINK)
NETWORK: Final = Transport(Estimate(3e4, 8e4, 3e5), Estimate(3e8, 5e9, 4e10), _SLOW_LINK)


def gloo_transport(facts: Facts) -> Transport:
    """Return what gloo has: its threads need processors, of which training may leave none."""
    cpus, threads = facts.machine.cpus, facts.machine.intra_op_threads or 1
    n_training = (facts.world.local_ranks or facts.world.ranks) * threads
    if cpus is None or n_training < cpus:
        return GLOO
    return Transport(GLOO.call_ns, GLOO.bus_bytes_per_s, _SHARED_PROCESSORS)


def nccl_transport(facts: Facts) -> Transport:
    """Return what NCCL has on the links of a run's GPUs: of one machine, or between several."""
    world = facts.world
    is_local = world.local_ranks is None or world.local_ranks >= world.ranks
    if not is_local or len(set(world.hosts)) > 1:
        if not world.links:
            return NETWORK
        fastest = max(world.links.values())
        # Rings of several GPUs have a link each at most; two names may be of one port.
        n_links = min(list(world.links.values()).count(fastest), world.local_ranks or 1)
        counts = (1, (1 + n_links) / 2, n_links)
        speeds = (
            share * n * fastest * _MBIT for share, n in zip(_LINK_SHARES, counts, strict=True)
        )
        return Transport(NETWORK.call_ns, Estimate(*speeds), NETWORK.slowdown)
    return NVLINK if _has_nvlink(facts.machine) else PCIE


def _has_nvlink(machine: Machine) -> bool:
    is_refused = machine.environment.get(_NO_PEERS, "0") not in ("", "0")
    return not is_refused and _NVLINK.search(machine.device or "") is not None
