"""Windows of the same steps on different ranks, over which collectives are matched."""

from collections.abc import Iterator, Mapping, Sequence

from gapless.capture.ranks.ranks import WindowPosition
from gapless.capture.ranks.summary import CaptureSummary
from gapless.model.recording import Window

RankedWindow = tuple[str, int | None, Window]  # a file, whose it is, its window


def group_windows(windows: Sequence[RankedWindow]) -> dict[str, WindowPosition]:
    """Return which windows belong together: one per rank, of common steps at the same time.

    Ranks may differ in how many steps they recorded. A rank that was restarted counts its steps
    from the beginning: therefore the time.
    """
    groups: list[dict[int, Window]] = []
    places: dict[str, WindowPosition] = {}
    for path, rank, window in sorted(windows, key=lambda ranked: (ranked[2].start, ranked[0])):
        if rank is None:
            continue
        index = next(
            (index for index, group in enumerate(groups) if _is_member(window, rank, group)),
            len(groups),
        )
        groups[index:] = groups[index:] or [{}]
        groups[index][rank] = window
        places[path] = WindowPosition(index, window.first_step)
    return places


def _is_member(window: Window, rank: int, group: Mapping[int, Window]) -> bool:
    return rank not in group and all(
        max(member.first_step, window.first_step) <= min(member.last_step, window.last_step)
        and max(member.start, window.start) < min(member.end, window.end)
        for member in group.values()
    )


def lacking_rank_notes(
    windows: Sequence[RankedWindow],
    places: Mapping[str, WindowPosition],
    summaries: Mapping[str, CaptureSummary],
) -> Iterator[str]:
    """Describe where ranks communicate, and some of them have no window of the same steps."""
    ranks = {rank for _, rank, _ in windows if rank is not None}
    groups: dict[int, list[RankedWindow]] = {}
    for ranked in windows:
        if ranked[0] in places and ranked[0] in summaries:
            groups.setdefault(places[ranked[0]].group, []).append(ranked)
    for group in groups.values():
        lacking = sorted(ranks - {rank for _, rank, _ in group if rank is not None})
        leaves = [leaf for path, _, _ in group for leaf in summaries[path].account.leaves]
        if lacking and any(leaf.startswith("comm.") for leaf in leaves):
            first_step = max(window.first_step for _, _, window in group)
            last_step = min(window.last_step for _, _, window in group)
            rank_names = ", ".join(map(str, lacking))
            yield (
                f"steps {first_step} to {last_step}: no window of rank {rank_names}, so that it is "
                "not known which rank the others waited for"
            )
