"""Constants are measured once, and anew where they may no longer hold."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from gapless.launch import probing
from gapless.launch.probing import ProbeRequest
from gapless.model.machine import Constant, Constants, Gpu, Platform
from gapless.store import constants as store
from gapless.study import machine_constants
from gapless.study.machine_constants import ReusePolicy

PLATFORM = Platform(sys.executable, "3.11.7", "2.13.0", "a processor", 2, "ext4 /dev/sda1")
GPU = Gpu("a GPU", "6b29", "580.1", 1 << 34, 0)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GAPLESS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


ProbeStub = Callable[[Constants], list[ProbeRequest]]


@pytest.fixture
def stub_probe(monkeypatch: pytest.MonkeyPatch) -> ProbeStub:
    """Let the probe give these constants; the list grows with each time that it runs."""

    def stand_in(constants: Constants) -> list[ProbeRequest]:
        runs: list[ProbeRequest] = []

        def measure(_: str, request: ProbeRequest, __: object) -> Constants:
            runs.append(request)
            return constants

        monkeypatch.setattr(probing, "measure", measure)
        monkeypatch.setattr(probing, "identify_platform", lambda *_: constants.place)  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]
        return runs

    return stand_in


def make_constants(platform: Platform | None = PLATFORM, **changes: object) -> Constants:
    constant = Constant("launch.call", "ns", None, 2100.5, 2000.0, 2400.0, 30, 0.5)
    constants = Constants(
        platform, (constant,), ("launches",), 1e12, 3.5, {"launch.call": "by hand"}
    )
    return replace(constants, **changes)  # type: ignore[arg-type]


def ask(policy: ReusePolicy | None = None, **options: object) -> Constants:
    request = ProbeRequest(**options)  # type: ignore[arg-type]
    return machine_constants.load_or_measure(sys.executable, request, lambda _: None, policy)


def test_what_was_measured_is_found_again(stub_probe: ProbeStub) -> None:
    runs = stub_probe(make_constants())
    assert ask() == ask() == make_constants()
    assert len(runs) == 1


def test_it_is_measured_anew_if_asked_for(stub_probe: ProbeStub) -> None:
    runs = stub_probe(make_constants())
    ask()
    ask(ReusePolicy(remeasure=True))
    assert len(runs) == 2


def test_it_is_measured_anew_when_old(stub_probe: ProbeStub) -> None:
    runs = stub_probe(make_constants(measured_unix_s=1.0))
    ask()
    ask()
    assert len(runs) == 2
    assert make_constants(measured_unix_s=40.0).age_s(100.0) == 60.0


@pytest.mark.parametrize(
    "changes",
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
def test_another_place_is_measured_for_itself(
    stub_probe: ProbeStub, changes: dict[str, object]
) -> None:
    stub_probe(make_constants())
    ask()
    runs = stub_probe(make_constants(replace(PLATFORM, **changes)))  # type: ignore[arg-type]
    ask()
    assert len(runs) == 1


def test_how_busy_the_place_is_makes_no_other_place(stub_probe: ProbeStub) -> None:
    stub_probe(make_constants(replace(PLATFORM, gpu=GPU, load=0.5)))
    ask()
    later = replace(PLATFORM, gpu=replace(GPU, free_bytes=1 << 33, busy_percent=4), load=3.0)
    runs = stub_probe(make_constants(later))
    ask()
    assert runs == []


def test_another_question_is_measured_and_a_part_of_all_is_found(stub_probe: ProbeStub) -> None:
    runs = stub_probe(make_constants())
    ask(parts=("cpu",))
    ask()
    ask(parts=("launches",))
    ask(parts=("cpu",))
    assert [request.parts for request in runs] == [("cpu",), ()]


@pytest.mark.parametrize("text", [b"", b"x", b"gapless blob 1\n\0" + bytes(40)], ids=len)
def test_a_broken_cache_is_measured_anew(stub_probe: ProbeStub, folder: Path, text: bytes) -> None:
    runs = stub_probe(make_constants())
    ask()
    (file,) = folder.iterdir()
    file.write_bytes(text)
    assert ask() == make_constants()
    assert ask() == make_constants()
    assert len(runs) == 2


@pytest.mark.parametrize("schema", [0, 2])
def test_another_schema_is_measured_anew(stub_probe: ProbeStub, schema: int) -> None:
    runs = stub_probe(make_constants(schema=schema))
    ask()
    ask()
    assert len(runs) == 2


@pytest.mark.parametrize(
    "unfit",
    [
        make_constants(why="the probe was ended by signal 9"),
        make_constants(None),
        make_constants(replace(PLATFORM, gpu=Gpu("a GPU", "6b29", why="only 0.7 GiB is free"))),
        make_constants(replace(PLATFORM, gpu=Gpu("a GPU"))),
    ],
    ids=["not ended", "nowhere", "no room on the GPU", "a GPU without a name"],
)
def test_what_may_be_better_next_time_is_not_kept(stub_probe: ProbeStub, unfit: Constants) -> None:
    runs = stub_probe(unfit)
    ask()
    ask()
    assert len(runs) == 2


@pytest.mark.parametrize("unsure", [make_constants(whole=False), make_constants(alone=False)])
def test_where_time_ran_out_or_others_were_busy_it_is_kept_for_an_hour(
    stub_probe: ProbeStub, monkeypatch: pytest.MonkeyPatch, unsure: Constants
) -> None:
    runs = stub_probe(unsure)
    for now in (0, 3500, 3700):
        monkeypatch.setattr(machine_constants.time, "time", lambda now=now: 1e12 + now)
        ask()
    assert len(runs) == 2


def test_a_cache_that_cannot_be_written_is_no_error(stub_probe: ProbeStub, folder: Path) -> None:
    runs = stub_probe(make_constants())
    folder.write_text("a file")
    assert ask() == ask() == make_constants()
    assert len(runs) == 2
    assert store.save(make_constants(), "")
    assert store.save(make_constants(None), "") == "it is not known where they hold"


def test_the_interpreter_is_asked_and_the_probe_runs(tmp_path: Path) -> None:
    messages: list[str] = []
    file = tmp_path / "data.bin"
    file.write_bytes(bytes(5000))
    request = ProbeRequest(path=str(tmp_path), files=(str(file),), parts=("data",), scale=0.05)
    constants = machine_constants.load_or_measure(sys.executable, request, messages.append)
    reused = machine_constants.load_or_measure(sys.executable, request, messages.append)
    assert messages == ["measuring this machine: data"]
    assert reused == constants
    assert constants.value("data.rate.warm", 1)


def test_an_interpreter_that_does_not_exist_is_an_answer(tmp_path: Path) -> None:
    interpreter = str(tmp_path / "python")
    answer = machine_constants.constants(interpreter, None, str(tmp_path), lambda _: None)
    assert answer.why
    assert answer.values == ()
