"""A model that trains again without having been told: Lightning puts ``training`` back itself."""

import sys
from pathlib import Path

from gapless import wire
from tests.payload.watching import read_logs, run_preloaded, run_recorded

TRAINING = """
import torch
from torch.utils.data import DataLoader

torch.manual_seed(0)
train, test = (DataLoader(torch.rand(6, 4), batch_size=2) for _ in range(2))
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def evaluate():
    was = {name: one.training for name, one in model.named_modules()}
    model.eval()
    with torch.no_grad():
        print(sum(model(batch).sum().item() for batch in test))
    for name, one in model.named_modules():
        one.training = was[name]

evaluate()  # as Lightning does before the first step
for epoch in range(3):
    for batch in train:
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
    print(loss.item())
    evaluate()
"""


def test_each_evaluation_ends_where_the_next_batch_to_train_on_is_asked_for(
    tmp_path: Path,
) -> None:
    (tmp_path / "training.py").write_text(TRAINING)
    command = [sys.executable, "training.py"]
    recorded = run_recorded(command, tmp_path, tmp_path / "spool")
    assert recorded == run_preloaded(command, tmp_path)
    assert (recorded.code, recorded.err) == (0, "")
    log = read_logs(tmp_path / "spool")["rank0"]
    mode_changes = [(mark[6], mark[4]) for mark in log.marks if mark[0] == wire.MODE]
    assert [value for value, _ in sorted(mode_changes, key=lambda change: change[1])] == [
        0,
        1,
        0,
        1,
        0,
        1,
        0,
    ]
    train, test = (
        fact["id"] for fact in sorted(log.facts("loader"), key=lambda fact: fact["id"])[:2]
    )
    batch_marks = [
        mark for mark in log.marks if mark[0] == wire.NEXT and not mark[1] & wire.EXHAUSTED
    ]
    modes = {
        loader: {_mode(mode_changes, mark[4]) for mark in batch_marks if mark[2] == loader}
        for loader in (train, test)
    }
    assert modes == {train: {1}, test: {0}}


def _mode(mode_changes: list[tuple[int, int]], time_ns: int) -> int:
    """Return the mode that a time lies in."""
    return max((changed_ns, value) for value, changed_ns in mode_changes if changed_ns <= time_ns)[
        1
    ]
