"""The processes of a run: found by their parents, kept by number and start."""

from pathlib import Path

import pytest

from gapless import wire
from gapless.launch import tree


def process(
    proc: Path, number: int, parent: int, name: str = "python", *, started: int = 7, spool: str = ""
) -> None:
    folder = proc / str(number)
    folder.mkdir(parents=True, exist_ok=True)
    numbers = [0] * 50
    numbers[9], numbers[10], numbers[15], numbers[17], numbers[19] = 150, 50, 3, started, 2
    words = " ".join(map(str, numbers))
    (folder / "stat").write_text(f"{number} ({name}) S {parent} {words}\n")
    (folder / "environ").write_bytes(f"A=1\0{wire.SPOOL}={spool}\0".encode())


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    place = tmp_path / "proc"
    process(place, 10, 1)
    process(place, 11, 10, "a) S 1 (")  # a name may hold anything
    process(place, 12, 11)
    process(place, 20, 1)
    (place / "self").mkdir()
    return place


def test_children_of_children_belong_and_strangers_do_not(proc: Path) -> None:
    found = tree.Tree(10, Path("/spool"), proc)
    found.look()
    assert set(found.members) == {10, 11, 12}
    assert found.statuses()[11].cpu_ns == 2 * 10**9
    assert found.statuses()[11].threads == 3


def test_only_new_processes_are_examined(proc: Path) -> None:
    found = tree.Tree(10, Path("/spool"), proc)
    found.look()
    process(proc, 20, 10)  # moved to us: nobody looks again
    process(proc, 21, 12)
    found.look()
    assert set(found.members) == {10, 11, 12, 21}
    assert found.arrived == [21]


def test_an_orphan_is_known_by_its_environment(proc: Path) -> None:
    process(proc, 30, 1, spool="/spool")
    process(proc, 31, 1, spool="/spool2")
    found = tree.Tree(10, Path("/spool"), proc)
    found.look()
    assert 30 in found.members
    assert 31 not in found.members
    assert tree.left(Path("/spool"), proc) == {30: 7}


def test_a_number_that_another_process_got_is_not_ours(proc: Path) -> None:
    found = tree.Tree(10, Path("/spool"), proc)
    found.look()
    process(proc, 12, 1, started=8)
    assert set(found.statuses()) == {10, 11}
    assert set(found.members) == {10, 11}


def test_a_process_that_ended_is_forgotten(proc: Path) -> None:
    found = tree.Tree(10, Path("/spool"), proc)
    found.look()
    (proc / "12" / "stat").unlink()
    assert set(found.statuses()) == {10, 11}
    assert set(found.members) == {10, 11}


def test_with_many_processes_files_are_not_kept_open(
    proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "_OPEN", 1)
    found = tree.Tree(10, Path("/spool"), proc)
    found.look()
    for _ in range(3):
        assert set(found.statuses()) == {10, 11, 12}
