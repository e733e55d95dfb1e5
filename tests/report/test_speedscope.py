"""Calls for speedscope: the fields that its schema asks for, times that sum to what was seen."""

import json
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
from msgspec.structs import replace

from gapless.cli import main
from gapless.report.documents.speedscope import speedscope_json
from tests.page.called import called_tree

DATA: Final = Path(__file__).parents[1] / "data"
NUMBERS: Final = {"type": "array", "items": {"type": "number"}}
PROFILE: Final = {
    "type": "object",
    "required": ["type", "name", "unit", "startValue", "endValue", "samples", "weights"],
    "properties": {
        "type": {"const": "sampled"},
        "name": {"type": "string"},
        "unit": {"const": "nanoseconds"},
        "startValue": {"type": "number"},
        "endValue": {"type": "number"},
        "samples": {"type": "array", "items": NUMBERS},
        "weights": NUMBERS,
    },
}
FRAME: Final = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string"},
        "file": {"type": "string"},
        "line": {"type": "number"},
    },
}
# What https://www.speedscope.app/file-format-schema.json asks for of sampled profiles.
SCHEMA: Final = {
    "type": "object",
    "required": ["$schema", "profiles", "shared"],
    "properties": {
        "$schema": {"const": "https://www.speedscope.app/file-format-schema.json"},
        "profiles": {"type": "array", "minItems": 1, "items": PROFILE},
        "shared": {
            "type": "object",
            "required": ["frames"],
            "properties": {"frames": {"type": "array", "items": FRAME}},
        },
        "name": {"type": "string"},
        "exporter": {"type": "string"},
        "activeProfileIndex": {"type": "number"},
    },
}


@pytest.fixture
def document() -> dict[str, Any]:
    trees = [replace(called_tree(), rare_ns=30, rare_looks=2), called_tree("workers")]
    return json.loads(speedscope_json(trees, "python train.py"))


def test_it_has_the_fields_of_the_published_schema(document: dict[str, Any]) -> None:
    jsonschema.validate(document, SCHEMA)
    n_frames = len(document["shared"]["frames"])
    for profile in document["profiles"]:
        assert len(profile["samples"]) == len(profile["weights"])
        assert all(0 <= frame < n_frames for sample in profile["samples"] for frame in sample)


def test_times_sum_to_what_was_seen_and_chains_begin_with_the_script(
    document: dict[str, Any],
) -> None:
    main_thread, workers = document["profiles"]
    assert [main_thread["name"], workers["name"]] == ["main thread", "workers"]
    assert (sum(main_thread["weights"]), main_thread["endValue"]) == (1_030, 1_030)
    names = [frame["name"] for frame in document["shared"]["frames"]]
    times = {
        tuple(names[frame] for frame in sample): weight
        for sample, weight in zip(main_thread["samples"], main_thread["weights"], strict=True)
    }
    assert times["train.py", "import torch"] == 150
    assert times["train.py", "main"] == 100
    assert times["stacks too rare to be kept",] == 30
    main_frame = document["shared"]["frames"][names.index("main")]
    assert main_frame == {"name": "main", "file": "/code/train.py", "line": 12}


def test_a_trace_has_no_calls_to_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, file = str(DATA / "loader_workers.json.gz"), tmp_path / "it.json"
    assert main(["open", trace, "--no-cache", "--speedscope", str(file)]) == 2
    assert "there are no calls to write" in capsys.readouterr().err
    assert not file.exists()


def test_exports_are_written_one_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    trace = str(DATA / "loader_workers.json.gz")
    assert main(["open", trace, "--perfetto", "a.json", "--speedscope", "b.json"]) == 2
    assert "leave out the other form" in capsys.readouterr().err
