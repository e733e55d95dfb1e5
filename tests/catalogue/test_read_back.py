"""Tensors that are copied to the host and back in a step: what goes with them, and where."""

import pytest

from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.example_facts import gpu
from gapless.catalogue.examples.parts import example_copies, operator
from gapless.catalogue.rules.copies.read_back import read_back
from gapless.model.change import ZERO_FACTOR, Drop, Omit, Scale
from gapless.model.edit import Location
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection
from gapless.model.host_code import CallLine

_LEAVES = {"busy.tc_math": 10, "copy.d2h": 4, "copy.h2d.pageable": 5, "idle.h2d.host": 3}
_BACKWARD = CallLine("train.py", 31, "train", "torch/_tensor.py", "Tensor.backward", 0.5)
_HOOKS = "torch/autograd/graph.py"


def parking(*parts: object) -> Evidence:
    """Return evidence of 30 tensors that are copied to the host and back, and of a batch."""
    return evidence_of(
        gpu(),
        _LEAVES | {"idle.sync.refill": 3},
        example_copies("DtoH", "pageable", calls=30, ms=4, mib=40),
        example_copies("HtoD", "pageable", calls=40, ms=5, mib=44),
        operator("cudaStreamSynchronize", calls=80, host_ms=4),
        _BACKWARD,
        *parts,
    )


@pytest.mark.parametrize(
    ("n_conversions", "is_omitted"),
    [(62, True), (30, False), (400, False)],
    ids=["copies", "into pinned memory", "casts beside them"],
)
def test_both_ways_go_whatever_their_calls_are(n_conversions: int, *, is_omitted: bool) -> None:
    (detection,) = read_back(parking(operator("aten::_to_copy", calls=n_conversions, host_ms=14)))
    assert isinstance(detection, Detection)
    if is_omitted:
        back = Scale(ZERO_FACTOR, leaves=("copy.d2h",))
        assert detection.changes == (Omit(("aten::_to_copy",), keep=1 - 60 / 62), back)
        return
    to_host, waits, to_device, calls = detection.changes
    assert isinstance(to_host, Scale)
    assert isinstance(waits, Drop)
    assert isinstance(to_device, Scale)
    assert isinstance(calls, Drop)
    assert (to_host.leaves, to_device.leaves) == (("copy.d2h",), ("copy.h2d",))
    assert (to_host.factor.mid, to_device.factor.mid) == (0.0, 0.25)  # the batches' ten of 40 stay
    assert (waits.keep, calls.keep) == (0.25, 0.25)


def test_tensors_are_saved_where_a_hook_packs_them_not_where_one_unpacks() -> None:
    lines = (
        CallLine("train.py", 30, "train", "model.py", "Net.forward", 0.1),
        CallLine("model.py", 12, "Net.forward", _HOOKS, "save_on_cpu.__init__.pack_to_cpu", 0.1),
        CallLine("train.py", 33, "train", "model.py", "penalty", 0.3),
        CallLine("model.py", 40, "penalty", _HOOKS, "save_on_cpu.__init__.unpack_from_cpu", 0.3),
    )
    (detection,) = read_back(parking(operator("aten::_to_copy", calls=62, host_ms=14), *lines))
    assert isinstance(detection, Detection)
    assert detection.location == Location("train.py", 30, "train")
