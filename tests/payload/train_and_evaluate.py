"""Train, and evaluate after every step, with collections in between; the recorder is inside.

``train_and_evaluate.py [WISH]``. ``late``: an evaluation that outlasts an open window.
``child``: one in which a window is being saved.
"""

import gc
import json
import sys
import time
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batches = DataLoader(TensorDataset(torch.randn(64, 8), torch.randn(64, 1)), batch_size=16)
long_batches = DataLoader(TensorDataset(torch.randn(2000, 8), torch.randn(2000, 1)))
wish = sys.argv[1] if len(sys.argv) > 1 else ""
results: dict[str, Any] = {}


def window_session() -> Any:  # noqa: ANN401 - it is the recorder's, in a package without a type
    """Return what our windows know; nothing before the first step."""
    return vars(sys.modules["_gapless.payload.windows"])["_windows"].session


def evaluate(seconds: float, images: torch.Tensor) -> None:
    model.eval()
    with torch.no_grad():
        model(images)
    time.sleep(seconds)
    model.train()


def evaluate_long() -> None:
    """Evaluate on many batches, until what is looked for was seen to, or for 20 s."""
    results["seen to"] = False
    model.eval()
    for index, (images, _) in enumerate(long_batches):
        model(images)
        time.sleep(0.01)
        session = window_session()
        if index == 0 and wish == "late":
            session.open.deadline = 0
        results["seen to"] = session.open is None and not session.keeping.children
        if results["seen to"]:
            break
    model.train()


def collect() -> None:
    """Make garbage and have it collected."""
    for _ in range(1000):
        knot: list[object] = []
        knot.append(knot)
    gc.collect()


def main() -> None:
    torch.set_num_threads(1)
    gc.disable()
    gc.freeze()
    before = list(gc.callbacks)
    for _ in range(12):
        for images, targets in batches:
            optimizer.zero_grad()
            (model(images) - targets).pow(2).mean().backward()
            optimizer.step()
            evaluate(0.002, images)
            collect()
            session = window_session()
            if session is None or "seen to" in results:
                continue
            is_late = wish == "late" and session.open is not None and session.open.steps >= 4
            if is_late or (wish == "child" and session.keeping.children):
                evaluate_long()
    results["callbacks"] = len(gc.callbacks) - len(before)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
