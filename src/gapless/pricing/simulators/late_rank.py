"""What makes the late rank late: its own cause takes the place of "this rank is late".

The rules look at what all ranks have in common, since the excess of one is that one's. Where a rank
makes the others wait, they are asked again about its steps alone: a cause that explains its excess
is named with its own code, line and fixes, and priced as evening out that rank.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from gapless.catalogue.declare.rule import Rule
from gapless.catalogue.queries.ranks.rank_steps import Rank
from gapless.catalogue.queries.ranks.rank_waits import find_ranks
from gapless.catalogue.rules.ranks.straggling_rank import (
    LEAVES_BY_ACTIVITY,
    largest_excess,
    straggling_rank,
)
from gapless.model.change import Change, Drop, HostChange, LoaderChange, Scale
from gapless.model.edit import Location
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection
from gapless.pricing.simulators.isolated_rank import isolate_rank

_DATA: Final = "idle.data"
_MIN_OWN_SHARE: Final = 0.5  # of what a cause takes on the late rank: else all ranks have it
_MAX_LINE_DISTANCE: Final = 3


def name_late_rank(
    evidence: Evidence, detections: Sequence[Detection], rules: Sequence[Rule]
) -> list[Detection]:
    """Return the detections; that a rank is late is replaced by what makes it late, if known."""
    late = next(
        (detection for detection in detections if detection.code == straggling_rank.code), None
    )
    if late is None:
        return list(detections)
    ranks = find_ranks(evidence)
    straggler = next(rank for rank in ranks if rank.rank == late.rank)
    activity = largest_excess(ranks, straggler)
    causes = _own_causes(isolate_rank(evidence, straggler), rules)
    cause = _find_cause(causes, LEAVES_BY_ACTIVITY[activity], late.location)
    if cause is None or _own_share(ranks, straggler, activity) < _MIN_OWN_SHARE:
        return list(detections)
    return [
        _join(late, cause) if detection is late else detection
        for detection in detections
        if (detection.code, detection.location) != (cause.code, cause.location)
    ]


def _own_causes(evidence: Evidence, rules: Iterable[Rule]) -> list[Detection]:
    """Return what the rules say of one rank's steps alone."""
    return [
        statement
        for rule in rules
        if rule.code != straggling_rank.code
        for statement in rule(evidence)
        if isinstance(statement, Detection)
    ]


def _find_cause(
    causes: Sequence[Detection], leaves: tuple[str, ...], line: Location | None
) -> Detection | None:
    """Return the cause of a rank's excess: at the line that it is sampled at more, or of a fix."""
    matching = [
        cause
        for cause in causes
        if _is_at(cause.location, line) or _concerns(cause.changes, leaves)
    ]

    def order(cause: Detection) -> tuple[bool, bool, bool]:
        return (not _is_at(cause.location, line), cause.to_try, not cause.helps)

    return min(matching, key=order, default=None)


def _concerns(changes: Sequence[Change], leaves: tuple[str, ...]) -> bool:
    """Return whether changes are about some leaves, and about nothing else."""
    return bool(changes) and all(
        (isinstance(change, LoaderChange) and _DATA in leaves)
        or (
            isinstance(change, Drop | HostChange | Scale)
            and bool(change.leaves)
            and all(leaf.startswith(leaves) for leaf in change.leaves)
        )
        for change in changes
    )


def _is_at(location: Location | None, line: Location | None) -> bool:
    return (
        location is not None
        and line is not None
        and location.file == line.file
        and abs(location.line - line.line) <= _MAX_LINE_DISTANCE
    )


def _own_share(ranks: Sequence[Rank], straggler: Rank, activity: str) -> float:
    """Return the share of an activity on the late rank that the others have not."""
    leaves = LEAVES_BY_ACTIVITY[activity]
    others_ns = [rank.mean(*leaves) for rank in ranks if rank.rank != straggler.rank]
    own_ns = straggler.mean(*leaves)
    return 1 - sum(others_ns) / len(others_ns) / own_ns if own_ns else 0.0


def _join(late: Detection, cause: Detection) -> Detection:
    """Return the cause of a late rank, with what the others wait, and evening it out as price."""
    return replace(
        cause,
        summary=f"{late.summary} {cause.summary}",
        changes=late.changes,
        location=late.location or cause.location,
        measures=(*late.measures, *cause.measures),
        no_remedy=cause.no_remedy or late.no_remedy,
        to_try=False,
        unless=None,
        rank=late.rank,
    )
