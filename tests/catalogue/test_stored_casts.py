"""Casts to a type that nothing computes with go altogether; those of mixed precision do not."""

import pytest

from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.example_facts import gpu, world
from gapless.catalogue.examples.parts import kernel, operator
from gapless.catalogue.examples.work import example_work
from gapless.catalogue.queries.compute import find_stored_casts
from gapless.catalogue.rules.compute.cast_traffic import cast_traffic
from gapless.model.change import Omit, Scale
from gapless.model.finding import Detection
from gapless.model.tables import Operator
from gapless.model.work import Work

SIZES = ((4096, 4096),) * 2
TO_HALF = example_work("aten::copy_", SIZES, 2, "busy.cast", dtype="fp16", calls=20)
BACK = example_work("aten::copy_", SIZES, 4, "busy.cast", dtype="fp32", calls=20)
PRODUCT = example_work("aten::mm", SIZES, 20, "busy.tc_math", dtype="fp32", calls=10)


@pytest.mark.parametrize(
    ("rows", "share"),
    [
        ((TO_HALF, BACK, PRODUCT), 1.0),
        ((TO_HALF, PRODUCT), 0.0),  # for what no row shows
        ((BACK, PRODUCT), 0.0),  # such as masks that become numbers
        (
            (
                TO_HALF,
                BACK,
                example_work("aten::mm", SIZES, 9, "busy.tc_math", dtype="fp16", calls=10),
            ),
            0.0,  # mixed precision
        ),
        (
            (
                TO_HALF,
                example_work("aten::copy_", SIZES, 8, "busy.cast", dtype="fp32", calls=40),
                PRODUCT,
            ),
            0.6,
        ),
        ((TO_HALF, BACK), 0.0),  # what computes is not known
    ],
)
def test_casts_back_are_counted_as_there_are_casts_to_it(
    rows: tuple[Work, ...], share: float
) -> None:
    evidence = evidence_of(gpu(), {"busy.tc_math": 20, "busy.cast": 6}, *rows)
    assert find_stored_casts(evidence).share == pytest.approx(share)


def test_what_ranks_send_each_other_is_not_only_stored() -> None:
    evidence = evidence_of(gpu(world(ranks=2)), {"busy.cast": 6}, TO_HALF, BACK)
    assert find_stored_casts(evidence).share == 0.0


def test_calls_go_with_casts_that_only_store() -> None:
    def change(*rows: Work | Operator) -> object:
        casts = kernel("float16_copy_kernel_cuda", 40, 6, "busy.cast")
        evidence = evidence_of(gpu(), {"busy.tc_math": 20, "busy.cast": 6}, casts, *rows)
        (detection,) = cast_traffic(evidence)
        assert isinstance(detection, Detection)
        return detection.changes[0]

    assert change(TO_HALF, BACK, PRODUCT) == Omit(("aten::_to_copy",), keep=0.0)
    other_copies = operator("aten::_to_copy", calls=80, host_ms=1)
    assert change(TO_HALF, BACK, PRODUCT, other_copies) == Omit(("aten::_to_copy",), keep=0.5)
    assert isinstance(change(BACK, PRODUCT), Scale)
