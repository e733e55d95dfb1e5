"""Synchronising calls as marks: ``hooks/syncs.py``."""

from collections.abc import Callable

import pytest
import torch

from gapless import wire
from tests.payload import hooking


def test_a_synchronising_call_is_a_mark_at_the_users_line(monkeypatch: pytest.MonkeyPatch) -> None:
    devices: list[object] = []

    def synchronize(device: object = None) -> None:
        """Wait."""
        devices.append(device)

    monkeypatch.setattr(torch.cuda, "synchronize", synchronize)
    with hooking.install_hooks("syncs") as recorder:
        torch.cuda.synchronize()
        torch.cuda.synchronize(device="cuda:0")
        assert torch.cuda.synchronize.__doc__ == "Wait."
    assert devices == [None, "cuda:0"]
    assert torch.cuda.synchronize is synchronize
    marks = recorder.marks_of(wire.SYNC)
    assert [recorder.sites[mark.subject][0] for mark in marks] == [__file__, __file__]
    assert marks[0].subject != marks[1].subject


def test_methods_of_events_and_streams_are_seen_and_put_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Event:
        def synchronize(self) -> str:
            return "waited"

    plain = vars(Event)["synchronize"]
    monkeypatch.setattr(torch.cuda.streams, "Event", Event)
    with hooking.install_hooks("syncs") as recorder:
        assert Event().synchronize() == "waited"
    assert vars(Event)["synchronize"] is plain
    assert len(recorder.marks_of(wire.SYNC)) == 1


def test_methods_of_tensors_are_left_alone() -> None:
    names = ("item", "cpu", "tolist", "numpy", "to", "__bool__", "__float__", "nonzero")
    before = [getattr(torch.Tensor, name) for name in names]
    with hooking.install_hooks("syncs"):
        assert [getattr(torch.Tensor, name) for name in names] == before


def test_a_failing_call_fails_as_it_would() -> None:
    if torch.cuda.is_available():
        pytest.skip("here it does not fail")
    plain = hooking.traceback_of(lambda: torch.cuda.synchronize(None))
    with hooking.install_hooks("syncs") as recorder:
        observed = hooking.traceback_of(lambda: torch.cuda.synchronize(None))
    assert [line for line in plain if "test_syncs" not in line] == [
        line for line in observed if "test_syncs" not in line
    ]
    assert [mark.flags for mark in recorder.marks_of(wire.SYNC)] == [wire.RAISED]
    assert not torch.cuda.is_initialized()


def compile_whole(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    return torch.compile(function, backend="eager", fullgraph=True)


@pytest.mark.parametrize("hook", ["evaluation", "precision"])  # synchronize itself is refused
def test_a_graph_stays_whole_under_torch_compile(hook: str) -> None:
    """A wrapper that the compiler cannot follow would raise with ``fullgraph=True``."""
    layer = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.5))

    def step(x: torch.Tensor) -> torch.Tensor:
        if hook == "evaluation":
            layer.eval()
        with torch.autocast("cpu", enabled=hook == "precision"):
            return layer(x)

    with hooking.install_hooks(hook) as recorder:
        layer.eval()
        n_marks = len(recorder.marks)
        assert compile_whole(step)(torch.ones(1, 2)).shape == (1, 2)
    torch.compiler.reset()
    assert len(recorder.marks) == n_marks


@pytest.mark.gpu
def test_the_real_calls_are_seen_on_a_device() -> None:
    with hooking.install_hooks("syncs") as recorder:
        torch.cuda.synchronize()
        event = torch.cuda.Event()
        event.record()
        event.synchronize()
        torch.cuda.current_stream().synchronize()
    assert len(recorder.marks_of(wire.SYNC)) == 3
