"""What padding gives products with odd sides, and who calls them."""

import pytest

from gapless.catalogue.examples import example_facts
from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.work import example_work
from gapless.catalogue.rules.compute.misaligned_products import misaligned_products
from gapless.model.change import Scale
from gapless.model.finding import Detection
from gapless.model.study import Site


@pytest.mark.parametrize(("kernel", "factor"), [("gemm_bf16_nn_align1>", 0.33), ("gemm_bf16", 0.7)])
def test_another_kernel_than_one_for_any_rows_is_surely_faster(kernel: str, factor: float) -> None:
    sizes = ((1_728_130, 1021), (1021, 1021))
    work = example_work("aten::mm", sizes, 24, "busy.tc_math", dtype="bf16", kernel=kernel)
    sites = (
        Site("aten::mm", "model.py", 9, "forward", 1_000_000, 2 * work.calls),
        Site("aten::mm", "train.py", 31, "train", 1_000_000, work.calls),
    )
    seen = evidence_of(example_facts.gpu(), {"busy.tc_math": 40.0}, work, *sites)
    (detection,) = misaligned_products(seen)
    assert isinstance(detection, Detection)
    assert detection.location is not None
    assert detection.location.line == 31
    (change,) = detection.changes
    assert isinstance(change, Scale)
    assert change.factor.mid == pytest.approx(factor, abs=0.01)
