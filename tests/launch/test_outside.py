"""What a trial would touch outside its view, and what it needs permission for."""

from dataclasses import replace
from pathlib import Path

import pytest

from gapless.launch import outside, sandbox
from gapless.model.recording import Host, Recording, Samples, Unseen
from tests.study.recording import Log, recording

WANDB = Host("34.120.0.9", 443, "wandb-core", 5)
ODD = Host("2001:db8::2", 1234, None, 6)


def run(folder: Path, written: tuple[str, ...], hosts: tuple[Host, ...] | None = ()) -> Recording:
    made = recording(Log(), folder=str(folder), path=str(folder / ".gapless" / "runs" / "1"))
    process = replace(made.processes[0], written=written)
    return replace(made, processes=(process,), samples=Samples({}, (), hosts))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine: a working folder, a disk for checkpoints, a folder for temporary files."""
    for name in ("work", "disk", "home", "tmp"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CACHE_HOME", "HF_HOME", "TORCH_HOME", "TORCHINDUCTOR_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_parts_what_was_written_by_where_it_is(place: Path) -> None:
    (place / "work" / "out").symlink_to(place / "disk")
    found = outside.touched(
        run(
            place / "work",
            (
                str(place / "work" / "last.pt"),
                str(place / "disk" / "abs.pt"),
                str(place / "work" / "out" / "linked.pt"),
                str(place / "tmp" / "x"),
                str(place / "home" / ".cache" / "torch" / "y"),
                "/dev/shm/z",  # noqa: S108
                "s3://bucket/a/b.pt",
                str(place / "work" / "gs:/other/c.pt"),  # a URL that was taken for a path
            ),
        )
    )
    assert found.inside == (str(place / "work" / "last.pt"),)
    assert found.paths == (str(place / "disk" / "abs.pt"), str(place / "disk" / "linked.pt"))
    assert found.stores == ("s3://bucket/a/b.pt", "gs://other/c.pt")
    assert found.unknown == ()


def test_what_lies_on_a_file_system_inside_the_folder_is_not_covered(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mounts(folder: Path) -> tuple[Path, ...]:
        return (folder / "nfs",)

    monkeypatch.setattr(sandbox, "uncovered", mounts)
    found = outside.touched(run(place / "work", (str(place / "work" / "nfs" / "a.pt"),)))
    assert (found.inside, found.paths) == ((), (str(place / "work" / "nfs" / "a.pt"),))


def test_needs_nothing_where_the_view_covers_all(place: Path) -> None:
    found = outside.touched(run(place / "work", (str(place / "work" / "last.pt"),)))
    assert outside.needs_permission(found, (), sandboxed=True) == ()
    assert outside.refusal(()) == ()


def test_without_a_view_the_working_folder_itself_needs_permission(place: Path) -> None:
    work = place / "work"
    found = outside.touched(run(work, ()))
    assert outside.needs_permission(found, (), sandboxed=False) == (str(work),)
    assert outside.needs_permission(found, (work,), sandboxed=False) == ()
    assert outside.needs_permission(found, (place,), sandboxed=False) == ()
    assert outside.needs_permission(found, (place / "wor",), sandboxed=False) == (str(work),)


def test_each_thing_outside_is_permitted_for_itself(place: Path) -> None:
    disk = place / "disk"
    written = (str(disk / "a" / "1.pt"), str(disk / "b" / "2.pt"), "s3://bucket/run/x.pt")
    found = outside.touched(run(place / "work", written, (WANDB, ODD)))
    needed = outside.needs_permission(found, (), sandboxed=True)
    assert needed == (
        str(disk / "a"),
        str(disk / "b"),
        "s3://bucket/run/x.pt",
        "34.120.0.9:443 (https, by wandb-core)",
        "[2001:db8::2]:1234 (a port of no usual meaning)",
    )
    allowed = (disk / "a", Path("s3://bucket"), Path("34.120.0.9"), Path("[2001:db8::2]:1234"))
    assert outside.needs_permission(found, allowed, sandboxed=True) == (str(disk / "b"),)
    assert outside.refusal((str(disk / "b"), "s3://bucket/x"))[1] == (
        f"allow it with --allow-writes {disk / 'b'}, or all of it with --yes"
    )


def test_what_was_not_observed_is_no_permission(place: Path) -> None:
    work = place / "work"
    old = outside.touched(run(work, (), None))
    assert old.unknown == ("whom it talks to",)
    assert outside.needs_permission(old, (place,), sandboxed=True) == old.unknown
    some = run(work, (), (WANDB,))
    denied = replace(some.samples, unseen=(Unseen("hosts", "no rights"),))
    blind = outside.touched(replace(some, processes=(), samples=denied))
    assert blind.unknown == (
        "what it writes (no process was recorded)",
        "whom it talks to (no rights)",
    )
    never = outside.nothing_known(work)
    assert "files and hosts" in never.unknown[0]
    assert outside.needs_permission(never, (place,), sandboxed=True) == never.unknown


def test_tells_all_of_it_before_the_first_arm(place: Path) -> None:
    disk = place / "disk"
    found = outside.touched(
        run(place / "work", (str(disk / "1.pt"), str(disk / "2.pt"), "gs://b/x"), (WANDB,))
    )
    said = outside.told(found, why_no_view=None)
    assert said[0] == (f"Arms write to a private copy of {place / 'work'}, which is thrown away.")
    assert f"{disk} (2)" in said[1]
    assert "gs://b/x" in said[2]
    assert "34.120.0.9:443 (https, by wandb-core)" in said[3]
    bare = outside.told(found, why_no_view="no namespaces")
    assert bare[0] == (
        f"Arms write to {place / 'work'} itself: there is no private view of it (no namespaces)."
    )


def test_many_folders_are_named_by_those_above_them() -> None:
    paths = [f"/srv/runs/{run}/step{step}/a.pt" for run in range(3) for step in range(40)]
    assert outside.common_folders(paths) == ("/srv/runs/0", "/srv/runs/1", "/srv/runs/2")
    assert outside.common_folders(["/a/b/1", "/a/b/c/2", "/x/3"]) == ("/a/b", "/x")
