# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Nothing is computed again: the same losses and random numbers, unless gradients would change."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from gapless.model.edit import Wrap
from tests.payload.laying import laid
from tests.payload.small_nets import optimize


class Deep(nn.Module):
    """Computes its middle again in the backward pass."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - torch's
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.middle = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.Linear(4, 4), nn.Dropout())
        self.options = options
        self.calls = 0
        self.middle.register_forward_pre_hook(self.count)

    def count(self, *_: object) -> None:
        self.calls += 1

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        found = checkpoint(self.middle, self.first(values), **self.options)
        both = [self.middle, nn.Sequential(nn.Dropout())]
        return checkpoint_sequential(both, 2, found, use_reentrant=False)


@pytest.mark.parametrize(
    "options",
    [
        {"use_reentrant": False},
        {"use_reentrant": True},
        {"use_reentrant": False, "preserve_rng_state": True, "debug": False},
    ],
)
def test_nothing_is_computed_again_and_losses_and_random_numbers_are_the_same(
    options: dict[str, bool],
) -> None:
    def train() -> tuple[list[float], int, torch.Tensor]:
        torch.manual_seed(3)
        net = Deep(**options)
        optimizer = optimize(net)
        losses = list[float]()
        for _ in range(3):
            loss = net(torch.randn(5, 4)).square().sum()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, net.calls, torch.get_rng_state()

    losses, calls, state = train()
    with laid(Wrap("torch.utils.checkpoint.checkpoint", "checkpointing-off")) as told:
        edited = train()
        assert told.times() == 6
    assert (calls, edited[1]) == (12, 6)
    assert edited[0] == losses
    assert torch.equal(edited[2], state)
    assert train()[1] == 12


def test_a_checkpoint_that_cuts_the_gradients_off_stays() -> None:
    def cut() -> bool:
        with pytest.warns(UserWarning, match="None of the inputs have requires_grad"):
            return checkpoint(nn.Linear(2, 2), torch.ones(2), use_reentrant=True).requires_grad  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]

    plain = cut()
    with laid(Wrap("torch.utils.checkpoint.checkpoint", "checkpointing-off")) as told:
        assert cut() is plain
        assert told.times() == 0
        assert "reentrant" in told.unseen[0]
