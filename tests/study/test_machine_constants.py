"""Constants are measured once, and anew where they may no longer hold."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gapless.launch import probing
from gapless.launch.probing import Asked
from gapless.model.machine import Constant, Constants, Gpu, Place
from gapless.store import constants as store
from gapless.study import machine_constants
from gapless.study.machine_constants import Keeping

PLACE = Place(sys.executable, "3.11.7", "2.13.0", "a processor", 2, "ext4 /dev/sda1")
GPU = Gpu("a GPU", "6b29", "580.1", 1 << 34, 0)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GAPLESS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


Measured = Callable[[Constants], list[Asked]]


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Measured:
    """Let the probe give these constants; the list grows with each time that it runs."""

    def stand_in(found: Constants) -> list[Asked]:
        runs: list[Asked] = []

        def measure(_: str, asked: Asked, __: object) -> Constants:
            runs.append(asked)
            return found

        monkeypatch.setattr(probing, "measure", measure)
        monkeypatch.setattr(probing, "place", lambda *_: found.place)  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]
        return runs

    return stand_in


def found(place: Place | None = PLACE, **more: object) -> Constants:
    one = Constant("launch.call", "ns", None, 2100.5, 2000.0, 2400.0, 30, 0.5)
    made = Constants(place, (one,), ("launches",), 1e12, 3.5, {"launch.call": "by hand"})
    return replace(made, **more)  # type: ignore[arg-type]


def ask(keeping: Keeping | None = None, **more: object) -> Constants:
    asked = Asked(**more)  # type: ignore[arg-type]
    return machine_constants.of(sys.executable, asked, lambda _: None, keeping)


def test_what_was_measured_is_found_again(measured: Measured) -> None:
    runs = measured(found())
    assert ask() == ask() == found()
    assert len(runs) == 1


def test_it_is_measured_anew_if_asked_for(measured: Measured) -> None:
    runs = measured(found())
    ask()
    ask(Keeping(anew=True))
    assert len(runs) == 2


def test_it_is_measured_anew_when_old(measured: Measured) -> None:
    runs = measured(found(measured_unix_s=1.0))
    ask()
    ask()
    assert len(runs) == 2
    assert found(measured_unix_s=40.0).age_s(100.0) == 60.0


@pytest.mark.parametrize(
    "other",
    [
        {"torch": "2.14.0"},
        {"executable": "/usr/bin/python3"},
        {"processor": "another"},
        {"processors": 3},
        {"storage": "nfs server:/data"},
        {"gpu": GPU},
        {"gpu": replace(GPU, driver="590.1")},
        {"gpu": replace(GPU, uuid="777")},
    ],
    ids=str,
)
def test_another_place_is_measured_for_itself(measured: Measured, other: dict[str, object]) -> None:
    measured(found())
    ask()
    runs = measured(found(replace(PLACE, **other)))  # type: ignore[arg-type]
    ask()
    assert len(runs) == 1


def test_how_busy_the_place_is_makes_no_other_place(measured: Measured) -> None:
    measured(found(replace(PLACE, gpu=GPU, load=0.5)))
    ask()
    later = replace(PLACE, gpu=replace(GPU, free_bytes=1 << 33, busy_percent=4), load=3.0)
    runs = measured(found(later))
    ask()
    assert runs == []


def test_another_question_is_measured_and_a_part_of_all_is_found(measured: Measured) -> None:
    runs = measured(found())
    ask(parts=("cpu",))
    ask()
    ask(parts=("launches",))
    ask(parts=("cpu",))
    assert [asked.parts for asked in runs] == [("cpu",), ()]


@pytest.mark.parametrize("text", [b"", b"x", b"gapless blob 1\n\0" + bytes(40)], ids=len)
def test_a_broken_cache_is_measured_anew(measured: Measured, folder: Path, text: bytes) -> None:
    runs = measured(found())
    ask()
    (file,) = folder.iterdir()
    file.write_bytes(text)
    assert ask() == found()
    assert ask() == found()
    assert len(runs) == 2


@pytest.mark.parametrize("schema", [0, 2])
def test_another_schema_is_measured_anew(measured: Measured, schema: int) -> None:
    runs = measured(found(schema=schema))
    ask()
    ask()
    assert len(runs) == 2


@pytest.mark.parametrize(
    "unfit",
    [
        found(why="the probe was ended by signal 9"),
        found(None),
        found(replace(PLACE, gpu=Gpu("a GPU", "6b29", why="only 0.7 GiB is free"))),
        found(replace(PLACE, gpu=Gpu("a GPU"))),
    ],
    ids=["not ended", "nowhere", "no room on the GPU", "a GPU without a name"],
)
def test_what_may_be_better_next_time_is_not_kept(measured: Measured, unfit: Constants) -> None:
    runs = measured(unfit)
    ask()
    ask()
    assert len(runs) == 2


@pytest.mark.parametrize("unsure", [found(whole=False), found(alone=False)])
def test_where_time_ran_out_or_others_were_busy_it_is_kept_for_an_hour(
    measured: Measured, monkeypatch: pytest.MonkeyPatch, unsure: Constants
) -> None:
    runs = measured(unsure)
    for now in (0, 3500, 3700):
        monkeypatch.setattr(machine_constants.time, "time", lambda now=now: 1e12 + now)
        ask()
    assert len(runs) == 2


def test_a_cache_that_cannot_be_written_is_no_error(measured: Measured, folder: Path) -> None:
    runs = measured(found())
    folder.write_text("a file")
    assert ask() == ask() == found()
    assert len(runs) == 2
    assert store.save(found(), "")
    assert store.save(found(None), "") == "it is not known where they hold"


def test_the_interpreter_is_asked_and_the_probe_runs(tmp_path: Path) -> None:
    said: list[str] = []
    asked = Asked(path=str(tmp_path), parts=("storage",), scale=0.05, largest=1 << 21)
    first = machine_constants.of(sys.executable, asked, said.append)
    again = machine_constants.of(sys.executable, asked, said.append)
    assert said == ["measuring this machine: storage"]
    assert again == first
    assert first.value("storage.ordered.warm")


def test_an_interpreter_that_does_not_exist_is_an_answer(tmp_path: Path) -> None:
    missing = str(tmp_path / "python")
    answer = machine_constants.constants(missing, None, str(tmp_path), lambda _: None)
    assert answer.why
    assert answer.values == ()
