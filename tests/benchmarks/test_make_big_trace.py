"""What a grown trace keeps of its base, and what it moves."""

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks import make_big_trace as maker
from tests.traces import TRACES

PLAIN, RICH = TRACES["two_ranks.rank1"], TRACES["loader_workers"]
Document = dict[str, Any]


def grow_document(base: Path, out: Path, growth: maker.Growth, rank: int = 0) -> Document:
    maker.make_traces(base, [(out, rank)], growth)
    return json.loads(maker.read_text(out))


def spans(document: Document) -> list[Document]:
    events = document["traceEvents"]
    return [event for event in events if event["ph"] == "X" and event.get("cat") != "Trace"]


@pytest.mark.parametrize(("base", "rich"), [(PLAIN, False), (RICH, True)])
def test_repeats_every_event_and_moves_only_times_and_ids(
    tmp_path: Path, base: Path, rich: bool
) -> None:
    original = json.loads(gzip.decompress(base.read_bytes()))
    before = spans(original)
    size = 2 * len(gzip.decompress(base.read_bytes())) / 1e6
    after = spans(grow_document(base, tmp_path / "big.json.gz", maker.Growth(size, rich=rich)))
    copies = len(after) // len(before)
    assert copies >= 2
    assert len(after) == copies * len(before)
    for copy in range(copies):
        copied = after[copy * len(before) : (copy + 1) * len(before)]
        moves = {round(b["ts"] - a["ts"], 3) for a, b in zip(before, copied, strict=True)}
        assert len(moves) == 1
        assert [event["dur"] for event in copied] == [event["dur"] for event in before]
        assert [event["tid"] for event in copied] == [event["tid"] for event in before]


def test_joins_nothing_across_copies(tmp_path: Path) -> None:
    after = spans(grow_document(PLAIN, tmp_path / "big.json", maker.Growth(6)))
    before = spans(json.loads(gzip.decompress(PLAIN.read_bytes())))
    copies = len(after) // len(before)

    def kernels(events: list[Document]) -> Counter[int]:
        correlations = (
            event["args"]["correlation"] for event in events if event.get("cat") == "kernel"
        )
        return Counter(correlations)

    assert sorted(kernels(after).values()) == sorted(copies * list(kernels(before).values()))
    steps = [event["name"] for event in after if event.get("cat") == "user_annotation"]
    numbered = [name for name in steps if name.startswith("ProfilerStep#")]
    assert len(numbered) == len(set(numbered)) == copies * 8


def test_says_which_rank_it_is_and_ends_after_its_last_event(tmp_path: Path) -> None:
    document = grow_document(PLAIN, tmp_path / "big.json", maker.Growth(6, world=4), rank=3)
    assert document["distributedInfo"]["rank"] == 3
    assert document["distributedInfo"]["world_size"] == 4
    events = document["traceEvents"]
    ends = [event["ts"] for event in events if event["name"] == "Record Window End"]
    assert len(ends) == 1
    assert ends[0] >= max(event["ts"] for event in spans(document))
    assert sum(event["name"] == "process_name" for event in events) == sum(
        event["name"] == "process_name"
        for event in json.loads(gzip.decompress(PLAIN.read_bytes()))["traceEvents"]
    )
