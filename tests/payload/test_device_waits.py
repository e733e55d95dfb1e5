"""Calls of C that may wait for a device are told by what Python calls there."""

import dis
import sys
from types import CodeType, FunctionType, SimpleNamespace

import pytest

from gapless.payload.stacks import device_waits

# Never called: its code is read.
TEXT = """
def train(loss, batch, device, best, names):
    {line}
"""
READS = (
    "loss.item()",
    "loss.detach().flatten()[:10].tolist()",
    "float(loss)",
    "float(loss.sum())",
    "batch.to(device)",
    "batch.to(device, non_blocking=True)",
    "min(best, loss.detach().sum())",
    "print(loss)",
)
OTHERS = ("loss.sum()", "len(names)", "names.append(loss)", "loss.mean()", "names.copy()")


def last_call(line: str) -> tuple[CodeType, int]:
    scope: dict[str, FunctionType] = {}
    exec(TEXT.format(line=line), scope)  # noqa: S102 - the lines above
    code = scope["train"].__code__
    calls = [step.offset for step in dis.get_instructions(code) if step.opname.startswith("CALL")]
    return code, calls[-1]


@pytest.fixture
def _on_device(monkeypatch: pytest.MonkeyPatch) -> None:
    device_waits.forget()
    monkeypatch.setitem(sys.modules, "torch.cuda", SimpleNamespace(_initialized=True))


@pytest.mark.usefixtures("_on_device")
@pytest.mark.parametrize("line", READS)
def test_reading_and_copying_may_wait(line: str) -> None:
    assert device_waits.may_wait(*last_call(line))


@pytest.mark.usefixtures("_on_device")
@pytest.mark.parametrize("line", OTHERS)
def test_launching_and_pure_python_do_not(line: str) -> None:
    assert not device_waits.may_wait(*last_call(line))


def test_without_a_device_nothing_waits_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    device_waits.forget()
    monkeypatch.setitem(sys.modules, "torch.cuda", SimpleNamespace(_initialized=False))
    assert not device_waits.may_wait(*last_call("loss.item()"))
