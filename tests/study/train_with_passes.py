"""Record steps whose forward passes are used, or not, in a process that may fail alone.

python train_with_passes.py FOLDER      # a trace for each kind of step: FOLDER/left.json …
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, cast

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.checkpoint import (
    checkpoint,  # pyright: ignore[reportUnknownVariableType]
)

STEPS: Final = 4
X: Final = torch.ones(24, 20)
Y: Final = torch.zeros(24, dtype=torch.long)
ONES: Final = torch.ones(24, 1)
LossFunction = Callable[[], torch.Tensor]


def net(inputs: int = 20, outputs: int = 10) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, outputs)
    )


MODEL, SECOND_MODEL, CRITIC = net(), net(), net(10, 1)
OPTIMIZER = torch.optim.SGD([*MODEL.parameters(), *CRITIC.parameters()], 1e-3)
LAST_OUTPUT: list[torch.Tensor] = []  # what was trained with, for a metric


# ── One result is left ──────────────────────────────────────────────────────────────────────────


def left() -> torch.Tensor:
    MODEL(X)
    LAST_OUTPUT[:] = [MODEL(X)]
    return F.cross_entropy(LAST_OUTPUT[0], Y)


def left_and_measured() -> torch.Tensor:
    return left()


def left_under_autocast() -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return left()


def with_its_loss() -> torch.Tensor:
    F.cross_entropy(MODEL(X), Y)
    return F.cross_entropy(MODEL(X), Y)


# ── Every result is used ────────────────────────────────────────────────────────────────────────


def plain() -> torch.Tensor:
    return F.cross_entropy(MODEL(X), Y)


def accuracy_first() -> torch.Tensor:
    (MODEL(X).argmax(1) == Y).sum().item()
    return F.cross_entropy(MODEL(X), Y)


def pictures_without_their_graph() -> torch.Tensor:
    fake = MODEL(torch.randn(24, 20))
    critic_loss = F.binary_cross_entropy_with_logits(CRITIC(fake.detach()), ONES)
    return critic_loss + CRITIC(MODEL(torch.randn(24, 20))).mean()


def pictures_as_data() -> torch.Tensor:
    critic_loss = CRITIC(MODEL(torch.randn(24, 20)).data).mean()
    return critic_loss + CRITIC(MODEL(torch.randn(24, 20))).mean()


def both_pictures_at_once() -> torch.Tensor:
    fake, real = MODEL(X), MODEL(X + 1)
    return CRITIC(fake.detach()).mean() + CRITIC(real).mean()


def a_target_behind() -> torch.Tensor:
    value = MODEL(X).gather(1, Y[:, None])
    return F.mse_loss(value, SECOND_MODEL(X + 1).max(1)[0].unsqueeze(1).detach())


def a_target_before() -> torch.Tensor:
    target = SECOND_MODEL(X + 1)
    value = MODEL(X).gather(1, Y[:, None])
    return F.mse_loss(value, target.detach().max(1)[0].unsqueeze(1))


def two_targets() -> torch.Tensor:
    best, target = MODEL(X + 1), SECOND_MODEL(X + 1)
    value = MODEL(X).gather(1, Y[:, None])
    return F.mse_loss(value, target.gather(1, best.argmax(1, keepdim=True)).detach())


def a_teacher() -> torch.Tensor:
    taught, learnt = SECOND_MODEL(X), MODEL(X)
    return F.kl_div(F.log_softmax(learnt, 1), F.softmax(taught.detach(), 1))


def one_view_of_two() -> torch.Tensor:
    first_view, second_view = MODEL(X), MODEL(X + 1)
    return -F.cosine_similarity(CRITIC(first_view), CRITIC(second_view.detach())).mean()


def pseudo_labels() -> torch.Tensor:
    weak, strong = MODEL(X), MODEL(X + 1)
    with torch.no_grad():
        sure, label = F.softmax(weak, 1).max(1)
    return (F.cross_entropy(strong, label, reduction="none") * (sure > 0)).mean()


def a_gradient_of_gradients() -> torch.Tensor:
    inputs = X.clone().requires_grad_()
    (slope,) = torch.autograd.grad(MODEL(inputs).sum(), inputs, create_graph=True)
    return (slope.pow(2).sum(1) - 1).pow(2).mean() + MODEL(X).mean()


def a_checkpoint() -> torch.Tensor:
    inputs = X.clone().requires_grad_()
    outputs = cast("torch.Tensor", checkpoint(MODEL, inputs, use_reentrant=False))
    return F.cross_entropy(outputs, Y)


UNUSED_PASSES: Final = (left, left_under_autocast, left_and_measured, with_its_loss)
USED_PASSES: Final = (
    plain,
    accuracy_first,
    pictures_without_their_graph,
    pictures_as_data,
    both_pictures_at_once,
    a_target_behind,
    a_target_before,
    two_targets,
    a_teacher,
    one_view_of_two,
    pseudo_labels,
    a_gradient_of_gradients,
    a_checkpoint,
)


def step(loss: LossFunction) -> None:
    OPTIMIZER.zero_grad()
    loss().backward()
    OPTIMIZER.step()
    if loss is left_and_measured:
        LAST_OUTPUT[0].argmax(1).eq(Y).sum().item()


def record(path: Path, loss: LossFunction, *, stacks: bool = False) -> None:
    for _ in range(2):
        step(loss)
    with profile(
        activities=[ProfilerActivity.CPU], record_shapes=True, with_stack=stacks
    ) as profiler:
        for number in range(STEPS):
            with record_function(f"ProfilerStep#{number}"):
                step(loss)
    profiler.export_chrome_trace(str(path))


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    for loss in (*UNUSED_PASSES, *USED_PASSES):
        record(folder / f"{loss.__name__}.json", loss)
    record(folder / "stacks.json", left, stacks=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
