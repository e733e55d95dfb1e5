"""Queries on the buckets that gradients are exchanged in: what others would be, and which suit."""

from typing import Final

from gapless.catalogue.queries import windows
from gapless.catalogue.queries.ranks import collectives, transports
from gapless.catalogue.queries.ranks.collectives import BUCKET_MIB, MIB
from gapless.model.change import Bucket
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.reducer import REDUCE_CALL

_MIN_MIB: Final = 1.0  # that is proposed
_MAX_LATENCY_SHARE: Final = 1 / 8  # of what a bucket takes
_UNKNOWN_SHARE: Final = Estimate(0.0, 0.5, 1.0)
_MIN_BUCKETS: Final = 4  # of all gradients: the last one is never hidden


def change_buckets(evidence: Evidence, cap_mib: float, first_mib: float | None = None) -> Bucket:
    """Return the change to buckets of a size, of which the first may have another."""
    first = cap_mib if first_mib is None else first_mib
    slowdown = _transport(evidence).slowdown
    return Bucket(round(cap_mib * MIB), round(first * MIB), _latency_share(evidence), slowdown)


def _latency_share(evidence: Evidence) -> Estimate:
    """Return the share of exchanges that each call takes whatever its size, by its transport."""
    n_calls = windows.sum_calls(evidence, REDUCE_CALL).count
    n_bytes, n_ranks = collectives.gradient_bytes(evidence), max(2, evidence.facts.world.ranks)
    if not n_calls or not n_bytes:
        return _UNKNOWN_SHARE
    return _transport(evidence).latency_share(n_calls, n_bytes, n_ranks)


def suitable_mib(evidence: Evidence) -> float:
    """Return the size of buckets that begin early, and of which few go to starting them."""
    transport, n_ranks = _transport(evidence), max(2, evidence.facts.world.ranks)
    bytes_per_s = transport.bus_bytes_per_s.mid / transports.moved_bytes(1, n_ranks)
    worth_mib = transport.call_ns.mid / 1e9 * bytes_per_s / _MAX_LATENCY_SHARE / MIB
    most_mib = collectives.gradient_bytes(evidence) / MIB / _MIN_BUCKETS
    return float(round(max(_MIN_MIB, min(BUCKET_MIB, worth_mib, most_mib))))


def _transport(evidence: Evidence) -> transports.Transport:
    facts = evidence.facts
    on_gpus = evidence.on_device
    return transports.nccl_transport(facts) if on_gpus else transports.gloo_transport(facts)
