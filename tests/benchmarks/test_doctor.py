"""Measured figures beside the peaks of a card."""

from pathlib import Path

from benchmarks.doctor import describe_gpu, leave_out_names
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


def test_what_names_a_machine_is_left_out() -> None:
    told = {
        "checks": [
            {"evidence": "/opt/env/bin/python (--python), Python 3.12.1 on node-7"},
            {"evidence": "/srv/data is on ext4 /dev/vda; 5.4 GB/s; node-70", "remedy": None},
            {"evidence": "busy now: train.py (12) 34%", "remedy": "ps -o pid,args -p 12,4"},
            {"evidence": "Linux 6.1.0-ours-3; 20000 (20000 at most)"},
        ],
        "took_s": 3.5,
    }
    assert leave_out_names(told, "node-7", "6.1.0-ours-3") == {
        "checks": [
            {"evidence": "PATH (--python), Python 3.12.1 on HOST"},
            {"evidence": "PATH is on ext4 /dev/vda; 5.4 GB/s; node-70", "remedy": None},
            {"evidence": "busy now: PROCESS 34%", "remedy": "ps -o pid,args -p PIDS"},
            {"evidence": "Linux 6.1.0; 20000 (20000 at most)"},
        ],
        "took_s": 3.5,
    }
