"""Evaluation with and without autograd: a short training of two models, recorded and studied."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gapless.accounting.intervals import Lane
from gapless.recorded.facts import facts
from gapless.recorded.steps.evaluations import find_evaluating, passes_without_steps
from gapless.recorded.training.processes import trainings
from gapless.store.run.recordings import load
from gapless.study import Options, open_run, study_recording
from tests.payload import loading

TRAINING = """
from contextlib import nullcontext
from torch import nn

def net():
    return nn.Sequential(*[part for _ in range(10) for part in (nn.Linear(32, 32), nn.ReLU())])

def rounds(model, around):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(8):
        model.train()
        for _ in range(10):
            optimizer.zero_grad()
            model(torch.ones(8, 32)).mean().backward()
            optimizer.step()
        model.eval()  # NAME
        for _ in range(40):
            with around():
                model(torch.ones(8, 32)).mean().item()
    model.train()

torch.set_num_threads(1)
rounds(net(), nullcontext)
rounds(net(), torch.no_grad)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evaluations")
    loading.run_script(folder, TRAINING)
    shutil.copytree(folder / "spool", folder / "run/logs")
    return folder / "run"


def test_graphs_are_counted_where_an_evaluation_makes_them(run: Path) -> None:
    with_graphs, without_graphs = sorted(
        facts(load(run)).evaluations, key=lambda evaluation: -evaluation.nodes
    )
    assert with_graphs.passes == with_graphs.graphed == 8
    assert with_graphs.nodes >= 8 * 40 * 20  # a layer makes one at least
    assert with_graphs.tensors == without_graphs.tensors == 20
    assert (without_graphs.passes, without_graphs.graphed, without_graphs.nodes) == (8, 0, 0)


def test_the_report_names_the_one_evaluation_that_makes_graphs(run: Path) -> None:
    diagnosis = open_run(run, Options(cache=False)).diagnosis
    assert diagnosis is not None
    detections = [finding.detection for finding in (*diagnosis.findings, *diagnosis.present)]
    (detection,) = [
        candidate for candidate in detections if candidate.name == "evaluation-with-autograd"
    ]
    assert detection.summary.startswith("Evaluation runs with autograd on: ")
    lines = (run.parent / "script.py").read_text().splitlines()
    assert detection.location is not None
    assert lines[detection.location.line - 1].strip() == "model.eval()  # NAME"


WITHOUT_MODES = """
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.ones(64, 8)), batch_size=4)
BODY
"""
TESTS = """
for epoch in range(4):
    for number, (rows,) in enumerate(loader):
        if number % 8 == 0:
            losses = [model(some).mean().item() for (some,) in loader]
        optimizer.zero_grad()
        model(rows).mean().backward()
        optimizer.step()
"""
ACCUMULATES = """
for epoch in range(12):
    optimizer.zero_grad()
    for (rows,) in loader:
        model(rows).mean().backward()
    optimizer.step()
"""


def count_passes(tmp_path: Path, body: str) -> int:
    """Count the stretches of a training that are an evaluation."""
    loading.run_script(tmp_path, WITHOUT_MODES.replace("BODY", body))
    shutil.copytree(tmp_path / "spool", tmp_path / "run/logs")
    (training,) = trainings(load(tmp_path / "run"))
    return len(passes_without_steps(training).start)


def test_a_whole_pass_over_data_between_two_steps_is_an_evaluation(tmp_path: Path) -> None:
    assert count_passes(tmp_path, TESTS) == 7  # the first lies before the first step
    # Its batches are those of the training's own loader, and no samples that are trained on.
    recorded = study_recording(load(tmp_path / "run")).recorded
    assert recorded is not None
    assert recorded.steps is not None
    assert recorded.steps.samples_per_s == pytest.approx(4e9 / recorded.steps.mean_ns, rel=0.05)


def test_a_pass_that_gathers_gradients_for_one_step_is_none(tmp_path: Path) -> None:
    assert count_passes(tmp_path, ACCUMULATES) == 0


@pytest.mark.parametrize(("passes", "are_trained"), [(10, False), (80, True)])
def test_batches_that_a_step_asks_for_at_once_are_none_of_an_evaluation(
    passes: int, are_trained: bool
) -> None:
    calls = SimpleNamespace(noun="calls", values={"steps": 10, "passes": passes})
    column = np.empty(0, np.int64)
    training: Any = SimpleNamespace(
        process=SimpleNamespace(facts=[calls]),
        edges=SimpleNamespace(ends=np.array([1])),
        sums=SimpleNamespace(start=column, end=column),
    )
    start = np.array([5, *range(20, 28)])  # one between evaluations, eight before train()
    summed = SimpleNamespace(stretch=column, count=column)
    waits: Any = SimpleNamespace(start=start, is_first=start < 6, summed=summed)
    spans = Lane(np.array([10]), np.array([30]), np.array([0]))
    (evaluating,) = find_evaluating(training, [waits], spans)
    assert evaluating.kept.tolist() == [False, *[not are_trained] * 8]
