"""Another process on the device: what it takes is what the windows show in most steps."""

import pytest
from msgspec.structs import replace

from gapless.catalogue.examples import example_facts
from gapless.catalogue.examples.evidence import evidence_of, with_recorded
from gapless.catalogue.examples.parts import operator
from gapless.catalogue.rules.machine.shared_device import shared_device
from gapless.catalogue.rules.memory.emptied_cache import emptied_cache
from gapless.model.change import Drop, HostChange
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection
from gapless.model.run import DeviceState

WAITS = "idle.device.wait"


def shared_evidence(waiting: int, n_steps: int = 4, wait_ms: float = 25) -> Evidence:
    """Return a run with others on its device, that waits in so many steps of its windows."""
    evidence = evidence_of(example_facts.gpu(), {"busy.tc_math": 40, WAITS: wait_ms})
    account = evidence.study.account
    row = account.rows[0]
    row_alone = replace(row, leaves={**row.leaves, WAITS: 0})
    rows = tuple(row if index < waiting else row_alone for index in range(n_steps))
    study = replace(evidence.study, account=replace(account, rows=rows))
    state = DeviceState(0, 0.98, 1980.0, 1980.0, {}, 0.9, None, None, None)
    return with_recorded(replace(evidence, study=study), devices_seen=(state,))


def find_detection(evidence: Evidence) -> Detection:
    (detection,) = shared_device(evidence)
    assert isinstance(detection, Detection)
    return detection


@pytest.mark.parametrize(("waiting", "keep"), [(0, 1.0), (1, 1.0), (2, 0.0), (4, 0.0)])
def test_a_wait_in_a_single_step_is_not_held_against_them(waiting: int, keep: float) -> None:
    assert find_detection(shared_evidence(waiting)).changes == (Drop((WAITS,), keep=keep),)


def test_a_little_in_each_step_is_theirs() -> None:
    assert find_detection(shared_evidence(4, wait_ms=2)).changes == (Drop((WAITS,)),)
    assert find_detection(shared_evidence(4, wait_ms=0.1)).changes == (Drop((WAITS,), keep=1.0),)


def test_what_they_take_is_told_only_where_it_shows() -> None:
    assert "starts at once" in find_detection(shared_evidence(1)).summary
    assert "has to wait" in find_detection(shared_evidence(3)).summary


@pytest.mark.parametrize(
    ("n_calls", "host_ms", "own_share"),
    [(100, 1.0, 1.0), (10, 1.0, 0.2), (0.5, 0.1, 0.01), (0, 0.0, 0.0), (5, 10.0, 0.4)],
)
def test_a_wait_is_its_own_as_far_as_steps_of_windows_ask_for_memory(
    n_calls: float, host_ms: float, own_share: float
) -> None:
    facts = example_facts.gpu(empty_cache=30)  # in 312 steps: windows may show none of them
    parts = (operator("cudaMalloc", n_calls, host_ms),) if n_calls else ()
    evidence = evidence_of(facts, {"busy.tc_math": 40, WAITS: 25}, *parts)
    (detection,) = emptied_cache(evidence)
    assert isinstance(detection, Detection)
    kept = [change for change in detection.changes if isinstance(change, HostChange)]
    assert [change.factor.mid for change in kept] == pytest.approx([1 - own_share] * bool(n_calls))
    others = [found for found in shared_device(evidence) if isinstance(found, Detection)]
    kept_by_others = [
        change.keep
        for detection in others
        for change in detection.changes
        if isinstance(change, Drop)
    ]
    assert kept_by_others == pytest.approx([own_share] * (own_share < 1))
