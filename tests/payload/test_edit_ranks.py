"""Edits of trainings on several processes: the same training, with fewer or other messages."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gapless.model.edit import Edit, SetArgument, Wrap, edit_to_json

DDP = "torch.nn.parallel.DistributedDataParallel"
SCRIPT = Path(__file__).with_name("train_on_two_ranks.py")
DEFAULTS = {
    "bucket_cap_mb": 25,
    "static_graph": False,
    "gradient_as_bucket_view": False,
    "find_unused_parameters": False,
    "broadcast_buffers": True,
}
EDITED_OPTIONS: dict[str, bool | int] = {
    "bucket_cap_mb": 100,
    "static_graph": True,
    "gradient_as_bucket_view": True,
    "find_unused_parameters": True,
    "broadcast_buffers": False,
}
SIDES: dict[str, list[Edit]] = {
    "plain": [],
    "no-sync": [Wrap(DDP, "no-sync", {"every": 4})],
    "arguments": [SetArgument(DDP, name, value) for name, value in EDITED_OPTIONS.items()],
    "both": [SetArgument(DDP, "static_graph", value=True), Wrap(DDP, "no-sync", {"every": 4})],
    "bf16": [Wrap(DDP, "bf16-hook", {})],
    "after": [],
}

RankResult = dict[str, Any]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[RankResult]:
    """Return what each of two ranks found, side by side."""
    out = tmp_path_factory.mktemp("ranks") / "out"
    sides = {
        name: ([edit_to_json(edit) for edit in edits], 3 if name in {"plain", "no-sync"} else 1)
        for name, edits in SIDES.items()
    }
    command = [sys.executable, "-W", "ignore", str(SCRIPT), json.dumps(sides), str(out)]
    subprocess.run(command, check=True, timeout=240)
    return [json.loads(Path(f"{out}.{rank}.json").read_text()) for rank in range(2)]


def close_to(expected: Any) -> Any:  # noqa: ANN401 - pytest's
    return pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("side", ["no-sync", "arguments", "after"])
def test_the_training_is_the_same(ranks: list[RankResult], side: str) -> None:
    for rank in ranks:
        for plain, edited in zip(rank["plain"]["ways"], rank[side]["ways"], strict=False):
            assert edited["losses"] == close_to(plain["losses"])
            for edited_weights, plain_weights in zip(
                edited["weights"], plain["weights"], strict=True
            ):
                assert edited_weights == close_to(plain_weights)
        assert rank[side]["unseen"] == []
    first_weights, second_weights = (
        [way["weights"] for way in rank[side]["ways"]] for rank in ranks
    )
    assert first_weights == second_weights


def test_gradients_are_averaged_once_a_step(ranks: list[RankResult]) -> None:
    for rank in ranks:
        # 16 micro-batches. Edited: once in each of the three whole steps, and the others before
        # they are used.
        assert rank["plain"]["reduced"] == [16, 16, 16]
        assert rank["no-sync"]["reduced"] == [3, 3, 3]
        assert [fact["times"] for fact in rank["no-sync"]["told"]] == [3 * 13]
        assert rank["after"]["reduced"] == [16]


def test_arguments_of_ddp_are_ours(ranks: list[RankResult]) -> None:
    for rank in ranks:
        assert rank["plain"]["ways"][0]["facts"] == DEFAULTS
        assert rank["arguments"]["ways"][0]["facts"] == EDITED_OPTIONS
        assert rank["after"]["ways"][0]["facts"] == DEFAULTS
        assert [fact["times"] for fact in rank["arguments"]["told"]] == [1] * 5


def test_a_static_graph_is_averaged_each_time_and_that_is_told(ranks: list[RankResult]) -> None:
    for rank in ranks:
        assert rank["both"]["told"][1]["times"] == 0
        assert "static_graph" in rank["both"]["unseen"][0]


def test_a_hook_that_gloo_cannot_serve_changes_nothing(ranks: list[RankResult]) -> None:
    for rank in ranks:
        assert rank["bf16"]["told"][0]["times"] == 0
        assert "NCCL" in rank["bf16"]["unseen"][0]
        assert rank["bf16"]["ways"][0]["losses"] == close_to(rank["plain"]["ways"][0]["losses"])
