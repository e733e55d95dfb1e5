"""What products in half precision would take in fp32, where no peak was measured."""

from gapless.catalogue.examples import example_facts
from gapless.catalogue.examples.evidence import evidence_of as stated
from gapless.catalogue.examples.work import example_work
from gapless.catalogue.rules.compute.emulated_half import emulated_half
from gapless.model.change import Scale
from gapless.model.estimate import Estimate
from gapless.model.finding import Detection


def _product_factor(ms: float, width: int) -> Estimate:
    facts = example_facts.cpu(
        example_facts.machine(device=None, capability=None, bf16=False),
        example_facts.precision(autocast={"cpu": "torch.bfloat16"}),
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
