"""Loops without an optimizer of torch's: ``any_loops.py NAME[,NAME…] [STEPS]``.

Each takes twelve steps if nothing else is said. Several run one after the other, each in a child
that writes its process number into a file of its name.
"""

import importlib
import os
import sys
import time

import torch
import torch.utils.checkpoint

torch.manual_seed(0)
torch.set_num_threads(1)
STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 12
BATCH, LABELS = torch.randn(8, 4), torch.randint(0, 2, (8,))
loss = torch.nn.functional.cross_entropy


def model() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))


def gradient(tensor: torch.Tensor) -> torch.Tensor:
    assert tensor.grad is not None
    return tensor.grad


def by_hand() -> object:
    net = model()
    for _ in range(STEPS):
        net.zero_grad()
        loss(net(BATCH), LABELS).backward()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.add_(gradient(parameter), alpha=-0.1)
    return net(BATCH).sum().item()


def own_optimizer() -> object:
    class PlainDescent:
        def __init__(self, tensors: list[torch.Tensor]) -> None:
            self.tensors = tensors

        def step(self) -> None:
            for tensor in self.tensors:
                tensor.data.sub_(gradient(tensor), alpha=0.1)
                tensor.grad = None

    net = model()
    optimizer = PlainDescent(list(net.parameters()))
    for _ in range(STEPS):
        for _ in range(2):  # one line: two passes are two steps
            loss(net(BATCH), LABELS).backward()
        optimizer.step()
    return net(BATCH).sum().item()


def autograd_grad() -> object:
    net = model()
    for _ in range(STEPS):
        tensors = list(net.parameters())
        gradients = torch.autograd.grad(loss(net(BATCH), LABELS), tensors)
        for tensor, gradient in zip(tensors, gradients, strict=True):
            tensor.data.sub_(gradient, alpha=0.1)
    return net(BATCH).sum().item()


def func_grad() -> object:
    def compute_loss(weights: torch.Tensor) -> torch.Tensor:
        return loss(BATCH @ weights, LABELS)

    weights = torch.randn(4, 2)
    for _ in range(STEPS):
        weights = weights - 0.1 * torch.func.grad(compute_loss)(weights)
    return weights.sum().item()


def nested() -> object:
    """Return the sum of a training in whose backward pass another runs: one step, not two."""
    net = model()
    for _ in range(STEPS):
        hidden: object = torch.utils.checkpoint.checkpoint(  # pyright: ignore[reportUnknownVariableType]
            net, BATCH.requires_grad_(), use_reentrant=True
        )
        assert isinstance(hidden, torch.Tensor)
        loss(hidden, LABELS).backward()
        net.zero_grad()
    return net(BATCH).sum().item()


def inference() -> object:
    net, sequence = model().eval(), BATCH
    with torch.no_grad():
        for _ in range(STEPS):
            sequence = torch.cat([net(sequence), sequence[:, 2:]], dim=1)
            time.sleep(0.001)
    return sequence.sum().item()


def generation() -> object:
    net = model()

    def generate(start: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            start = torch.nn.functional.relu(torch.cat([net(start), start[:, 2:]], dim=1))
        return start

    with torch.inference_mode():
        return sum(generate(BATCH).sum().item() for _ in range(STEPS // 3))


def marked() -> object:
    gapless = importlib.import_module("gapless")
    product = BATCH
    for _ in range(STEPS):
        for _ in range(5):
            product = torch.tanh(product @ product.T @ product)
        gapless.step()
    return product.sum().item()


def trained() -> object:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss(net(BATCH), LABELS).backward()
        optimizer.step()
    return net(BATCH).sum().item(), torch.nn.Module.__call__.__code__.co_filename[-9:]


def compiled() -> object:
    net = model()
    with torch.no_grad():
        for _ in range(4):
            net(BATCH)
        compiled_net = torch.compile(net, backend="eager")
        return sum(compiled_net(BATCH).sum().item() for _ in range(STEPS))


def run_in_child(name: str) -> None:
    """Run a loop in a child."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0, name
        return
    with open(name, "w") as file:  # noqa: PTH123
        file.write(str(os.getpid()))
    print(name, globals()[name](), flush=True)
    os._exit(0)


names = sys.argv[1].split(",")
if names == sys.argv[1:2]:
    print(globals()[names[0]]())
else:
    for name in names:
        run_in_child(name)
