"""The processes of a run: found by their parents, kept by number and start."""

from pathlib import Path

import pytest

from gapless import wire
from gapless.launch import process_tree


def write_process(
    proc: Path,
    number: int,
    parent: int,
    name: str = "python",
    *,
    start_ticks: int = 7,
    spool: str = "",
) -> None:
    folder = proc / str(number)
    folder.mkdir(parents=True, exist_ok=True)
    numbers = [0] * 50
    numbers[9], numbers[10], numbers[15], numbers[17], numbers[19] = 150, 50, 3, start_ticks, 2
    words = " ".join(map(str, numbers))
    (folder / "stat").write_text(f"{number} ({name}) S {parent} {words}\n")
    (folder / "environ").write_bytes(f"A=1\0{wire.SPOOL}={spool}\0".encode())


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    proc_folder = tmp_path / "proc"
    write_process(proc_folder, 10, 1)
    write_process(proc_folder, 11, 10, "a) S 1 (")  # a name may hold anything
    write_process(proc_folder, 12, 11)
    write_process(proc_folder, 20, 1)
    (proc_folder / "self").mkdir()
    return proc_folder


def test_children_of_children_belong_and_strangers_do_not(proc: Path) -> None:
    run_tree = process_tree.Tree(10, Path("/spool"), proc)
    run_tree.look()
    assert set(run_tree.members) == {10, 11, 12}
    assert run_tree.statuses()[11].cpu_ns == 2 * 10**9
    assert run_tree.statuses()[11].threads == 3


def test_only_new_processes_are_examined(proc: Path) -> None:
    run_tree = process_tree.Tree(10, Path("/spool"), proc)
    run_tree.look()
    write_process(proc, 20, 10)  # moved to us: nobody looks again
    write_process(proc, 21, 12)
    run_tree.look()
    assert set(run_tree.members) == {10, 11, 12, 21}


def test_an_orphan_is_known_by_its_environment(proc: Path) -> None:
    write_process(proc, 30, 1, spool="/spool")
    write_process(proc, 31, 1, spool="/spool2")
    run_tree = process_tree.Tree(10, Path("/spool"), proc)
    run_tree.look()
    assert 30 in run_tree.members
    assert 31 not in run_tree.members
    assert process_tree.find_by_spool(Path("/spool"), proc) == {30: 7}


def test_a_number_that_another_process_got_is_not_ours(proc: Path) -> None:
    run_tree = process_tree.Tree(10, Path("/spool"), proc)
    run_tree.look()
    write_process(proc, 12, 1, start_ticks=8)
    assert set(run_tree.statuses()) == {10, 11}
    assert set(run_tree.members) == {10, 11}


def test_a_process_that_ended_is_forgotten(proc: Path) -> None:
    run_tree = process_tree.Tree(10, Path("/spool"), proc)
    run_tree.look()
    (proc / "12" / "stat").unlink()
    assert set(run_tree.statuses()) == {10, 11}
    assert set(run_tree.members) == {10, 11}


def test_with_many_processes_files_are_not_kept_open(
    proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_tree, "_OPEN", 1)
    run_tree = process_tree.Tree(10, Path("/spool"), proc)
    run_tree.look()
    for _ in range(3):
        assert set(run_tree.statuses()) == {10, 11, 12}
