"""Constants that were kept, in a run's study: of the same machine, told as another time's."""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from gapless.launch.probing import Asked
from gapless.model.machine import Constant, Constants, Gpu, Place
from gapless.model.recording import Recording
from gapless.store import constants as store
from gapless.store.recordings import load
from gapless.study.machine_constants import Told, kept_of
from gapless.study.options import Options
from gapless.study.recorded import constants
from gapless.study.recorded.making import accounted, prices

STORY = Path(__file__).parents[1] / "data/runs/2026-11-21T17-12-53-8a06"
GPU = Gpu("a GPU", "6B29-11", "580.1", 1 << 34, 0)
PLACE = Place("/usr/bin/python3", "3.12.3", "2.11.0", "a processor", 16, gpu=GPU)
TOLD = Told("3.12.3", "2.11.0+cu130", "a processor", 16, True, "gpu-6b29-11", "580.1", 1e9)  # noqa: FBT003
DAY = 86_400.0


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAPLESS_CACHE", str(tmp_path / "cache"))


def keep(place: Place = PLACE, at: float = 1e9, launch: float = 2100.0, **more: object) -> None:
    one = Constant("launch.call", "ns", None, launch, 2000.0, 2400.0, 30, 0.5)
    found = replace(Constants(place, (one,), ("launches",), at, 3.5), **more)  # type: ignore[arg-type]
    device = None if place.gpu is None else 0
    assert store.save(found, " ".join(Asked(device=device).options())) is None


def launch(told: Told) -> float | None:
    found = kept_of(told)
    return None if found is None else found.value("launch.call")


def test_what_was_measured_on_the_same_machine_is_found() -> None:
    assert kept_of(TOLD) is None
    keep()
    assert launch(TOLD) == 2100.0


@pytest.mark.parametrize(
    "other",
    [
        {"python": "3.12.4"},
        {"torch": "2.12.0"},
        {"torch": None},
        {"processor": "another"},
        {"processors": 8},
        {"processors": None},
        {"uuid": "6b29-12"},
        {"uuid": None},
        {"driver": "580.2"},
        {"driver": None},
        {"at_unix_s": 1e9 + 31 * DAY},
        {"at_unix_s": 1e9 - 31 * DAY},
    ],
    ids=str,
)
def test_of_another_machine_or_time_or_one_that_is_not_told_nothing_holds(
    other: Mapping[str, object],
) -> None:
    keep()
    assert launch(replace(TOLD, **other)) is None  # type: ignore[arg-type]


def test_builds_of_torch_are_compared_where_both_tell_them() -> None:
    keep(replace(PLACE, torch="2.11.0+cu128"))
    assert launch(TOLD) is None
    assert launch(replace(TOLD, torch="2.11.0")) == 2100.0


def test_what_was_measured_beside_others_is_not_taken() -> None:
    keep(alone=False)
    assert kept_of(TOLD) is None


def test_what_did_not_come_to_its_end_has_what_it_has() -> None:
    keep(whole=False, at=1e9 + 20 * DAY)
    assert launch(TOLD) == 2100.0


def test_a_run_without_a_gpu_asks_for_none() -> None:
    keep(replace(PLACE, gpu=None))
    assert kept_of(TOLD) is None
    assert launch(replace(TOLD, device=False, uuid=None, driver=None)) == 2100.0


def test_the_nearest_in_time_is_taken() -> None:
    keep(at=1e9 - 2 * DAY, launch=1.0)
    keep(replace(PLACE, executable="/usr/bin/python"), at=1e9 + DAY, launch=2.0)
    assert launch(TOLD) == 2.0


# ── In a study ──────────────────────────────────────────────────────────────────────────────────


def recorded(**values: object) -> Recording:
    """Give the story, as if its process had told where it ran."""
    found = load(STORY)
    (fact,) = (one for one in found.processes[0].facts if one.noun == "machine")
    more = replace(fact, values={**fact.values, **values})
    facts = tuple(more if one is fact else one for one in found.processes[0].facts)
    first = replace(found.processes[0], facts=facts)
    return replace(found, processes=(first, *found.processes[1:]))


WHERE = {
    "processor": "a processor",
    "processors": 16,
    "device_uuid": "6b29-11",
    "driver": "580.1",
    "executable": "/usr/bin/python3",
}


def test_an_old_record_that_does_not_tell_has_none() -> None:
    keep()
    found = constants.told(load(STORY))
    assert found is not None
    assert (found.uuid, found.driver, found.processor) == (None, None, None)
    assert constants.kept(load(STORY)) is None
    assert constants.asked_of(load(STORY)) is None


def test_a_study_predicts_with_them_and_says_when_they_were_measured() -> None:
    story = recorded(**WHERE)
    told = constants.told(story)
    assert told is not None
    keep(replace(PLACE, python=str(told.python), torch=told.torch), at=told.at_unix_s - DAY)
    made = accounted(story, Options(), lambda _: None)
    found = prices(made, cached=True).seen
    assert found.constants is not None
    assert found.study.recorded is not None
    day = time.strftime("%Y-%m-%d", time.gmtime(told.at_unix_s - DAY))
    assert f"constants of {day}" in found.study.recorded.notes[-1]
    assert "none was measured in this run" in found.study.recorded.notes[-1]
    assert prices(made, cached=False).seen.constants is None


def test_the_run_tells_where_to_measure() -> None:
    found = constants.asked_of(recorded(**WHERE))
    assert found == constants.Interpreter("/usr/bin/python3", 0)
