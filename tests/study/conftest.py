"""What tests of studies share."""

import pytest

from gapless.replay.predict import calibration


@pytest.fixture
def uncalibrated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no residuals widen intervals: a zoo that grows changes what is named of no example."""
    monkeypatch.setattr(calibration, "load_residuals", tuple)
