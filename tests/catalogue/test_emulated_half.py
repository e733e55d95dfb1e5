"""What products in half precision would take in fp32, where no peak was measured."""

from gapless.catalogue import examples
from gapless.catalogue.rules.emulated_half import emulated_half
from gapless.catalogue.seen_examples import evidence_of as stated
from gapless.catalogue.work_examples import example_work
from gapless.model.change import Scale
from gapless.model.finding import Detection
from gapless.model.interval import Estimate


def _product_factor(ms: float, width: int) -> Estimate:
    facts = examples.cpu(
        examples.machine(device=None, capability=None, bf16=False),
        examples.precision(autocast={"cpu": "torch.bfloat16"}),
    )
    sizes = ((width, width), (width, width))
    work = example_work("aten::mm", sizes, ms, "busy.math", dtype="bf16", launches=0)
    (detection,) = emulated_half(stated(facts, {"busy.math": ms}, work))
    assert isinstance(detection, Detection)
    (change,) = detection.changes
    assert isinstance(change, Scale)
    return change.factor


def test_large_products_surely_go_faster() -> None:
    seventy_times = _product_factor(905.0, 512)
    assert seventy_times.high < 0.1
    assert seventy_times.low == 0.02


def test_of_products_that_run_as_fast_as_fp32_little_is_promised() -> None:
    assert _product_factor(0.02, 32).high == 0.9
