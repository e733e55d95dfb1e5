"""Measured figures beside the peaks of a card."""

from pathlib import Path

from benchmarks.doctor import describe_gpu
from tests.doctor.drawing import SURVEY, draw, measured, survey

FIGURES = {"gemm.bf16": 680e12, "copy.h2d.pinned.bandwidth": 55e9, "launch.call": 2500.0}


def shares(tmp_path: Path, name: str) -> dict[str, float | None]:
    """Return the share of its peak that each figure reaches, on a card of that name."""
    (measurement,) = measured(FIGURES)
    card = describe_gpu(draw(tmp_path, survey=survey(name=name)), measurement)
    return {row["name"]: row["share"] for row in card["figures"]}


def test_each_figure_has_its_share_of_the_peak(tmp_path: Path) -> None:
    assert shares(tmp_path, SURVEY.gpus[0].name or "") == {
        "gemm.bf16": 0.687,
        "copy.h2d.pinned.bandwidth": 0.873,
        "launch.call": None,
    }


def test_of_a_card_that_is_not_listed_the_link_alone_is_known(tmp_path: Path) -> None:
    assert shares(tmp_path, "NVIDIA X1")["gemm.bf16"] is None
    assert shares(tmp_path, "NVIDIA X1")["copy.h2d.pinned.bandwidth"] == 0.873
