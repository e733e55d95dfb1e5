"""Fixes that are tried together: each is judged with those before it laid."""

import pytest

from gapless.catalogue import examples
from gapless.catalogue.assumed import after, together
from gapless.catalogue.declare import spoken
from gapless.errors import UsageError
from gapless.model.edit import SetArgument, SetGlobal, Where

LOADER = "torch.utils.data.DataLoader"


def test_prefetching_finds_the_workers_that_come_with_it() -> None:
    found = together(["more-workers=4", "prefetch=8", "persistent-workers"], examples.gpu())
    assert [spoken(one) for one in found] == [
        "equivalent: num_workers 0 → 4 at train.py:41",
        "same: prefetch_factor 2 → 8 at train.py:41",
        "equivalent: persistent_workers False → True at train.py:41",
    ]


def test_a_trap_sees_what_comes_together() -> None:
    facts = examples.gpu(examples.machine(shm_bytes=1 << 30))
    found = together(["more-workers=8", "prefetch=8"], facts)
    assert [one.refused is None for one in found] == [True, False]
    assert "are 2.4 GiB" in spoken(found[1])


def test_what_one_has_set_is_so_already_for_the_next() -> None:
    found = together(["workers-and-one-thread=2", "one-thread"], examples.cpu())
    assert spoken(found[1]) == "nothing to change: intra-op threads are already 1"


def test_an_optimizer_that_is_fused_already_is_not_told_to_use_foreach() -> None:
    found = together(["fused", "foreach"], examples.cpu())
    assert [spoken(one) for one in found] == [
        "equivalent: AdamW at train.py:52: fused None → True",
        "nothing to change: AdamW at train.py:52 is fused, which is more",
    ]


def test_a_fix_is_tried_once_only_with_itself() -> None:
    with pytest.raises(UsageError, match="more-workers is named twice"):
        together(["more-workers=4", "more-workers=8"], examples.gpu())


def test_only_what_is_meant_is_assumed() -> None:
    facts = examples.gpu(examples.loader(), examples.loader(id=1, where=Where("other.py", 3)))
    changed = after(
        facts,
        [
            SetArgument(LOADER, "pin_memory", value=True, where=examples.LOADER_LINE),
            SetArgument("torch.optim.SGD", "pin_memory", value=True),
            SetGlobal("torch.backends.cudnn.benchmark", value=True),
        ],
    )
    assert [one.pin_memory for one in changed.loaders] == [True, False]
    assert changed.precision == facts.precision
