"""Process groups joined one by one, on whatever worker, are what all ranks joined at once are."""

import numpy as np

from gapless.accounting import Collectives, join_arrivals, match_collectives
from gapless.accounting.ranks.collectives import Arrivals
from gapless.capture.ranks.codec import decode, encode
from gapless.capture.ranks.ranks import plan_joins
from gapless.capture.ranks.tasks import Head, perform_task, split_collectives
from gapless.model.trace import Collective

WORLD, COUNT = 6, 40


def draw_rank(rank: int) -> Collectives:
    """Return collectives of all ranks and, in turns, of this one and its neighbour."""
    random = np.random.default_rng(rank)
    pair = f"[{rank // 2 * 2}, {rank // 2 * 2 + 1}]"
    calls = tuple(
        Collective("allreduce", "Float", 8, 8, "pair", 2, pair, seq)
        if seq % 2
        else Collective("allgather", "Half", 8, 8, "world", WORLD, None, seq)
        for seq in range(COUNT)
    )
    end = np.arange(1, COUNT + 1) * 1_000_000 + rank * 10**9
    start = end - random.integers(10_000, 900_000, COUNT)
    return Collectives(rank, rank, np.arange(COUNT) + rank, start, end, calls, np.full(COUNT, -1))


def test_groups_joined_apart_give_what_all_ranks_at_once_give() -> None:
    captures = [draw_rank(rank) for rank in range(WORLD)]
    heads: dict[str, Head] = {}
    blobs: dict[str, bytes] = {}
    for capture in captures:
        path = f"rank{capture.rank}.json"
        groups, blobs[path] = split_collectives(capture)
        heads[path] = Head("key", capture.rank, capture.origin_ns, groups)
    pieces: dict[str, list[Arrivals]] = {path: [] for path in heads}
    joins = plan_joins(heads, {path: path for path in heads}, {})
    for task, paths in joins.items():
        _, answers = perform_task(task, [blobs[name] for name in task.needs])
        for path, answer in zip(paths, answers, strict=True):
            pieces[path].append(decode(answer, Arrivals))
    assert len(joins) == 1 + WORLD // 2
    apart = [encode(join_arrivals(pieces[path])) for path in heads]
    assert apart == [encode(arrivals) for arrivals in match_collectives(captures)]
    assert all(decode(data, Arrivals).n_matched == COUNT for data in apart)
