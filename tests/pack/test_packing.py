"""Packing goes on after a kill or a full disk, overwrites nothing, and says what is wrong."""

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from gapless.errors import NotFoundError, PackingError, UsageError
from gapless.pack import packing, plan
from gapless.pack.manifest import read_manifest
from gapless.pack.plan import SourceSurvey, plan_shards
from gapless.pack.sources import check_places, find_source
from gapless.pack.target import PackTarget
from gapless.packer import writers
from gapless.parts import PackedDataset
from tests.pack.in_process import pack_source, work_in_process
from tests.waiting import wait_until

SAMPLES: Final = [bytes([n]) * 1000 for n in range(60)]
SOURCE: Final = "tests.pack.test_packing:SAMPLES"
_SURVEY: Final = SourceSurvey(0, "samples", None, None, None, [], "", 0.0, 0.0, [])


def read_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def whole(in_process: None, tmp_path: Path) -> Path:
    """Return data that were packed in one go, in six shards."""
    _ = in_process
    pack_source(SOURCE, tmp_path / "whole", shard_bytes=10_000)
    return tmp_path / "whole"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_leaves_whole_shards_and_the_rest_is_written_later(
    number: int, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = writers.FileWriter.add

    def fill(writer: writers.FileWriter, record: Any) -> tuple[int, int]:  # noqa: ANN401
        if record.data[16] == 35:
            raise OSError(number, os.strerror(number))
        return add(writer, record)

    target = tmp_path / "target"
    with monkeypatch.context() as patch:
        patch.setattr(writers.FileWriter, "add", fill)
        with pytest.raises(PackingError, match=r"takes no more .* of 6 shards are whole and stay"):
            pack_source(SOURCE, target, shard_bytes=10_000)
    assert not list(target.glob(".part*"))
    with pytest.raises(ValueError, match="is not complete"):
        PackedDataset(target)
    result = pack_source(SOURCE, target, shard_bytes=10_000)
    assert 0 < result.n_kept < 6
    assert read_files(target) == read_files(whole)


def test_a_shard_that_was_damaged_before_it_goes_on_is_written_again(
    whole: Path,
) -> None:
    manifest = read_manifest(whole)
    assert manifest is not None
    expected = read_files(whole)
    packing.write_manifest(whole, replace(manifest, complete=False))
    (whole / "shard-00001.bin").write_bytes(b"cut")
    (whole / "shard-00002.idx").unlink()
    (whole / ".part-1-shard-00003.bin").write_bytes(b"of a writer that was killed")
    assert pack_source(SOURCE, whole).n_kept == 4
    assert read_files(whole) == expected


def test_files_that_were_cut_or_changed_later_are_noticed(whole: Path) -> None:
    path = whole / "shard-00001.bin"
    data = path.read_bytes()
    path.write_bytes(data[:-1] + b"?")
    with pytest.raises(PackingError, match="shard-00001 is not what was written"):
        pack_source(SOURCE, whole, verify=True)
    path.write_bytes(data[:-1])
    with pytest.raises(ValueError, match="has 10239 bytes, and was written with 10240"):
        PackedDataset(whole)


def test_what_is_packed_is_not_overwritten_and_can_be_compared(whole: Path) -> None:
    before = read_files(whole)
    with pytest.raises(PackingError, match="is packed already"):
        pack_source(SOURCE, whole)
    assert pack_source(SOURCE, whole, verify=True).n_verified == 60
    with pytest.raises(PackingError, match="another source"):
        pack_source("tests.pack.test_packing:SAMPLES[1:]", whole, verify=True)
    with pytest.raises(PackingError, match="was begun as packed"):
        pack_source(SOURCE, whole, named_format="tar", verify=True)
    assert read_files(whole) == before


def test_samples_that_differ_from_the_source_are_named(
    in_process: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _ = in_process
    changed = SAMPLES.copy()
    monkeypatch.setattr(sys.modules[__name__], "CHANGED", changed, raising=False)
    # pytest imports this file under the same name that the source is imported by
    monkeypatch.setitem(sys.modules, "tests.pack.test_packing", sys.modules[__name__])
    pack_source("tests.pack.test_packing:CHANGED", tmp_path / "target")
    changed[33] = b"another"  # one that the survey does not look at
    with pytest.raises(PackingError, match=r"1 of 60 samples .* \(sample 33\)"):
        pack_source("tests.pack.test_packing:CHANGED", tmp_path / "target", verify=True)


def test_random_samples_are_refused(in_process: None, tmp_path: Path) -> None:
    _ = in_process
    (tmp_path / "noise.py").write_text(
        "import os\nclass Noise:\n"
        "  def __len__(self): return 9\n  def __getitem__(self, i): return os.urandom(4)\n"
    )
    with pytest.raises(PackingError, match="is another each time it is made"):
        pack_source(f"{tmp_path}/noise.py:Noise", tmp_path / "target")
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("Path", r"sample 0: sample is pathlib.\w+; what can be packed: tensors"),
        ("{'a': [Path('x')]}", r"sample\['a'\]\[0\] is pathlib"),
        ("{(1,): 2}", "a key of sample is tuple"),
        ("__import__('numpy').array([None])", "sample is a numpy array of objects"),
        ("__import__('torch').ones(2).to_sparse()", "sample is a tensor that is sparse"),
        ("__import__('collections').OrderedDict()", "sample is collections.OrderedDict"),
        ("1 / 0", "cannot be made|ZeroDivisionError"),
    ],
)
def test_what_cannot_be_written_is_refused_by_its_type(
    expression: str, words: str, in_process: None, tmp_path: Path
) -> None:
    _ = in_process
    value = "Path('x')" if expression == "Path" else expression
    with pytest.raises(PackingError, match=words):
        pack_source(f"pathlib:[{value}]", tmp_path / "target")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pathlib:nothing", "pathlib has no 'nothing'"),
        ("no_module_of_ours:x", "no_module_of_ours cannot be imported"),
        ("pathlib:os", "is a module, and no data set"),
        ("pathlib:iter([])", "and no data set"),
        ("pathlib:Path.exists", "cannot be called without arguments"),
        ("re:compile('a')", "no data set"),
    ],
)
def test_a_source_that_is_no_data_set_is_refused(
    text: str, words: str, in_process: None, tmp_path: Path
) -> None:
    _ = in_process
    with pytest.raises(PackingError, match=words):
        pack_source(text, tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_a_script_that_trains_when_it_is_imported_is_told_how_to_change(
    in_process: None, tmp_path: Path
) -> None:
    _ = in_process
    (tmp_path / "script.py").write_text("data = [1]\nint('many')\n")
    with pytest.raises(PackingError, match=r"ValueError.*below if __name__ == '__main__'"):
        pack_source(f"{tmp_path}/script.py:data", tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_places_that_cannot_be_are_refused(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no such file or folder"):
        find_source(str(tmp_path / "nowhere"))
    (tmp_path / "a.py").touch()
    with pytest.raises(UsageError, match="name the data set in it"):
        find_source(str(tmp_path / "a.py"))
    with pytest.raises(UsageError, match="is packed itself"):
        find_source(str(whole))
    (tmp_path / "photos").mkdir()
    with pytest.raises(UsageError, match="lies in its own source"):
        check_places(find_source(str(tmp_path / "photos")), tmp_path / "photos/x")
    with pytest.raises(UsageError, match="there is no folder"):
        check_places(find_source("a:b"), tmp_path / "x/y")
    with pytest.raises(PackingError, match="holds other files"):
        pack_source(SOURCE, tmp_path)


def test_only_one_process_packs_into_a_folder(whole: Path) -> None:
    lock = os.open(whole, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with pytest.raises(PackingError, match="another gapless pack"):
        pack_source(SOURCE, whole, verify=True)
    os.close(lock)


def test_room_is_looked_at_first(
    in_process: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _ = in_process

    class SmallDisk:
        f_bavail, f_frsize = 10, 4096

        def __init__(self, _: Path) -> None: ...

    monkeypatch.setattr(plan.os, "statvfs", SmallDisk)
    with pytest.raises(PackingError, match=r"about 66.2 KiB would be written, and 40.0 KiB"):
        pack_source(SOURCE, tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_a_huge_source_is_parted_evenly() -> None:
    shards = plan_shards(replace(_SURVEY, samples=50_000_000, sample_bytes=110_000.0), None)
    assert {shard.samples for shard in shards[:-1]} == {9761}
    assert (sum(shard.samples for shard in shards), len(shards)) == (50_000_000, 5123)


def test_a_record_behind_four_gigabytes_is_read(whole: Path) -> None:
    far = 5 << 30
    with (whole / "shard-00000.bin").open("r+b") as file:
        file.seek(far)
        file.write(b"\1\0\0\0007" + bytes(11))
    with (whole / "shard-00000.idx").open("r+b") as file:
        file.write(far.to_bytes(8, "little") + (16).to_bytes(8, "little"))
    manifest = json.loads((whole / "packed.json").read_text())
    manifest["shards"][0]["files"]["shard-00000.bin"]["bytes"] = far + 16
    (whole / "packed.json").write_text(json.dumps(manifest))
    assert PackedDataset(whole)[0] == 7


def test_a_target_of_a_later_version_is_left_alone(whole: Path) -> None:
    text = (whole / "packed.json").read_text()
    (whole / "packed.json").write_text(text.replace('"gapless_pack": 1', '"gapless_pack": 2'))
    with pytest.raises(PackingError, match=r"version 2 .* knows version 1"):
        pack_source(SOURCE, whole)
    with pytest.raises(ValueError, match="of version 2, and this reads version 1"):
        PackedDataset(whole)


def test_a_missing_package_is_named(
    in_process: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _ = in_process
    monkeypatch.setitem(sys.modules, "lmdb", None)
    with pytest.raises(PackingError, match=r"lmdb, which cannot .* pip install lmdb"):
        pack_source(SOURCE, tmp_path / "a.lmdb")


def test_parts_are_not_taken_for_shards(tmp_path: Path) -> None:
    target = PackTarget(tmp_path, None, is_new=True)
    Path(target.part_path("shard-00000") + ".bin").touch()
    target.remove_parts()
    assert list(tmp_path.iterdir()) == []


_SLOW: Final = """\
import time
print("this must not come among the answers")
class Slow:
    def __len__(self): return 40
    def __getitem__(self, i):
        time.sleep(0.01)
        return bytes([i]) * 1000, i
"""


def test_a_command_that_was_ended_goes_on_where_it_was(tmp_path: Path) -> None:
    """Real processes, without torch: first killed, then interrupted."""
    (tmp_path / "slow.py").write_text(_SLOW)
    (tmp_path / "tarfile.py").write_text("raise RuntimeError")  # hides none that packing needs
    command = [
        *(sys.executable, "-m", "gapless", "pack", "slow.py:Slow", "cut"),
        *("--shard-size", "6000", "--workers", "2", "--json"),
    ]
    for number, code, n_written in ((signal.SIGKILL, -9, 2), (signal.SIGINT, 130, 4)):
        with subprocess.Popen(
            command, cwd=tmp_path, stderr=subprocess.PIPE, start_new_session=True
        ) as process:
            wait_until(lambda n=n_written: count_written(tmp_path / "cut") >= n)
            os.killpg(process.pid, number)
            assert process.wait(10) == code
            assert process.stderr is not None
            assert (b"the same command goes on" in process.stderr.read()) == (code > 0)
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    assert 4 <= json.loads(again.stdout)["packed"]["shards_kept"] < 7
    with pytest.MonkeyPatch.context() as patch:
        work_in_process(patch)
        patch.chdir(tmp_path)
        pack_source("slow.py:Slow", tmp_path / "whole", shard_bytes=6000)
    assert read_files(tmp_path / "cut") == read_files(tmp_path / "whole")


def count_written(folder: Path) -> int:
    manifest = read_manifest(folder)
    return 0 if manifest is None else sum(shard.is_written for shard in manifest.shards)


def test_a_worker_that_dies_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    (tmp_path / "dying.py").write_text(
        "import os, sys\nclass Dying:\n  def __len__(self): return 3\n"
        "  def __getitem__(self, i):\n    print('farewell', file=sys.stderr); os._exit(3)\n"
    )
    with pytest.raises(PackingError, match="ended with 3: farewell"):
        pack_source(f"{tmp_path}/dying.py:Dying", tmp_path / "target", python=sys.executable)
    assert not (tmp_path / "target").exists()
