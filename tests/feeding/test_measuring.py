"""From rounds to costs; whole measurements of small trainings."""

import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from gapless.catalogue.examples import example_facts
from gapless.catalogue.examples.evidence import evidence_of
from gapless.errors import GaplessError
from gapless.feeding import arm, measuring, outlook
from gapless.feeding.estimates import estimate_speedup, estimate_time
from gapless.model.change import Change, CopyChange, Prediction
from gapless.model.estimate import Estimate
from gapless.model.facts import PaddingStats
from gapless.model.input_costs import InputCosts

SCRIPT = Path(__file__).parent / "inputs.py"


def document_of(**series: dict[str, list[float]]) -> dict[str, Any]:
    return {
        "series": {name.replace("_", "-"): ways for name, ways in series.items()},
        "absent": {},
        "pixels": [],
    }


def test_an_interval_holds_what_rounds_are_of() -> None:
    random = np.random.default_rng(1)
    held = 0
    for _ in range(200):
        estimate = estimate_time(list(np.exp(random.normal(0.0, 0.3, 8)) * 5e6))
        assert estimate is not None
        held += estimate.low <= 5e6 <= estimate.high
    assert held >= 185
    assert estimate_time([]) is None
    assert estimate_speedup([2e6], [1e6]) is None  # one pair has no spread


def test_a_speedup_is_of_the_same_rounds() -> None:
    now = [1e6, 4e6, 9e6]
    speedup = estimate_speedup(now, [ns / 2 for ns in now])
    assert speedup is not None
    assert math.isclose(speedup.low, 2.0)
    assert math.isclose(speedup.high, 2.0)


def test_ways_are_compared_with_what_they_take_the_place_of() -> None:
    document = document_of(
        read={
            "now": [4.0, 4.0],
            "bytes alone, warm": [2.0, 2.0],
            "bytes alone, cold": [5.0, 5.0],
            "now, cold": [50.0, 50.0],
        },
        decode={"now": [9.0, 9.0], "as now, alone": [8.0, 8.0], "other": [4.0, 4.0]},
        hand_over={"from a worker": [6.0, 6.0], "uint8 batch": [3.0, 3.0]},
    )
    document["absent"] = {"decode": {"nvJPEG": "no GPU"}, "hand-over": {"now": "no workers"}}
    document["pixels"] = [{"stage": "decode", "variant": "other", "max": 3, "mean": 0.5}]
    costs = measuring.list_costs(document)
    times = {(cost.stage, cost.way): cost.speedup for cost in costs}
    assert {key: round(value.mid, 6) for key, value in times.items() if value is not None} == {
        ("read", "bytes alone, warm"): 2.0,
        ("read", "bytes alone, cold"): 10.0,
        ("decode", "other"): 2.0,
        ("hand-over", "uint8 batch"): 2.0,
    }
    ways = [cost.way for cost in costs if cost.stage == "read"]
    assert ways == ["now", "bytes alone, warm", "now, cold", "bytes alone, cold"]
    absent = [cost for cost in costs if cost.why is not None]
    assert [(cost.way, cost.sample_ns) for cost in absent] == [("nvJPEG", None), ("now", None)]
    other = next(cost for cost in costs if cost.way == "other")
    assert other.pixels is not None
    assert other.pixels.largest == 3


def test_what_a_smaller_picture_leaves_to_shrink_comes_off_augmenting() -> None:
    document = document_of(
        decode={"now": [9e6] * 3, "as now, alone": [8e6] * 3, "draft": [4e6] * 3},
        augment={"now": [10e6] * 3},
        shrink={"as now, alone": [7e6] * 3, "draft": [2e6] * 3},
    )
    costs = measuring.list_costs(document)
    draft = next(cost for cost in costs if cost.way == "draft")
    factors = outlook.find_factors(draft, costs)
    assert factors == pytest.approx({"decode": 0.5, "augment": 0.5})
    assert outlook.find_factors(next(cost for cost in costs if cost.is_now), costs) == {}


def test_samples_that_are_kept_take_the_place_of_all_stages_of_making_them() -> None:
    document = document_of(sample={"whole": [8e6] * 3, "samples kept": [1e6] * 3})
    cost = next(cost for cost in measuring.list_costs(document) if not cost.is_now)
    factors = outlook.find_factors(cost, [cost])
    assert factors == pytest.approx(
        dict.fromkeys(("read", "decode", "augment", "tokenise", "other"), 1 / 8)
    )


def test_memory_that_is_used_again_frees_the_training_thread_unless_another_pins() -> None:
    touch = {"now": [9e4] * 3, "recycled buffer": [1e4] * 3}
    costs = measuring.list_costs(document_of(touch=touch))
    loader = example_facts.loader(batch_size=16, pin_memory=False)
    assert outlook.find_freed_ns("recycled buffer", costs, loader) == 16 * 8e4
    assert outlook.find_freed_ns("uint8 batch", costs, loader) is None
    loader = example_facts.loader(batch_size=16, pin_memory=True)
    assert outlook.find_freed_ns("recycled buffer", costs, loader) is None
    floats = {"made on the host": [9e4] * 3, "made on the device": [2e4] * 3}
    costs = measuring.list_costs(document_of(copy={"now": [1e4] * 3}, floats=floats))
    assert outlook.find_freed_ns("made on the device", costs, loader) == 16 * 5e4  # less copies
    (cost,) = [cost for cost in costs if cost.speedup is not None]
    assert cost.speedup is not None
    assert cost.speedup.mid == pytest.approx(4.5)


def test_pinning_is_foretold_as_its_copies_and_what_pins_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[list[Change]] = []

    def price(_prices: object, changes: list[Change]) -> Prediction:
        asked.append(changes)
        return Prediction(Estimate(1.1, 1.2, 1.3), "copied")

    monkeypatch.setattr(outlook, "price_changes", price)
    on_gpu = evidence_of(example_facts.gpu(), {"busy.tc_math": 10.0}, on_device=True)
    prices: Any = SimpleNamespace(evidence=on_gpu)
    costs = measuring.list_costs(document_of(copy={"now": [3e4] * 3, "pinned": [1e4] * 3}))
    for n_workers, n_changes in ((0, 2), (2, 1)):  # without workers the training thread pins
        loader = example_facts.loader(
            num_workers=n_workers, batch_bytes=10_000_000, pin_memory=False
        )
        foretold, _ = outlook.predict_steps(costs, prices, loader)
        assert [cost.step_speedup for cost in foretold] == [None, Estimate(1.1, 1.2, 1.3)]
        assert asked[-1][0] == CopyChange(pinned=True, of_pageable=True)
        assert len(asked[-1]) == n_changes
    monkeypatch.setattr(outlook, "copies_others", Mock(return_value=True))  # no loader pins them
    foretold, _ = outlook.predict_steps(costs, prices, loader)
    assert [cost.step_speedup for cost in foretold] == [None, None]


def test_batches_by_length_are_a_step_of_the_run_and_nothing_that_was_timed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []

    def price(_prices: object, changes: object) -> Prediction:
        asked.append(changes)
        return Prediction(Estimate(1.0, 1.25, 2.0), "feed")

    monkeypatch.setattr(outlook, "price_changes", price)
    prices: Any = SimpleNamespace(evidence=evidence_of(example_facts.cpu(), {"busy.math": 10.0}))
    filling = PaddingStats(9, 8, 64, (64,), 0.5, 1.0, 0.3, True, True, "int", 2)  # noqa: FBT003
    loader = example_facts.loader(padding=filling, texts="lines")
    cost = outlook.predict_buckets(prices, loader)
    assert cost is not None
    assert (cost.sample_ns, cost.step_speedup) == (None, Estimate(1.0, 1.25, 2.0))
    assert len(asked) == 1
    assert outlook.predict_buckets(prices, example_facts.loader(texts="lines")) is None


def test_reading_ahead_helps_a_run_whose_files_were_cold() -> None:
    reads = {"now": [1e6] * 3, "now, cold": [8e6] * 3, "read ahead, cold": [2e6] * 3}
    costs = measuring.list_costs(document_of(read=reads))
    ahead = next(cost for cost in costs if cost.way == "read ahead, cold")
    assert outlook.find_factors(ahead, costs, 7e6) == pytest.approx({"read": 0.25})
    assert outlook.find_factors(ahead, costs, 2e6) == outlook.find_factors(ahead, costs) == {}


# ── Whole measurements ──────────────────────────────────────────────────────────────────────────


def measure(folder: Path, *words: str, seconds: float = 1.0) -> InputCosts:
    plan = arm.InputPlan(
        command=(sys.executable, str(SCRIPT), *words),
        folder=folder,
        has_private_view=False,
        loaders=(),
        samples=48,
        seconds=seconds,
    )
    said: list[str] = []
    costs = measuring.measure_input(measuring.InputTask(plan, None), said.append)
    assert any("measuring: round" in words for words in said)
    return costs


def test_a_training_is_measured_in_the_place_of_its_steps(tmp_path: Path) -> None:
    costs = measure(tmp_path, "raises", "1")
    figures = {(cost.stage, cost.way) for cost in costs.costs if cost.sample_ns is not None}
    assert {
        ("read", "now"),
        ("read", "bytes alone, warm"),
        ("rest", "now"),
        ("sample", "now"),
        ("collate", "now"),
        ("collate", "recycled buffer"),
        ("hand-over", "now"),
    } <= figures
    assert costs.is_complete
    assert costs.failed is None
    assert not (tmp_path / "checkpoint.pt").exists()  # no epoch was trained
    assert costs.subject is not None
    assert costs.subject.location is not None
    assert Path(costs.subject.location.file).name == "inputs.py"
    assert 0 < costs.samples <= 48
    expected_notes = ("is broken", "the time was over")  # the latter on a busy machine
    assert all(any(words in note for words in expected_notes) for note in costs.notes), costs.notes
    assert any(speed.bytes_per_s for speed in costs.storage)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("always-raises", "2"), "making samples raised OSError: nothing is where it was"),
        (("always-raises", "0"), "making samples raised OSError: nothing is where it was"),
        (("dies", "2"), "died: signal 11 (SIGSEGV)"),
        (("dies", "0"), "ended by signal 11"),
        (("no-loader",), "20 steps were taken and no DataLoader gone through"),
        (("unused",), "it ended, and no loader of its training was gone through"),
    ],
)
def test_what_cannot_be_measured_is_said_in_plain_words(
    tmp_path: Path, words: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(GaplessError, match=sentence.replace("(", r"\(").replace(")", r"\)")):
        measure(tmp_path, *words)


@pytest.mark.slow
@pytest.mark.parametrize("oddity", ["prints", "many", "odd", "stream", "in-order"])
def test_odd_data_sets_are_measured(tmp_path: Path, oddity: str) -> None:
    costs = measure(tmp_path, oddity, "2")
    assert costs.is_complete
    assert costs.find("sample") is not None
    assert costs.find("collate") is not None
    assert costs.find("hand-over") is not None
