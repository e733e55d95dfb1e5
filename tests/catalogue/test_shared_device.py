"""Another process on the device: what it takes is what the windows show in most steps."""

from dataclasses import replace

import pytest

from gapless.catalogue import examples
from gapless.catalogue.rules.shared_device import shared_device
from gapless.catalogue.seen_examples import changed, seen
from gapless.model.change import Drop
from gapless.model.finding import Loss
from gapless.model.run import DeviceState
from gapless.model.seen import Seen

WAITS = "idle.device.wait"


def beside(waiting: int, of: int = 4, wait_ms: float = 25) -> Seen:
    """Give a run with others on its device, that waits in so many steps of its windows."""
    one = seen(examples.gpu(), {"busy.tc_math": 40, WAITS: wait_ms})
    account = one.study.account
    row = account.rows[0]
    alone = replace(row, leaves={**row.leaves, WAITS: 0})
    rows = tuple(row if at < waiting else alone for at in range(of))
    study = replace(one.study, account=replace(account, rows=rows))
    state = DeviceState(0, 0.98, 1980.0, 1980.0, {}, 0.9, None, None, None)
    return changed(replace(one, study=study), devices_seen=(state,))


def loss_of(run: Seen) -> Loss:
    (found,) = shared_device(run)
    assert isinstance(found, Loss)
    return found


@pytest.mark.parametrize(("waiting", "keep"), [(0, 1.0), (1, 1.0), (2, 0.0), (4, 0.0)])
def test_a_wait_in_a_single_step_is_not_held_against_them(waiting: int, keep: float) -> None:
    assert loss_of(beside(waiting)).changes == (Drop((WAITS,), keep=keep),)


def test_a_little_in_each_step_is_theirs() -> None:
    assert loss_of(beside(4, wait_ms=2)).changes == (Drop((WAITS,)),)
    assert loss_of(beside(4, wait_ms=0.1)).changes == (Drop((WAITS,), keep=1.0),)


def test_what_they_take_is_told_only_where_it_shows() -> None:
    assert "begun at once" in loss_of(beside(1)).summary
    assert "lies undone" in loss_of(beside(3)).summary
