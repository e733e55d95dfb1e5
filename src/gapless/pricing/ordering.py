"""The order of causes: by what each is worth at least, and fixes before mere bounds.

A bound that only rewriting code reaches and a fix that exists may explain the same wait. Then the
fix comes first, if it surely saves half of the time that the rewriting surely saves. Times are
compared, not speed-ups: of a step that waits nearly always, 3 times as fast saves 67 % and 5 times
80 %.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gapless.model.change import Bucket, Change, Drop, HostChange, LoaderChange
from gapless.model.evidence import Evidence
from gapless.model.finding import Finding
from gapless.pricing.worth_trying import remedies_of, saved_share, value_of

_MIN_FIX_SHARE: Final = 0.5  # of the time that the rewriting saves
_WAITS: Final = ("idle.", "comm.")


def order_findings(findings: Iterable[Finding], evidence: Evidence) -> tuple[Finding, ...]:
    """Return causes, the most valuable first."""
    ranked_findings = sorted(findings, key=_sort_key)
    fixable = [
        finding
        for finding in ranked_findings
        if any(remedies_of(evidence, finding.detection.helps))
    ]
    final_order: list[Finding] = []
    for finding in ranked_findings:
        if finding not in fixable:
            final_order += [
                candidate
                for candidate in fixable
                if candidate not in final_order and _comes_before(candidate, finding)
            ]
        if finding not in final_order:
            final_order.append(finding)
    by_hand = _find_exchange_by_hand(final_order)
    return tuple(sorted(final_order, key=lambda finding: finding is not by_hand))


def _find_exchange_by_hand(findings: Sequence[Finding]) -> Finding | None:
    """Return the exchange by hand, if no other cause gives as much as is at stake there.

    It has no price, since what overlapping gives is not foretold: what the account charges to it
    orders it.
    """
    return next(
        (
            finding
            for finding in findings
            if any(isinstance(change, Bucket) for change in finding.detection.changes)
            and not finding.detection.helps
            and _stake_of(finding) >= max(map(_stake_of, findings))
        ),
        None,
    )


def _stake_of(finding: Finding) -> float:
    """Return the middle of the speed-up by a cause, or of the most that it can be."""
    estimate = finding.prediction.speedup or finding.prediction.at_most
    return max(value_of(finding), estimate.mid if estimate else 0.0)


def _sort_key(finding: Finding) -> tuple[float, float, str]:
    speedup = finding.prediction.speedup
    max_speedup = finding.prediction.at_most
    estimate = speedup or max_speedup
    return (
        -value_of(finding),
        -(0.0 if estimate is None else estimate.mid),
        finding.detection.code,
    )


def _comes_before(fixable: Finding, unfixable: Finding) -> bool:
    """Return whether a cause with a fix comes before one without any."""
    is_enough = saved_share(fixable) >= _MIN_FIX_SHARE * saved_share(unfixable)
    return is_enough and bool(
        set(_waits_about(fixable.detection.changes))
        & set(_waits_about(unfixable.detection.changes))
    )


def _waits_about(changes: Iterable[Change]) -> Iterator[object]:
    """Return the waits that changes concern: loaders by number, leaves by name.

    Two causes in computing share a leaf, but no wait: each computes something else.
    """
    for change in changes:
        match change:
            case LoaderChange(loader=loader):
                yield loader
            case Bucket():
                yield "comm.exposed"
            case Drop(leaves=leaves) | HostChange(leaves=leaves):
                yield from (leaf for leaf in leaves if leaf.startswith(_WAITS))
            case _:
                pass
