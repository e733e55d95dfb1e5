"""How samples become medians and ratios."""

from benchmarks.summary import Sample, document, tables
from benchmarks.watch import CommandRun


def sample(subject: str, number: int, wall: float, code: int = 0) -> Sample:
    return Sample("big", subject, f"run {subject}", number, CommandRun(wall, wall, 100, 200, code))


def test_takes_ratios_within_a_round() -> None:
    summary = document(
        [
            sample("gapless", 0, 1.0),
            sample("HTA", 0, 10.0),
            sample("gapless", 1, 4.0),
            sample("HTA", 1, 60.0),
        ]
    )
    _, peer = summary["summary"]
    assert peer["times_gapless"]["wall_s"] == {"median": 12.5, "min": 10.0, "max": 15.0}


def test_leaves_failed_runs_out_and_counts_them() -> None:
    summary = document([sample("gapless", 0, 1.0), sample("HTA", 0, 0.1, code=1)])
    peer = summary["summary"][1]
    assert peer["failed"] == 1
    assert peer["wall_s"] is None
    assert peer["times_gapless"]["wall_s"] is None
    assert "| big | HTA | 1 (1 failed) | – | – | – | – |" in tables(summary)


def test_peak_is_the_larger_of_samples_and_high_mark() -> None:
    assert document([sample("gapless", 0, 1.0)])["samples"][0]["peak_bytes"] == 200
