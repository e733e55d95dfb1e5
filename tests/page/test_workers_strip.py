"""What workers did is drawn on the axis of the window."""

from pathlib import Path
from typing import Final

import numpy as np
import pytest

from gapless.model.picture import Picture, StripKind
from gapless.model.study import Study
from gapless.page.charts import chart_columns
from gapless.store.run.unpack import unpack
from gapless.study import Options, open_study

RECORDS: Final = Path(__file__).parents[1] / "zoo" / "records"
CLOSE_NS: Final = 300_000  # a step as the marks have it and as the window has it


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("record")
    run = unpack(RECORDS / "pictures-one-worker-c" / "run.tar.zst", folder)
    return open_study([run], Options(cache=False, diagnose=False, pictured=True))


@pytest.fixture
def picture(study: Study) -> Picture:
    assert study.picture is not None
    return study.picture


def test_steps_of_the_marks_lie_where_those_of_the_window_are(
    study: Study, picture: Picture
) -> None:
    assert study.recorded is not None
    pace = study.recorded.pace
    assert pace is not None
    assert picture.run_offset_ns is not None
    starts = pace.ends_ns - pace.lengths_ns - picture.run_offset_ns
    for step in picture.steps:
        assert int(np.abs(starts - step.start).min()) < CLOSE_NS


def test_a_worker_has_a_strip_with_its_batches(picture: Picture) -> None:
    (strip,) = [strip for strip in picture.strips if strip.kind is StripKind.WORKER]
    assert strip.title == "worker 0"
    assert len(strip.start) >= 1
    assert (strip.start >= 0).all()
    assert (strip.start < strip.end).all()
    assert (strip.end <= picture.length_ns).all()
    numbers: list[int] = strip.name.tolist()
    texts = [picture.names[number] for number in numbers]
    assert all(text.endswith("16 samples") for text in texts)


def test_a_step_of_the_run_knows_its_place_in_the_timeline(study: Study, picture: Picture) -> None:
    spans = [span for span in chart_columns(study)["steps"]["span"] if span is not None]
    assert len(spans) >= len(picture.steps)
    assert all(start < picture.length_ns and end > 0 for start, end in spans)
