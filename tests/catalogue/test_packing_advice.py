"""gapless pack is named where reads block, with what packing takes, and nowhere else."""

import pytest
from msgspec.structs import replace

from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.example_facts import gpu, loader
from gapless.catalogue.examples.parts import example_use, example_workers
from gapless.catalogue.rules.input.read_bound import read_bound
from gapless.model.facts import Loader
from gapless.model.finding import Detection

_LOADER = loader(num_workers=16, prefetch_factor=2)


def advise(data_loader: Loader, stage: str) -> str:
    use = example_use(
        data_loader, {stage: 90.0}, example_workers(16, {stage: (9.0, 0.3), "decode": 0.5})
    )
    step = {"busy.math": 10.0, f"idle.data.{stage}": 90.0}
    (detection,) = read_bound(evidence_of(gpu(data_loader), step, use))
    assert isinstance(detection, Detection)
    return detection.no_remedy or ""


@pytest.mark.parametrize(
    ("length", "price"),
    [
        (10_000, "(10,000 samples, in batches 5.8 GiB; files stay as large as they are)."),
        (1_000_000, "reading them once takes 10 min as they are read now)."),
        (None, "the line that reads them back. "),
    ],
)
def test_blocked_reads_are_answered_with_the_command_and_its_price(
    length: int | None, price: str
) -> None:
    advice = advise(replace(_LOADER, length=length), "read")
    assert advice.startswith("gapless pack SOURCE TARGET ")
    assert price in advice


def test_what_is_no_read_or_has_no_index_is_not_to_be_packed() -> None:
    assert "gapless pack" not in advise(_LOADER, "other")
    assert "gapless pack" not in advise(replace(_LOADER, iterable=True), "read")
