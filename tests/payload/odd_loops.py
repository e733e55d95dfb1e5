"""Loops that compilers and threads make hard to watch; the second word says how many steps."""

import importlib
import sys
import threading
from collections.abc import Callable

import torch

torch.manual_seed(0)
torch.set_num_threads(1)
STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 12
BATCH, LABELS = torch.randn(8, 4), torch.randint(0, 2, (8,))
loss = torch.nn.functional.cross_entropy


def model() -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))


def by_hand() -> None:
    net = model()
    for _ in range(STEPS):
        net.zero_grad()
        loss(net(BATCH), LABELS).backward()


def inference() -> None:
    net = model().eval()
    with torch.no_grad():
        for _ in range(STEPS):
            net(BATCH)


def broken_off() -> object:
    """Return what the compiler made of a loop whose graph breaks at the backward pass."""
    net = model()
    counters = importlib.import_module("torch._dynamo.utils").counters

    @torch.compile(backend="eager")
    def step() -> torch.Tensor:
        step_loss = loss(net(BATCH), LABELS)
        step_loss.backward()
        parameter = next(net.parameters())
        (gradient,) = torch.autograd.grad(loss(net(BATCH), LABELS), [parameter])
        return gradient.sum() + step_loss

    sums = [step().item() for _ in range(STEPS)]
    return sum(sums), dict(counters["stats"]), sum(counters["graph_break"].values())


def compiled_steps() -> object:
    net = model()
    counters = importlib.import_module("torch._dynamo.utils").counters
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    @torch.compile(backend="eager")
    def step() -> torch.Tensor:
        optimizer.zero_grad()
        step_loss = loss(net(BATCH), LABELS)
        step_loss.backward()
        optimizer.step()
        return step_loss

    sums = [step().item() for _ in range(STEPS)]
    return sum(sums), dict(counters["stats"]), sum(counters["graph_break"].values())


def scripted() -> object:
    def slope(x: torch.Tensor) -> torch.Tensor:
        derivative = torch.autograd.grad([x.pow(3).sum()], [x])[0]
        assert derivative is not None
        return derivative

    inputs = BATCH.clone().requires_grad_()
    eager = [torch.autograd.grad(inputs.pow(3).sum(), [inputs])[0] for _ in range(STEPS)]
    scripted_slope = importlib.import_module("torch.jit").script(slope)
    return sum(float((scripted_slope(inputs) - derivative).sum()) for derivative in eager)


def in_a_thread() -> object:
    return _in_threads(by_hand, 1)


def in_threads() -> object:
    return _in_threads(inference, 4)


def _in_threads(loop: Callable[[], object], count: int) -> object:
    threads = [threading.Thread(target=loop) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return torch.rand(1).item(), threading.active_count()


for name in sys.argv[1].split(","):
    print(globals()[name]())
