"""Time without frames between operators: what most steps of the windows have, or samples show."""

import pytest

from gapless.catalogue.examples import example_facts
from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.ranks import evidence_of_ranks
from gapless.catalogue.queries.between_operators import (
    PYTHON,
    SILENT,
    find_hold_up,
    find_whole_function,
    measure_excess,
)
from gapless.catalogue.rules.host.python_bound import python_bound
from gapless.model.change import HostChange
from gapless.model.finding import Detection
from gapless.model.host_code import CallLine, HostCode, HotLine

_WORK = {"busy.math": 10.0}
_SILENCE = _WORK | {SILENT: 4.0}
_SAMPLED = HostCode("python", 0.1, 0.5, "train.py", 9, "count", None, 0.05, 400)


@pytest.mark.parametrize(
    ("steps", "codes", "silent_ms"),
    [
        ((_SILENCE, _SILENCE, _SILENCE), (), 4.0),
        ((_SILENCE, _SILENCE, _WORK), (), 8 / 3),
        ((_SILENCE, _WORK, _WORK), (), 0.0),
        ((_SILENCE, _WORK, _WORK), (_SAMPLED,), 0.05 * (10 + 4 / 3)),
    ],
    ids=["every", "most", "one", "one, sampled"],
)
def test_a_silence_of_one_step_counts_as_far_as_samples_of_the_run_show_it(
    steps: tuple[dict[str, float], ...], codes: tuple[HostCode, ...], silent_ms: float
) -> None:
    evidence = evidence_of_ranks(example_facts.cpu(), steps, parts=codes)
    assert measure_excess(evidence).silent_ns == pytest.approx(
        1e6 * silent_ms, rel=0.2
    )  # steps take turns
    assert bool(python_bound(evidence)) is (silent_ms > 1.0 or bool(codes))


_PLACE = "model.py", 19, "masked"
_FORWARD = CallLine("model.py", 40, "Net.forward", "model.py", "masked", 0.8)


_DROPOUT = CallLine(*_PLACE, "torch/nn/functional.py", "dropout", 0.1)


@pytest.mark.parametrize(
    ("kind", "python_ms", "calls", "is_whole"),
    [
        ("python", 28.0, (_FORWARD,), True),
        ("python", 12.0, (_FORWARD,), False),
        ("sleep", 28.0, (_FORWARD,), False),
        ("python", 28.0, (_FORWARD, _DROPOUT), False),
    ],
    ids=["a helper", "mostly operators", "a wait", "it trains"],
)
def test_a_function_of_python_goes_with_what_it_copies_where_a_device_waits(
    kind: str, python_ms: float, calls: tuple[CallLine, ...], *, is_whole: bool
) -> None:
    leaves = {"busy.math": 2.0, "copy.h2d.pageable": 4.0, "idle.h2d.host": 6.0}
    leaves |= {PYTHON: python_ms, "idle.host.dispatch": 28.1 - python_ms}
    code = HostCode(kind, 0.75, 1.0, *_PLACE, None, 0.75, 400)
    line = HotLine("training", *_PLACE, 360, 0.8)
    for facts in (example_facts.gpu(), example_facts.cpu()):
        evidence = evidence_of(facts, leaves, code, line, *calls)
        share = find_whole_function(evidence, code, python_ms * 1e6)
        assert (share is not None) is (is_whole and evidence.on_device)
        (detection,) = python_bound(evidence)
        assert isinstance(detection, Detection)
        (change,) = detection.changes
        assert isinstance(change, HostChange)
        assert ("copy." in change.leaves) is (share is not None)
        if share is not None:
            assert (share.mid, change.sampled) == (pytest.approx(0.8), True)


def test_what_runs_at_the_line_of_a_sleep_is_none_of_it() -> None:
    step_ns, place = 10e6, ("train.py", 5, "<module>")
    sleep = HostCode("sleep", 0.7, 1.0, *place, None, 1.0, 400)
    solver = HostCode("python", 0.28, 1.0, *place, "numpy", 1.0, 400)
    alone = HostCode("sleep", 0.7, 1.0, *place, None, 0.72, 400)
    for codes, share in (((sleep, solver), 0.72), ((alone,), 0.72)):
        evidence = evidence_of(example_facts.cpu(), {"busy.math": 0.1, SILENT: 9.9}, *codes)
        code, held_ns = find_hold_up(evidence, measure_excess(evidence))
        assert code == codes[0]
        assert held_ns.mid == pytest.approx(share * step_ns)
        assert held_ns.high < 0.8 * step_ns
