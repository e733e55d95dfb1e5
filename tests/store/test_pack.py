"""A run as one file: what goes in comes out, and nothing else."""

import gzip
import io
import json
import os
import tarfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import zstandard

from gapless import wire
from gapless.errors import NotFoundError, RunFolderError, UsageError
from gapless.formats import read
from gapless.store import columns
from gapless.store.run import unpack as unpacking
from gapless.store.run.pack import SUFFIXES, pack
from gapless.store.run.recordings import load
from gapless.store.run.unpack import unpack
from tests.store import drawing
from tests.traces import TRACES

TRACE = TRACES["loader_workers"]
ME = "/house/me"
LIKE_HOME = [int.from_bytes(chunk, "little") for chunk in (b"/house/m", b"e/there ")]  # as numbers


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Return this user a home folder that can be looked for."""
    monkeypatch.setenv("HOME", ME)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a run that names its user's home folder wherever it can."""
    log = [
        *drawing.training(),
        drawing.mark_sums((wire.STEP, 0, 0, 11, *LIKE_HOME, 5, 50, 11, -1)),
        drawing.process(8, argv=[f"{ME}/train.py", f"{ME}like/other"]),
        wire.text_frame(wire.FILES, {"read": {f"{ME}/a.jpg": 1}, "written": [ME]}),
    ]
    run = drawing.write_run(
        tmp_path / "2026-x",
        {"rank0.log": b"".join(log) + b"GLhalf", "samples.log": drawing.sample(5, a=1)},
        folder=f"{ME}/project",
        command=["python", f"{ME}/train.py"],
        spool="/somewhere",
        launcher=1,
        environment={"SECRET": "x"},
    )
    windows = run / "windows"
    windows.mkdir()
    text = b'{"a": "%s/train.py(5)",\n"b": "%s"}\n' % (ME.encode(), b"x" * 100) * 30_000
    (windows / "rank0-step1.json.gz").write_bytes(gzip.compress(text, 1))
    (windows / "rank0-step2.json.zst").write_bytes(zstandard.compress(text))
    (windows / "rank0-step3.json").write_bytes(text)
    (windows / "rank0-step4.json.gz").write_bytes(gzip.compress(text, 1)[:-500])
    (run / "run.sqlite").write_bytes(b"derived")
    (run / "mine.txt").write_bytes(b"what nobody asked for")
    return run


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_packed_run_comes_back(run: Path, tmp_path: Path, suffix: str) -> None:
    packed_run = pack(run, tmp_path / f"x{suffix}")
    names = [member.name for member in packed_run.members]
    logs = ["logs/rank0.log", "logs/samples.log"]
    windows = [f"windows/rank0-step{n}.json{end}" for n, end in enumerate([".gz", ".zst", ""], 1)]
    assert names == ["run.json", *logs, *windows]
    assert packed_run.left_out == ("windows/rank0-step4.json.gz",)
    unpacked_folder = unpack(packed_run.path, tmp_path / "there")
    assert unpacked_folder == tmp_path / "there" / "2026-x"
    assert sorted(
        str(p.relative_to(unpacked_folder)) for p in unpacked_folder.rglob("*") if p.is_file()
    ) == sorted(names)
    old, new = load(run), load(unpacked_folder)
    assert new.processes[0].marks.start.tolist() == old.processes[0].marks.start.tolist()
    sums = new.processes[0].mark_sums
    assert sums is not None
    assert [sums.columns[name].tolist() for name in ("start", "end")] == [[n] for n in LIKE_HOME]
    assert new.processes[0].facts == old.processes[0].facts
    assert new.samples.series["a"][1] == old.samples.series["a"][1]
    assert new.unobserved == old.unobserved
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["2026-x"]
    sizes = [
        (unpacked_folder / member.name).stat().st_size == member.bytes
        for member in packed_run.members[1:]
    ]
    assert sizes == [True] * 5


def test_packed_columns_are_sent_as_they_are_unless_damaged(run: Path, tmp_path: Path) -> None:
    content = columns.encode_trace(read(TRACE))
    (run / "windows" / "rank0-step5.json.columns").write_bytes(content)
    (run / "windows" / "rank0-step6.json.columns").write_bytes(content[:-9])
    packed_run = pack(run, tmp_path / "x.zip")
    assert packed_run.left_out[1:] == ("windows/rank0-step6.json.columns",)
    unpacked_folder = unpack(packed_run.path, tmp_path / "there")
    assert (unpacked_folder / "windows" / "rank0-step5.json.columns").read_bytes() == content


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_home_folder_and_the_environment_are_not_sent(
    run: Path, tmp_path: Path, suffix: str
) -> None:
    unpacked_folder = unpack(pack(run, tmp_path / f"x{suffix}").path, tmp_path / "there")
    manifest = json.loads((unpacked_folder / "run.json").read_text())
    assert (manifest["folder"], manifest["command"]) == ("~/project", ["python", "~/train.py"])
    assert manifest.keys().isdisjoint({"spool", "launcher", "environment"})
    second_process = load(unpacked_folder).processes[1]
    assert second_process.argv == ("~/train.py", f"{ME}like/other")
    assert (dict(second_process.read), second_process.written) == ({"~/a.jpg": 1}, ("~",))
    first_window, second_window, third_window = (
        gzip.decompress((unpacked_folder / "windows" / "rank0-step1.json.gz").read_bytes()),
        zstandard.ZstdDecompressor()
        .stream_reader((unpacked_folder / "windows" / "rank0-step2.json.zst").read_bytes())
        .read(),
        (unpacked_folder / "windows" / "rank0-step3.json").read_bytes(),
    )
    assert first_window == second_window == third_window
    assert (first_window.count(ME.encode()), first_window.count(b'"~/train.py(5)"')) == (0, 30_000)


@pytest.mark.parametrize("home", ["/", "relative"])
def test_a_home_that_is_none_hides_nothing(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    monkeypatch.setenv("HOME", home)
    unpacked_folder = unpack(pack(run, tmp_path / "x.zip").path, tmp_path / "there")
    assert load(unpacked_folder).manifest.folder == f"{ME}/project"


def test_damage_is_sent_as_damage(run: Path, tmp_path: Path) -> None:
    log = run / "logs" / "rank0.log"
    log.write_bytes(b"rubbish" + log.read_bytes())
    unpacked_folder = unpack(pack(run, tmp_path / "x.zip").path, tmp_path / "there")
    assert load(unpacked_folder).unobserved == load(run).unobserved
    assert len(load(run).unobserved) == 2


def test_a_run_that_went_on_is_not_running_there(tmp_path: Path) -> None:
    run = drawing.write_run(tmp_path / "r", {}, status="running", launcher=os.getpid(), host="")
    unpacked_folder = unpack(pack(run, tmp_path / "x.zip").path, tmp_path / "there")
    assert load(unpacked_folder).manifest.status == "killed"


def test_a_name_with_strange_signs_is_made_plain(tmp_path: Path) -> None:
    run = drawing.write_run(tmp_path / ".my rün", {"rank0.log": b"".join(drawing.training())})
    assert unpack(pack(run, tmp_path / "x.zip").path, tmp_path / "there").name == "my_r_n"


def test_a_name_of_no_form_or_one_that_is_taken_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"ends in neither \.tar\.zst nor \.zip"):
        pack(run, tmp_path / "x.rar")
    (tmp_path / "x.zip").write_bytes(b"mine")
    with pytest.raises(UsageError, match="is there already"):
        pack(run, tmp_path / "x.zip")
    assert (tmp_path / "x.zip").read_bytes() == b"mine"


def test_what_is_no_run_is_not_packed(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError):
        pack(tmp_path, tmp_path / "x.zip")
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_not_unpacked_over_another(run: Path, tmp_path: Path) -> None:
    packed_path = pack(run, tmp_path / "x.zip").path
    with pytest.raises(RunFolderError, match="is there already; delete it first"):
        unpack(packed_path, tmp_path)
    assert (run / "mine.txt").exists()


MANIFEST = ("r/run.json", b'{"id": "r"}')


def write_tar(path: Path, files: Iterable[tuple[str, bytes | None]]) -> Path:
    """Write a packed run by hand; no content: a link to a file of its own."""
    target = path.with_suffix(".tar.zst")
    with (
        target.open("wb") as file,
        zstandard.ZstdCompressor().stream_writer(file) as stream,
        tarfile.open(fileobj=stream, mode="w|") as archive,
    ):
        for name, content in files:
            member = tarfile.TarInfo(name)
            member.size = len(content or b"")
            if content is None:
                member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(member, io.BytesIO(content or b""))
    return target


def write_zip(path: Path, files: Iterable[tuple[str, bytes | None]]) -> Path:
    """Likewise; no content: a folder."""
    target = path.with_suffix(".zip")
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in files:
            if content is None:
                archive.mkdir(name)
            else:
                archive.writestr(name, content)
    return target


@pytest.mark.parametrize("write", [write_tar, write_zip])
@pytest.mark.parametrize(
    "name",
    ["../run.json", "/etc/x", "r/../run.json", "r/logs/../../x.log", "r/.profile", "r/run.sqlite",
     "r/logs/x.sh", "r/logs/.x.log", "r/windows/a/b.json", "r\\run.json", "run.json", "r/run.json/",
     "r/logs/é.log"],
)  # fmt: skip
def test_what_belongs_to_no_run_is_refused_and_nothing_stays(
    tmp_path: Path, name: str, write: Callable[..., Path]
) -> None:
    packed_path = write(tmp_path / "x", [MANIFEST, (name, b"x")])
    target_folder = tmp_path / "there"
    with pytest.raises(RunFolderError, match="which belongs to no run"):
        unpack(packed_path, target_folder)
    assert list(target_folder.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["there", packed_path.name]


@pytest.mark.parametrize(
    ("write", "files", "message"),
    [
        (write_tar, [MANIFEST, ("r/logs/a.log", None)], "belongs to no run|damaged"),
        (write_zip, [MANIFEST, ("r/logs", None)], "belongs to no run"),
        (write_tar, [MANIFEST, ("s/run.json", b"{}")], "holds 2 runs"),
        (write_tar, [], "holds 0 runs"),
        (write_zip, [("r/logs/a.log", b"x")], r"holds no readable run\.json"),
        (write_tar, [MANIFEST, MANIFEST], "is no packed run, or damaged"),
        (write_zip, [("r/run.json", b'{"version": 99}')], "is of version 99"),
    ],
)
def test_what_is_no_single_run_is_refused(
    tmp_path: Path, write: Callable[..., Path], files: list[tuple[str, bytes | None]], message: str
) -> None:
    with pytest.raises(RunFolderError, match=message):
        unpack(write(tmp_path / "x", files), tmp_path / "there")


def test_what_unpacks_without_end_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "_MAX_BYTES", 5 << 20)
    packed_path = write_zip(tmp_path / "x", [MANIFEST, ("r/logs/a.log", bytes(6 << 20))])
    with pytest.raises(RunFolderError, match="unpacks to more than"):
        unpack(packed_path, tmp_path / "there")
    assert list((tmp_path / "there").iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_any_cut_of_a_packed_run_is_refused(tmp_path: Path, suffix: str) -> None:
    run = drawing.write_run(tmp_path / "r", {"rank0.log": b"".join(drawing.training()) * 20})
    data = pack(run, tmp_path / f"x{suffix}").path.read_bytes()
    for size in range(0, len(data) - 1, 97):
        cut_path = tmp_path / f"cut{suffix}"
        cut_path.write_bytes(data[:size])
        with pytest.raises(RunFolderError):
            unpack(cut_path, tmp_path / "there")


def test_a_file_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="is no file"):
        unpack(tmp_path / "gone.zip", tmp_path)
