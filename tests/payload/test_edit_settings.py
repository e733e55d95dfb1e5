# ruff: noqa: SLF001
# pyright: reportPrivateUsage=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Arguments, settings and skips on torch's own objects: each takes effect and comes off again."""

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch

from gapless.model.edit import Edit, SetArgument, SetGlobal, Skip
from tests.payload.laying import EditLog, apply_edits

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
    ("edit", "ask", "set_theirs"), SETTINGS, ids=[setting[0].target for setting in SETTINGS]
)
def test_a_setting_is_ours_whatever_the_training_sets(
    edit: SetGlobal, ask: Callable[[], object], set_theirs: Callable[[], object]
) -> None:
    before = ask()
    assert before != edit.value
    with apply_edits(edit) as edit_log:
        assert ask() == edit.value
        set_theirs()
        assert ask() == edit.value
        assert edit_log.values[0]["old"] == before
        assert edit_log.unobserved == []
    assert ask() == before
    set_theirs()
    assert ask() == before


NEWER = hasattr(torch.backends, "fp32_precision")


@pytest.mark.skipif(not NEWER, reason="this torch has one style of names only")
@pytest.mark.parametrize("style", ["older", "oldest", "newer"])
def test_older_and_newer_names_of_tf32_may_meet(style: str) -> None:
    """Torch raises where it is asked by the older name after it was set by the newer one."""
    older = SetGlobal(f"{MATMUL}.allow_tf32", value=True)
    newer = SetGlobal(f"{MATMUL}.fp32_precision", value="tf32")
    edit = {
        "older": older,
        "newer": newer,
        "oldest": SetGlobal("torch.set_float32_matmul_precision", "high"),
    }[style]
    matmul: Any = torch.backends.cuda.matmul
    ask: Any = torch._C._get_fp32_precision_getter  # type: ignore[attr-defined]
    before = ask("cuda", "matmul")
    set_: Any = torch._C._set_fp32_precision_setter  # type: ignore[attr-defined]
    try:
        with apply_edits(edit) as edit_log:
            if edit is not newer:
                matmul.fp32_precision = "ieee"
            else:
                matmul.allow_tf32 = False
            edit_log.edge()
            assert ask("cuda", "matmul") == "tf32"
            if edit is not newer:
                assert matmul.allow_tf32  # asked by compilers, and does not raise
            assert edit_log.unobserved == []
            assert edit_log.times() > 0
    finally:
        set_("cuda", "matmul", before)


def test_anomaly_detection_stays_off_however_it_is_asked_for() -> None:
    with apply_edits(SetGlobal("torch.set_anomaly_enabled", value=False)) as edit_log:
        with (
            pytest.warns(UserWarning, match="Anomaly Detection"),
            torch.autograd.detect_anomaly(check_nan=False),
        ):
            assert not torch.is_anomaly_enabled()
        with torch.autograd.set_detect_anomaly(mode=True):
            assert not torch.is_anomaly_enabled()
        torch.autograd.set_detect_anomaly(mode=True)
        assert not torch.is_anomaly_enabled()
        assert edit_log.times() >= 3
    with torch.autograd.set_detect_anomaly(mode=True):
        assert torch.is_anomaly_enabled()


CONCRETE = [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop]


@pytest.mark.parametrize("kind", CONCRETE)
def test_foreach_reaches_the_optimizer(kind: Any) -> None:  # noqa: ANN401
    name = f"torch.optim.{kind.__name__}"
    with apply_edits(SetArgument(name, "foreach", value=True)) as edit_log:
        optimizer = kind(parameters(), foreach=False)
        assert optimizer.param_groups[0]["foreach"] is True
        assert (edit_log.values[0]["old"], edit_log.values[0]["new"], edit_log.times()) == (
            False,
            True,
            1,
        )
    assert kind(parameters(), foreach=False).param_groups[0]["foreach"] is False


@pytest.mark.parametrize("kind", CONCRETE[:3])
def test_fused_reaches_the_optimizer_and_goes_with_foreach_switched_off(kind: Any) -> None:  # noqa: ANN401
    name = f"{kind.__module__}.{kind.__qualname__}"  # as facts name it
    edits = SetArgument(name, "fused", value=True), SetArgument(name, "foreach", value=False)
    with apply_edits(*edits) as edit_log:
        tensors = parameters()
        optimizer = kind(tensors, lr=0.5, foreach=True)
        tensors[0].grad = torch.ones(3)
        optimizer.step()
        assert (tensors[0] < 1).all()
        assert optimizer.param_groups[0]["fused"] is True
        assert (edit_log.times(0), edit_log.times(1)) == (1, 1)


def test_a_class_without_the_argument_is_refused() -> None:
    with apply_edits(SetArgument("torch.optim.LBFGS", "fused", value=True)) as edit_log:
        torch.optim.LBFGS(parameters())
        assert edit_log.times() == 0
        assert len(edit_log.unobserved) == 1
        assert "there is no argument 'fused'" in edit_log.unobserved[0]


def test_what_torch_refuses_is_made_as_it_was_written_and_told() -> None:
    with apply_edits(SetArgument("torch.optim.AdamW", "fused", value=True)) as edit_log:
        optimizer = torch.optim.AdamW(parameters(), differentiable=True)  # refused at once
        assert not optimizer.param_groups[0]["fused"]
        assert len(optimizer.param_groups) == 1
        assert edit_log.times() == 0
        assert "`fused` does not support `differentiable`" in edit_log.unobserved[0]


def test_tensors_that_cannot_be_fused_are_stepped_as_it_was_written_and_told() -> None:
    with apply_edits(SetArgument("torch.optim.AdamW", "fused", value=True)) as edit_log:
        tensors = [torch.ones(3, dtype=torch.complex64, requires_grad=True)]
        optimizer = torch.optim.AdamW(tensors, lr=0.5)
        for _ in range(2):
            tensors[0].grad = torch.ones(3, dtype=torch.complex64)
            optimizer.step()
        assert (tensors[0].real < 1).all()
        assert len(edit_log.unobserved) == 1
        assert "`fused=True` requires" in edit_log.unobserved[0]


def test_gradients_are_dropped() -> None:
    targets = "torch.optim.Optimizer.zero_grad", "torch.nn.Module.zero_grad"
    with apply_edits(
        *(SetArgument(target, "set_to_none", value=True) for target in targets)
    ) as edit_log:
        tensors = parameters()
        optimizer = torch.optim.SGD(tensors, lr=0.1)
        net = torch.nn.Linear(1, 1)
        for zero in (optimizer.zero_grad, net.zero_grad):
            tensors[0].grad = torch.ones(3)
            net.weight.grad = torch.ones(1, 1)
            zero(set_to_none=False)
        assert net.weight.grad is None
        assert (edit_log.times(0), edit_log.times(1)) == (1, 1)
        optimizer.zero_grad(set_to_none=False)
        assert tensors[0].grad is None
    tensors[0].grad = torch.ones(3)
    optimizer.zero_grad(set_to_none=False)
    assert torch.equal(tensors[0].grad, torch.zeros(3))


def test_an_autograd_profiler_is_not_switched_on() -> None:
    target = "torch.autograd.profiler.profile"
    with apply_edits(SetArgument(target, "enabled", value=False)) as edit_log:
        with torch.autograd.profiler.profile(record_shapes=True):
            torch.ones(1).sum()
            assert not torch.autograd.profiler._is_profiler_enabled  # type: ignore[attr-defined]
        assert edit_log.times() == 1


def test_a_profiler_with_a_schedule_is_not_switched_on() -> None:
    ready = list[object]()
    edits = [Skip(f"torch.profiler.profile.{method}") for method in ("start", "step", "stop")]
    activities = [torch.profiler.ProfilerActivity.CPU]
    with apply_edits(*edits) as edit_log:
        schedule = torch.profiler.schedule(wait=0, warmup=1, active=1)
        with torch.profiler.profile(
            activities=activities, schedule=schedule, on_trace_ready=ready.append
        ) as profile:
            for _ in range(2):
                torch.ones(1).sum()
                profile.step()
                assert not torch.autograd.profiler._is_profiler_enabled  # type: ignore[attr-defined]
        assert [edit_log.times(number) for number in range(3)] == [1, 2, 1]
    assert ready == []


@pytest.mark.parametrize("name", ["torch.cuda.synchronize", "torch.cuda.empty_cache", "gc.collect"])
def test_calls_are_left_out_also_by_a_name_that_was_imported(name: str) -> None:
    module, _, function = name.rpartition(".")
    owner = {"gc": gc, "torch.cuda": torch.cuda}[module]
    before = getattr(owner, function)
    with apply_edits(Skip(name)) as edit_log:
        names: dict[str, Any] = {}
        exec(f"from {module} import {function}", names)  # noqa: S102
        assert names[function]() is None
        assert getattr(owner, function)() is None
        assert edit_log.times() == 2
    assert getattr(owner, function) is before
    if module == "gc":
        assert isinstance(names[function](), int)


def test_calls_that_torch_makes_itself_are_made() -> None:
    names: dict[str, Any] = {}
    exec(compile("import gc\ndef call(): return gc.collect()", torch.__file__, "exec"), names)  # noqa: S102
    with apply_edits(Skip("gc.collect")) as edit_log:
        assert isinstance(names["call"](), int)
        assert edit_log.times() == 0


def test_several_edits_come_off_in_any_order_of_effect() -> None:
    edits: list[Edit] = [
        SetArgument("torch.optim.SGD", "foreach", value=True),
        SetGlobal("torch.backends.cudnn.benchmark", value=True),
        Skip("gc.collect"),
    ]
    before = torch.optim.SGD.__init__, torch.optim.Optimizer.__init__, gc.collect

    def use_all(edit_log: EditLog) -> None:
        torch.optim.SGD(parameters())
        gc.collect()
        assert [edit_log.times(number) for number in range(3)] == [1, 1, 1]

    for _ in range(2):
        with apply_edits(*edits) as edit_log:
            use_all(edit_log)
        assert before == (torch.optim.SGD.__init__, torch.optim.Optimizer.__init__, gc.collect)
        assert not torch.backends.cudnn.benchmark
