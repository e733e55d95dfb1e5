# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Nothing is computed again: the same losses and random numbers, unless gradients would change."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from gapless.model.edit import Wrap
from tests.payload.laying import apply_edits
from tests.payload.small_nets import make_optimizer


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
        hidden = checkpoint(self.middle, self.first(values), **self.options)
        stages = [self.middle, nn.Sequential(nn.Dropout())]
        return checkpoint_sequential(stages, 2, hidden, use_reentrant=False)


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
        optimizer = make_optimizer(net)
        losses = list[float]()
        for _ in range(3):
            loss = net(torch.randn(5, 4)).square().sum()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, net.calls, torch.get_rng_state()

    losses, calls, state = train()
    with apply_edits(Wrap("torch.utils.checkpoint.checkpoint", "checkpointing-off")) as edit_log:
        edited = train()
        assert edit_log.times() == 6
    assert (calls, edited[1]) == (12, 6)
    assert edited[0] == losses
    assert torch.equal(edited[2], state)
    assert train()[1] == 12


def test_a_checkpoint_that_cuts_the_gradients_off_stays() -> None:
    def cuts_gradients() -> bool:
        with pytest.warns(UserWarning, match="None of the inputs have requires_grad"):
            return checkpoint(nn.Linear(2, 2), torch.ones(2), use_reentrant=True).requires_grad  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]

    plain = cuts_gradients()
    with apply_edits(Wrap("torch.utils.checkpoint.checkpoint", "checkpointing-off")) as edit_log:
        assert cuts_gradients() is plain
        assert edit_log.times() == 0
        assert "reentrant" in edit_log.unobserved[0]
