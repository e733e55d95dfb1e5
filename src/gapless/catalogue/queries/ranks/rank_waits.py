"""What each rank of a run does in a step by itself, and how long ranks wait for one another.

A step that ranks make together is as long as its slowest rank makes it. What a rank does by itself
is its step without its waits for the last rank in collectives: only these would be shorter if the
last rank came earlier.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from gapless.catalogue.queries import samples
from gapless.catalogue.queries.ranks import rank_marks
from gapless.catalogue.queries.ranks.rank_steps import Rank
from gapless.model.account import RowAccount
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence, NotObservedError
from gapless.model.host_code import HotLine


def find_ranks(evidence: Evidence) -> tuple[Rank, ...]:
    """Return the ranks with steps in windows, in order; none for a run of one rank.

    In steps that no window shows on all ranks, it is not known for whom others waited: they are
    left out if there are other steps. Where light marks show other waits for data, or other rare
    work, than the few steps of windows, these have what the marks show (``rank_marks``).
    """
    rows_by_rank: dict[int, list[RowAccount]] = {}
    for row in evidence.study.account.rows if evidence.study.account.steps else ():
        if row.row.rank is not None:
            rows_by_rank.setdefault(row.row.rank, []).append(row)
    ranks = tuple(Rank(rank, tuple(rank_rows)) for rank, rank_rows in sorted(rows_by_rank.items()))
    return rank_marks.play_marks(_keep_common_steps(ranks), evidence) if len(ranks) > 1 else ()


def _keep_common_steps(ranks: tuple[Rank, ...]) -> tuple[Rank, ...]:
    """Return the steps that all ranks made together, in order of time; all if there are none."""
    steps_by_rank = [_locate_steps(rank.rows) for rank in ranks]
    matches = [
        [_find_same_step(step, steps) for steps in steps_by_rank] for step in steps_by_rank[0]
    ]
    common_rows = [[step.row for step in match if step] for match in matches if all(match)]
    if not common_rows:
        return ranks
    return tuple(
        Rank(rank.rank, rank_rows)
        for rank, rank_rows in zip(ranks, zip(*common_rows, strict=True), strict=True)
    )


class _WindowStep(Struct, frozen=True):
    """A step, with the start and end of its window."""

    row: RowAccount
    window_start: int
    window_end: int


def _locate_steps(rows: Sequence[RowAccount]) -> list[_WindowStep]:
    """Return steps in order of time, each with its window: numbers rise within one."""
    windows: list[list[RowAccount]] = []
    for row in sorted(rows, key=lambda candidate: candidate.row.start):
        if not windows or (row.row.step or 0) <= (windows[-1][-1].row.step or 0):
            windows.append([])
        windows[-1].append(row)
    return [
        _WindowStep(row, window[0].row.start, window[-1].row.end)
        for window in windows
        for row in window
    ]


def _find_same_step(step: _WindowStep, candidates: Sequence[_WindowStep]) -> _WindowStep | None:
    """Return the step of another rank that was made together with this one.

    It has the same number, in a window of the same time: steps of ranks may begin half a step
    apart, so their own times do not decide.
    """
    return next(
        (
            candidate
            for candidate in candidates
            if candidate.row.row.step == step.row.row.step
            and max(candidate.window_start, step.window_start)
            < min(candidate.window_end, step.window_end)
        ),
        None,
    )


def require_ranks(evidence: Evidence) -> tuple[Rank, ...]:
    """Return the ranks of a run of several; none for a run of one.

    Raises ``NotObservedError`` if windows show only one of them.
    """
    ranks = find_ranks(evidence)
    n_ranks = evidence.facts.world.ranks
    if not ranks and n_ranks > 1:
        raise NotObservedError("windows", f"of {n_ranks} ranks windows tell of no more than one")
    return ranks


def min_rank_ns(evidence: Evidence, *prefixes: str) -> float:
    """Return the minimum over the ranks of some leaves, in ns of a step.

    An excess of one rank over all others belongs to that rank, not to the training. For a run of
    one rank it is the mean of its steps.
    """
    mean_ns, ranks = evidence.per_step(*prefixes), find_ranks(evidence)
    rank_means = [rank.mean(*prefixes) for rank in ranks]
    total_ns = sum(rank_means)
    return mean_ns * min(rank_means) * len(rank_means) / total_ns if total_ns else mean_ns


def find_slowest_rank(ranks: tuple[Rank, ...]) -> tuple[Rank, float]:
    """Return the rank whose steps take longest by themselves, and by how much, in ns of a step.

    The excess is over the next slowest, which would decide if the slowest were as fast.
    """
    means = {rank.rank: float(rank.own_lengths.mean()) for rank in ranks}
    slowest = max(ranks, key=lambda rank: means[rank.rank])
    return slowest, means[slowest.rank] - max(
        ns for rank, ns in means.items() if rank != slowest.rank
    )


def mean_straggler_wait(ranks: tuple[Rank, ...], slowest: Rank) -> float:
    """Return the mean time that the others wait in a step for a known last rank, in ns."""
    waits_ns = [float(rank.straggler_waits.mean()) for rank in ranks if rank is not slowest]
    return sum(waits_ns) / len(waits_ns) if waits_ns else 0.0


def known_excess_share(evidence: Evidence) -> float:
    """Return the share of a step that the slowest rank is known to do more, as a mean of ranks.

    By marks and samples of all steps: in the few of a window the others may wait less for it.
    Samples count without a device only: for one a host may wait there.
    """
    ranks = find_ranks(evidence)
    if not evidence.step_ns or not ranks:
        return 0.0
    slowest, _ = find_slowest_rank(ranks)
    share = 0.0 if evidence.on_device else find_own_share(evidence, slowest.rank).mid
    if any(rank.played for rank in ranks):
        others_ns = [rank_marks.marked_mean(rank) for rank in ranks if rank is not slowest]
        excess_ns = rank_marks.marked_mean(slowest) - sum(others_ns) / len(others_ns)
        share = max(share, excess_ns / evidence.step_ns)
    return share / len(ranks)


def find_surpluses(
    ranks: tuple[Rank, ...], rank: Rank, groups: Mapping[str, tuple[str, ...]]
) -> list[tuple[str, float]]:
    """Return the groups of leaves of which a rank has more than the others on average.

    With the excess in ns of a step, the largest first.
    """
    other_ranks = [peer for peer in ranks if peer.rank != rank.rank]
    surpluses: list[tuple[str, float]] = []
    for name, leaves in groups.items():
        other_mean = sum(peer.mean(*leaves) for peer in other_ranks) / len(other_ranks)
        surpluses.append((name, rank.mean(*leaves) - other_mean))
    return sorted(surpluses, key=lambda pair: -pair[1])


def find_surplus_line(evidence: Evidence, rank: int) -> HotLine | None:
    """Return the line at which a rank's training thread is sampled more often than the others'.

    By its share of sampled stacks; ``None`` if none was sampled, or all are alike.
    """
    lines_by_rank = evidence.recorded.rank_lines
    other_ranks = [peer for peer in lines_by_rank if peer != rank]
    if rank not in lines_by_rank or not other_ranks:
        return None

    def surplus(line: HotLine) -> float:
        other_share = sum(_line_share(lines_by_rank[peer], line) for peer in other_ranks)
        return line.share - other_share / len(other_ranks)

    rank_lines = [line for line in lines_by_rank[rank] if line.thread == "training"]
    top_line = max(rank_lines, key=surplus, default=None)
    return None if top_line is None or surplus(top_line) < _MIN_SURPLUS else top_line


def is_surplus_sampled(evidence: Evidence, rank: int) -> bool:
    """Return whether samples of the whole run, not chance, show a rank at a line of its own."""
    line, lines_by_rank = find_surplus_line(evidence, rank), evidence.recorded.rank_lines
    if line is None or not line.share:
        return False
    other_share = max(
        _line_share(lines, line) for peer, lines in lines_by_rank.items() if peer != rank
    )
    mean_share, n_samples = (line.share + other_share) / 2, line.count / line.share
    error = (2 * mean_share * (1 - mean_share) / n_samples) ** 0.5
    return line.share - other_share >= _MIN_STANDARD_ERRORS * error > 0


def work_ratio(evidence: Evidence, rank: int) -> float:
    """Return how many times as much as any other a rank computes, by its operators' inputs.

    1 where it does not, where that is not known of all ranks, or where their steps differ: few
    steps of windows then tell nothing of all others.
    """
    works = {work.rank: work for work in evidence.study.rank_work}
    own_work = works.pop(rank, None)
    if (
        own_work is None
        or len(works) < max(1, evidence.facts.world.ranks - 1)
        or not all(work.is_steady for work in (own_work, *works.values()))
    ):
        return 1.0
    most_of_others = max(work.flops for work in works.values())
    return max(1.0, own_work.flops / most_of_others) if most_of_others else 1.0


def find_own_share(evidence: Evidence, rank: int) -> Estimate:
    """Return the share of the run in functions of the training in which one rank alone stands."""
    shares: dict[tuple[str, str], dict[int, float]] = {}
    for number, lines in evidence.recorded.rank_lines.items():
        for line in lines:
            by_rank = shares.setdefault((line.file, line.function), {})
            if line.thread == "training":
                by_rank[number] = by_rank.get(number, 0.0) + line.share
    share = sum(
        by_rank.pop(rank, 0.0)
        for by_rank in shares.values()
        if max((peer_share for peer, peer_share in by_rank.items() if peer != rank), default=0.0)
        < _MAX_COMMON
    )
    lines = evidence.recorded.rank_lines.get(rank, ())
    looks = sum(line.count for line in lines if line.thread == "training")
    return samples.estimate_share(share, looks) if looks else Estimate(0.0, 0.0, 0.0)


_MAX_COMMON: Final = 0.02  # of another rank's samples, in functions that it has not
_MIN_SURPLUS: Final = 0.1  # of the samples
_MIN_STANDARD_ERRORS: Final = 2.6  # 99 %: the line is the largest surplus of several


def _line_share(lines: tuple[HotLine, ...], line: HotLine) -> float:
    line_key = (line.thread, line.file, line.line)
    return sum(
        candidate.share
        for candidate in lines
        if (candidate.thread, candidate.file, candidate.line) == line_key
    )


def waited_share(evidence: Evidence, leaves: tuple[str, ...]) -> float:
    """Return the share of the step that ranks wait for others, but for the one waited for."""
    ranks = find_ranks(evidence)
    if len(ranks) < 2:  # noqa: PLR2004 - no other rank
        return min(1.0, evidence.share(*leaves))
    total_ns = sum(float(rank.lengths.sum()) for rank in ranks)
    played_share = sum(float(rank.sums(leaves).sum()) for rank in ranks) / total_ns
    share = max(evidence.share(*leaves), played_share)
    return min(1.0, share * len(ranks) / (len(ranks) - 1))
