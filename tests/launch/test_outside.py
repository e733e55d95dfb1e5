"""What a trial would touch outside its view, and what it needs permission for."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from gapless.launch.trial import sandbox, side_effects
from gapless.model.recording import Host, Recording, Samples, Unobserved
from tests.study.recording import Log, recording

WANDB = Host("34.120.0.9", 443, "wandb-core")
ODD = Host("2001:db8::2", 1234, None)


def make_recording(
    folder: Path, written_paths: tuple[str, ...], hosts: tuple[Host, ...] | None = ()
) -> Recording:
    base = recording(Log(), folder=str(folder), path=str(folder / ".gapless" / "runs" / "1"))
    process = replace(base.processes[0], written=written_paths)
    return replace(base, processes=(process,), samples=Samples({}, (), hosts))


@pytest.fixture
def machine_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine: a working folder, a disk for checkpoints, a folder for temporary files."""
    for name in ("work", "disk", "home", "tmp"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CACHE_HOME", "HF_HOME", "TORCH_HOME", "TORCHINDUCTOR_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_parts_what_was_written_by_where_it_is(machine_root: Path) -> None:
    (machine_root / "work" / "out").symlink_to(machine_root / "disk")
    effects = side_effects.find_side_effects(
        make_recording(
            machine_root / "work",
            (
                str(machine_root / "work" / "last.pt"),
                str(machine_root / "disk" / "abs.pt"),
                str(machine_root / "work" / "out" / "linked.pt"),
                str(machine_root / "tmp" / "x"),
                str(machine_root / "home" / ".cache" / "torch" / "y"),
                "/dev/shm/z",  # noqa: S108
                "s3://bucket/a/b.pt",
                str(machine_root / "work" / "gs:/other/c.pt"),  # a URL that was taken for a path
            ),
        )
    )
    assert effects.inside == (str(machine_root / "work" / "last.pt"),)
    assert effects.paths == (
        str(machine_root / "disk" / "abs.pt"),
        str(machine_root / "disk" / "linked.pt"),
    )
    assert effects.stores == ("s3://bucket/a/b.pt", "gs://other/c.pt")
    assert effects.unobserved == ()


def test_what_lies_on_a_file_system_inside_the_folder_is_not_covered(
    machine_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_mounts(folder: Path) -> tuple[Path, ...]:
        return (folder / "nfs",)

    monkeypatch.setattr(sandbox, "find_uncovered", find_mounts)
    effects = side_effects.find_side_effects(
        make_recording(machine_root / "work", (str(machine_root / "work" / "nfs" / "a.pt"),))
    )
    assert (effects.inside, effects.paths) == ((), (str(machine_root / "work" / "nfs" / "a.pt"),))


def test_needs_nothing_where_the_view_covers_all(machine_root: Path) -> None:
    effects = side_effects.find_side_effects(
        make_recording(machine_root / "work", (str(machine_root / "work" / "last.pt"),))
    )
    assert side_effects.find_unpermitted(effects, (), sandboxed=True) == ()
    assert side_effects.refusal(()) == ()


def test_without_a_view_the_working_folder_itself_needs_permission(machine_root: Path) -> None:
    work = machine_root / "work"
    effects = side_effects.find_side_effects(make_recording(work, ()))
    assert side_effects.find_unpermitted(effects, (), sandboxed=False) == (str(work),)
    assert side_effects.find_unpermitted(effects, (work,), sandboxed=False) == ()
    assert side_effects.find_unpermitted(effects, (machine_root,), sandboxed=False) == ()
    assert side_effects.find_unpermitted(effects, (machine_root / "wor",), sandboxed=False) == (
        str(work),
    )


def test_each_thing_outside_is_permitted_for_itself(machine_root: Path) -> None:
    disk = machine_root / "disk"
    written = (str(disk / "a" / "1.pt"), str(disk / "b" / "2.pt"), "s3://bucket/run/x.pt")
    effects = side_effects.find_side_effects(
        make_recording(machine_root / "work", written, (WANDB, ODD))
    )
    permissions = side_effects.find_unpermitted(effects, (), sandboxed=True)
    assert permissions == (
        str(disk / "a"),
        str(disk / "b"),
        "s3://bucket/run/x.pt",
        "34.120.0.9:443 (https, by wandb-core)",
        "[2001:db8::2]:1234 (a port of no usual meaning)",
    )
    allowed = (disk / "a", Path("s3://bucket"), Path("34.120.0.9"), Path("[2001:db8::2]:1234"))
    assert side_effects.find_unpermitted(effects, allowed, sandboxed=True) == (str(disk / "b"),)
    assert side_effects.refusal((str(disk / "b"), "s3://bucket/x"))[1] == (
        f"allow it with --allow-writes {disk / 'b'}, or all of it with --yes"
    )


def test_what_was_not_observed_is_no_permission(machine_root: Path) -> None:
    work = machine_root / "work"
    silent_effects = side_effects.find_side_effects(make_recording(work, (), None))
    assert silent_effects.unobserved == ("whom it talks to",)
    assert (
        side_effects.find_unpermitted(silent_effects, (machine_root,), sandboxed=True)
        == silent_effects.unobserved
    )
    observed_run = make_recording(work, (), (WANDB,))
    denied_samples = replace(observed_run.samples, unobserved=(Unobserved("hosts", "no rights"),))
    blind_effects = side_effects.find_side_effects(
        replace(observed_run, processes=(), samples=denied_samples)
    )
    assert blind_effects.unobserved == (
        "what it writes (no process was recorded)",
        "whom it talks to (no rights)",
    )
    unobserved_effects = side_effects.assume_unobserved(work)
    assert "files and hosts" in unobserved_effects.unobserved[0]
    assert (
        side_effects.find_unpermitted(unobserved_effects, (machine_root,), sandboxed=True)
        == unobserved_effects.unobserved
    )


def test_tells_all_of_it_before_the_first_arm(machine_root: Path) -> None:
    disk = machine_root / "disk"
    effects = side_effects.find_side_effects(
        make_recording(
            machine_root / "work", (str(disk / "1.pt"), str(disk / "2.pt"), "gs://b/x"), (WANDB,)
        )
    )
    lines = side_effects.describe_side_effects(effects, why_no_view=None)
    assert lines[0] == (
        f"Arms write to a private copy of {machine_root / 'work'}, which is thrown away."
    )
    assert f"{disk} (2)" in lines[1]
    assert "gs://b/x" in lines[2]
    assert "34.120.0.9:443 (https, by wandb-core)" in lines[3]
    lines_without_view = side_effects.describe_side_effects(effects, why_no_view="no namespaces")
    assert lines_without_view[0] == (
        f"Arms write to {machine_root / 'work'} itself: "
        "there is no private view of it (no namespaces)."
    )


def test_many_folders_are_named_by_those_above_them() -> None:
    paths = [f"/srv/runs/{run}/step{step}/a.pt" for run in range(3) for step in range(40)]
    assert side_effects.common_folders(paths) == ("/srv/runs/0", "/srv/runs/1", "/srv/runs/2")
    assert side_effects.common_folders(["/a/b/1", "/a/b/c/2", "/x/3"]) == ("/a/b", "/x")
