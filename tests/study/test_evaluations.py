"""Evaluation with and without autograd: a short training of two models, recorded and studied."""

import shutil
from pathlib import Path

import pytest

from gapless.store.recordings import load
from gapless.study import Options, open_run
from gapless.study.recorded.facts import facts
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
    loading.run(folder, TRAINING)
    shutil.copytree(folder / "spool", folder / "run/logs")
    return folder / "run"


def test_graphs_are_counted_where_an_evaluation_makes_them(run: Path) -> None:
    graphed, plain = sorted(facts(load(run)).evaluations, key=lambda one: -one.nodes)
    assert graphed.passes == graphed.graphed == 8
    assert graphed.nodes >= 8 * 40 * 20  # a layer makes one at least
    assert graphed.tensors == plain.tensors == 20
    assert (plain.passes, plain.graphed, plain.nodes) == (8, 0, 0)


def test_the_report_names_the_one_evaluation_that_makes_graphs(run: Path) -> None:
    diagnosis = open_run(run, Options(cache=False)).diagnosis
    assert diagnosis is not None
    every = [one.loss for one in (*diagnosis.findings, *diagnosis.present)]
    (found,) = [one for one in every if one.name == "evaluation-with-autograd"]
    assert found.summary.startswith("Evaluation runs with autograd on: ")
    lines = (run.parent / "script.py").read_text().splitlines()
    assert found.where is not None
    assert lines[found.where.line - 1].strip() == "model.eval()  # NAME"
