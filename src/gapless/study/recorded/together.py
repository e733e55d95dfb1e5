"""Windows of the same steps on different ranks: over these, collectives are matched."""

from collections.abc import Iterator, Mapping, Sequence

from gapless.model.recording import Window
from gapless.study.part import Part
from gapless.study.ranks import Place

Ranked = tuple[str, int | None, Window]  # a file, whose it is, its window


def places(windows: Sequence[Ranked]) -> dict[str, Place]:
    """Tell which windows belong together: one a rank, of common steps at the same time.

    Ranks may differ in how many steps they recorded. A rank that was started again counts its
    steps anew: therefore the time.
    """
    groups: list[dict[int, Window]] = []
    found: dict[str, Place] = {}
    for path, rank, window in sorted(windows, key=lambda one: (one[2].start, one[0])):
        if rank is None:
            continue
        at = next(
            (at for at, group in enumerate(groups) if _belongs(window, rank, group)), len(groups)
        )
        groups[at:] = groups[at:] or [{}]
        groups[at][rank] = window
        found[path] = Place(at, window.first_step)
    return found


def _belongs(window: Window, rank: int, group: Mapping[int, Window]) -> bool:
    return rank not in group and all(
        max(one.first_step, window.first_step) <= min(one.last_step, window.last_step)
        and max(one.start, window.start) < min(one.end, window.end)
        for one in group.values()
    )


def alone(
    windows: Sequence[Ranked], placed: Mapping[str, Place], parts: Mapping[str, Part]
) -> Iterator[str]:
    """Say where ranks communicate, and some of them have no window of the same steps."""
    have = {rank for _, rank, _ in windows if rank is not None}
    groups: dict[int, list[Ranked]] = {}
    for one in windows:
        if one[0] in placed and one[0] in parts:
            groups.setdefault(placed[one[0]].together, []).append(one)
    for mine in groups.values():
        lacking = sorted(have - {rank for _, rank, _ in mine if rank is not None})
        leaves = [leaf for path, _, _ in mine for leaf in parts[path].account.leaves]
        if lacking and any(leaf.startswith("comm.") for leaf in leaves):
            first = max(one.first_step for _, _, one in mine)
            last = min(one.last_step for _, _, one in mine)
            which = ", ".join(map(str, lacking))
            yield (
                f"steps {first} to {last}: no window of rank {which}, so that whom the others "
                "waited for there is not known"
            )
