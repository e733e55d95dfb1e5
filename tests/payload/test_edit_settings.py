# ruff: noqa: SLF001
# pyright: reportPrivateUsage=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Arguments, settings and skips on torch's own objects: each takes effect and comes off again."""

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch

from gapless.model.edit import Edit, SetArgument, SetGlobal, Skip
from tests.payload.laying import Told, laid

MATMUL = "torch.backends.cuda.matmul"


def parameters() -> list[torch.Tensor]:
    return [torch.ones(3, requires_grad=True)]


SETTINGS: list[tuple[SetGlobal, Callable[[], object], Callable[[], object]]] = [
    (
        SetGlobal("torch.set_float32_matmul_precision", "high"),
        torch.get_float32_matmul_precision,
        lambda: torch.set_float32_matmul_precision("highest"),
    ),
    (
        SetGlobal(f"{MATMUL}.allow_tf32", value=True),
        lambda: torch.backends.cuda.matmul.allow_tf32,
        lambda: setattr(torch.backends.cuda.matmul, "allow_tf32", False),
    ),
    (
        SetGlobal("torch.backends.cudnn.allow_tf32", value=False),
        lambda: torch.backends.cudnn.allow_tf32,
        lambda: setattr(torch.backends.cudnn, "allow_tf32", True),
    ),
    (
        SetGlobal("torch.backends.cudnn.benchmark", value=True),
        lambda: torch.backends.cudnn.benchmark,
        lambda: setattr(torch.backends.cudnn, "benchmark", False),
    ),
    (
        SetGlobal("torch.backends.cuda.enable_flash_sdp", value=False),
        torch.backends.cuda.flash_sdp_enabled,
        lambda: torch.backends.cuda.enable_flash_sdp(enabled=True),
    ),
    (
        SetGlobal("torch.set_num_threads", value=torch.get_num_threads() + 1),
        torch.get_num_threads,
        lambda: torch.set_num_threads(torch.get_num_threads()),
    ),
]


@pytest.mark.parametrize(
    ("edit", "ask", "set_theirs"), SETTINGS, ids=[one[0].target for one in SETTINGS]
)
def test_a_setting_is_ours_whatever_the_training_sets(
    edit: SetGlobal, ask: Callable[[], object], set_theirs: Callable[[], object]
) -> None:
    before = ask()
    assert before != edit.value
    with laid(edit) as told:
        assert ask() == edit.value
        set_theirs()
        assert ask() == edit.value
        assert told.values[0]["old"] == before
        assert told.unseen == []
    assert ask() == before
    set_theirs()
    assert ask() == before


NEWER = hasattr(torch.backends, "fp32_precision")


@pytest.mark.skipif(not NEWER, reason="this torch has one style of names only")
@pytest.mark.parametrize("ours", ["older", "oldest", "newer"])
def test_older_and_newer_names_of_tf32_may_meet(ours: str) -> None:
    """Torch raises where it is asked by the older name after it was set by the newer one."""
    older = SetGlobal(f"{MATMUL}.allow_tf32", value=True)
    newer = SetGlobal(f"{MATMUL}.fp32_precision", value="tf32")
    edit = {
        "older": older,
        "newer": newer,
        "oldest": SetGlobal("torch.set_float32_matmul_precision", "high"),
    }[ours]
    matmul: Any = torch.backends.cuda.matmul
    ask: Any = torch._C._get_fp32_precision_getter  # type: ignore[attr-defined]
    before = ask("cuda", "matmul")
    set_: Any = torch._C._set_fp32_precision_setter  # type: ignore[attr-defined]
    try:
        with laid(edit) as told:
            if edit is not newer:
                matmul.fp32_precision = "ieee"
            else:
                matmul.allow_tf32 = False
            told.edge()
            assert ask("cuda", "matmul") == "tf32"
            if edit is not newer:
                assert matmul.allow_tf32  # asked by compilers, and does not raise
            assert told.unseen == []
            assert told.times() > 0
    finally:
        set_("cuda", "matmul", before)


def test_anomaly_detection_stays_off_however_it_is_asked_for() -> None:
    with laid(SetGlobal("torch.set_anomaly_enabled", value=False)) as told:
        with (
            pytest.warns(UserWarning, match="Anomaly Detection"),
            torch.autograd.detect_anomaly(check_nan=False),
        ):
            assert not torch.is_anomaly_enabled()
        with torch.autograd.set_detect_anomaly(mode=True):
            assert not torch.is_anomaly_enabled()
        torch.autograd.set_detect_anomaly(mode=True)
        assert not torch.is_anomaly_enabled()
        assert told.times() >= 3
    with torch.autograd.set_detect_anomaly(mode=True):
        assert torch.is_anomaly_enabled()


CONCRETE = [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop]


@pytest.mark.parametrize("kind", CONCRETE)
def test_foreach_reaches_the_optimizer(kind: Any) -> None:  # noqa: ANN401
    name = f"torch.optim.{kind.__name__}"
    with laid(SetArgument(name, "foreach", value=True)) as told:
        optimizer = kind(parameters(), foreach=False)
        assert optimizer.param_groups[0]["foreach"] is True
        assert (told.values[0]["old"], told.values[0]["new"], told.times()) == (False, True, 1)
    assert kind(parameters(), foreach=False).param_groups[0]["foreach"] is False


@pytest.mark.parametrize("kind", CONCRETE[:3])
def test_fused_reaches_the_optimizer_and_goes_with_foreach_switched_off(kind: Any) -> None:  # noqa: ANN401
    name = f"{kind.__module__}.{kind.__qualname__}"  # as facts name it
    edits = SetArgument(name, "fused", value=True), SetArgument(name, "foreach", value=False)
    with laid(*edits) as told:
        tensors = parameters()
        optimizer = kind(tensors, lr=0.5, foreach=True)
        tensors[0].grad = torch.ones(3)
        optimizer.step()
        assert (tensors[0] < 1).all()
        assert optimizer.param_groups[0]["fused"] is True
        assert (told.times(0), told.times(1)) == (1, 1)


def test_a_class_without_the_argument_is_refused() -> None:
    with laid(SetArgument("torch.optim.LBFGS", "fused", value=True)) as told:
        torch.optim.LBFGS(parameters())
        assert told.times() == 0
        assert len(told.unseen) == 1
        assert "there is no argument 'fused'" in told.unseen[0]


def test_what_torch_refuses_is_made_as_it_was_written_and_told() -> None:
    with laid(SetArgument("torch.optim.AdamW", "fused", value=True)) as told:
        optimizer = torch.optim.AdamW(parameters(), differentiable=True)  # refused at once
        assert not optimizer.param_groups[0]["fused"]
        assert len(optimizer.param_groups) == 1
        assert told.times() == 0
        assert "`fused` does not support `differentiable`" in told.unseen[0]


def test_tensors_that_cannot_be_fused_are_stepped_as_it_was_written_and_told() -> None:
    with laid(SetArgument("torch.optim.AdamW", "fused", value=True)) as told:
        tensors = [torch.ones(3, dtype=torch.complex64, requires_grad=True)]
        optimizer = torch.optim.AdamW(tensors, lr=0.5)
        for _ in range(2):
            tensors[0].grad = torch.ones(3, dtype=torch.complex64)
            optimizer.step()
        assert (tensors[0].real < 1).all()
        assert len(told.unseen) == 1
        assert "`fused=True` requires" in told.unseen[0]


def test_gradients_are_dropped() -> None:
    targets = "torch.optim.Optimizer.zero_grad", "torch.nn.Module.zero_grad"
    with laid(*(SetArgument(one, "set_to_none", value=True) for one in targets)) as told:
        tensors = parameters()
        optimizer = torch.optim.SGD(tensors, lr=0.1)
        net = torch.nn.Linear(1, 1)
        for zero in (optimizer.zero_grad, net.zero_grad):
            tensors[0].grad = torch.ones(3)
            net.weight.grad = torch.ones(1, 1)
            zero(set_to_none=False)
        assert net.weight.grad is None
        assert (told.times(0), told.times(1)) == (1, 1)
        optimizer.zero_grad(set_to_none=False)
        assert tensors[0].grad is None
    tensors[0].grad = torch.ones(3)
    optimizer.zero_grad(set_to_none=False)
    assert torch.equal(tensors[0].grad, torch.zeros(3))


def test_an_autograd_profiler_is_not_switched_on() -> None:
    target = "torch.autograd.profiler.profile"
    with laid(SetArgument(target, "enabled", value=False)) as told:
        with torch.autograd.profiler.profile(record_shapes=True):
            torch.ones(1).sum()
            assert not torch.autograd.profiler._is_profiler_enabled  # type: ignore[attr-defined]
        assert told.times() == 1


def test_a_profiler_with_a_schedule_is_not_switched_on() -> None:
    ready = list[object]()
    edits = [Skip(f"torch.profiler.profile.{one}") for one in ("start", "step", "stop")]
    activities = [torch.profiler.ProfilerActivity.CPU]
    with laid(*edits) as told:
        schedule = torch.profiler.schedule(wait=0, warmup=1, active=1)
        with torch.profiler.profile(
            activities=activities, schedule=schedule, on_trace_ready=ready.append
        ) as profile:
            for _ in range(2):
                torch.ones(1).sum()
                profile.step()
                assert not torch.autograd.profiler._is_profiler_enabled  # type: ignore[attr-defined]
        assert [told.times(at) for at in range(3)] == [1, 2, 1]
    assert ready == []


@pytest.mark.parametrize("name", ["torch.cuda.synchronize", "torch.cuda.empty_cache", "gc.collect"])
def test_calls_are_left_out_also_by_a_name_that_was_imported(name: str) -> None:
    module, _, function = name.rpartition(".")
    owner = {"gc": gc, "torch.cuda": torch.cuda}[module]
    before = getattr(owner, function)
    with laid(Skip(name)) as told:
        names: dict[str, Any] = {}
        exec(f"from {module} import {function}", names)  # noqa: S102
        assert names[function]() is None
        assert getattr(owner, function)() is None
        assert told.times() == 2
    assert getattr(owner, function) is before
    if module == "gc":
        assert isinstance(names[function](), int)


def test_calls_that_torch_makes_itself_are_made() -> None:
    names: dict[str, Any] = {}
    exec(compile("import gc\ndef call(): return gc.collect()", torch.__file__, "exec"), names)  # noqa: S102
    with laid(Skip("gc.collect")) as told:
        assert isinstance(names["call"](), int)
        assert told.times() == 0


def test_several_edits_come_off_in_any_order_of_effect() -> None:
    edits: list[Edit] = [
        SetArgument("torch.optim.SGD", "foreach", value=True),
        SetGlobal("torch.backends.cudnn.benchmark", value=True),
        Skip("gc.collect"),
    ]
    before = torch.optim.SGD.__init__, torch.optim.Optimizer.__init__, gc.collect

    def one(told: Told) -> None:
        torch.optim.SGD(parameters())
        gc.collect()
        assert [told.times(at) for at in range(3)] == [1, 1, 1]

    for _ in range(2):
        with laid(*edits) as told:
            one(told)
        assert before == (torch.optim.SGD.__init__, torch.optim.Optimizer.__init__, gc.collect)
        assert not torch.backends.cudnn.benchmark
