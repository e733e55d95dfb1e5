"""The makers in tools/ and what they made."""

import json
from pathlib import Path
from typing import Any

from gapless.model.edit import Applicability, Location, SetArgument
from gapless.model.trial import Arm, Side, Trial, TrialVerdict
from gapless.store.run import trials
from tools import costs, cover, trial


def test_a_kept_trial_names_no_folder_of_its_machine() -> None:
    arm = Arm("A", 0, "/tmp/x/arms/1", 0, 9, 1, None, None, None, None, None)  # noqa: S108
    edit = SetArgument("torch.optim.SGD", "fused", value=True, where=Location("/tmp/x/train.py", 3))  # noqa: S108
    side = Side("B", ("f",), "", (edit,), Applicability.IDENTICAL, TrialVerdict.NOTHING, None, None)
    command = ("/opt/venv/bin/python", "train.py", "--n", "3")
    folder = "/tmp/x"  # noqa: S108
    kept_trial = Trial("01", command, folder, (arm,), "A", (side,), None, None, None, "warm", 1.0)
    stripped = trial.strip_machine(kept_trial)
    assert stripped.command == ("python", "train.py", "--n", "3")
    assert "/" not in json.dumps(trials.trial_object(stripped)["trial"])


def test_shortfalls_name_lines_and_branches_of_the_demanded_rooms_only() -> None:
    def file(lines: list[int], branches: list[list[int]]) -> dict[str, Any]:
        return {"missing_lines": lines, "missing_branches": branches}

    report = {
        "files": {
            "src/gapless/model/leaf.py": file([], []),
            "src/gapless/capture/view.py": file([3, 4], [[7, 9]]),
            "src/gapless/capture/ranks/summary.py": file([], [[1, -1]]),
            "src/gapless/report/text/console.py": file([5], []),
            "src/gapless/cli.py": file([5], []),
        }
    }
    assert cover.shortfalls(report) == [
        "src/gapless/capture/ranks/summary.py: lines all run; branches 1→-1",
        "src/gapless/capture/view.py: lines 3, 4; branches 7→9",
    ]


def test_costs_are_medians_by_input_and_reader(tmp_path: Path) -> None:
    def row(
        input_name: str, subject: str, wall: float | None, peak: float | None
    ) -> dict[str, Any]:
        return {
            "what": input_name,
            "subject": subject,
            "wall_s": None if wall is None else {"median": wall},
            "peak_bytes": None if peak is None else {"median": peak},
        }

    rich = "rich-1000.json.gz"
    rows = [
        row(rich, "gapless", 7.84, 6.4e8),
        row(rich, "HTA", None, None),
        row(rich, "json.load", 33.0, None),
        row(f"{rich} through the cache", "gapless, again", 0.31, 1.2e8),
        row("rich-250.json.gz", "gapless", 2.0, 5e8),
    ]
    result = tmp_path / "reading.json"
    about = {"machine": {"cores": 2, "processor": "EPYC"}, "date": "2026-11-21", "summary": rows}
    result.write_text(json.dumps(about))
    assert costs.reading_table(result).splitlines()[2:] == [
        "| 1 GB with stacks, shapes and memory events | `gapless open` | 7.8 | 0.64 |",
        "|  | again, from the cache | 0.3 | 0.12 |",
        "|  | Python's `json.load` alone | 33.0 | – |",
        "",
        "Medians, 2 cores of an EPYC, 2026-11-21: [benchmarks/reading.py](benchmarks/reading.py).",
    ]


def test_costs_that_were_not_measured_are_not_claimed(tmp_path: Path) -> None:
    assert "not been measured" in costs.reading_table(tmp_path / "none.json")
