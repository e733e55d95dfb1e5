"""PackedDataset in workers: small when it is pickled, opened by each process, in any order."""

from __future__ import annotations

import functools
import http.server
import io
import pickle
import threading
from pathlib import Path
from typing import Final

import pytest
import torch
from torch.utils.data import DataLoader

from gapless.parts import PackedDataset, packed_shards
from tests.pack.in_process import pack_source, work_in_process

SAMPLES: Final = [(torch.full((50,), n), n % 3) for n in range(64)]
FORMATS: Final = ("packed", "tar", "npy", "lmdb", "hdf5")


@pytest.fixture(scope="module", params=FORMATS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return packed data of each format, in several shards."""
    path = tmp_path_factory.mktemp("packed") / request.param
    with pytest.MonkeyPatch.context() as patch:
        work_in_process(patch)
        source = "tests.parts.test_packed_dataset:SAMPLES"
        pack_source(source, path, named_format=request.param, shard_bytes=5000)
    return path


def test_forked_workers_read_what_the_training_process_reads_too(folder: Path) -> None:
    packed = PackedDataset(folder)
    before = [packed[n][0][0].item() for n in (0, 33, 63)]  # open before the fork
    other = PackedDataset(folder, target_transform=str)  # for validation, on the same files
    assert other[40][1] == "1"
    loader = DataLoader(packed, 8, shuffle=True, num_workers=2, multiprocessing_context="fork")
    values = sorted(int(row[0]) for _ in range(2) for rows, _ in loader for row in rows)
    assert values == sorted([*range(64), *range(64)])
    assert [packed[n][0][0].item() for n in (0, 33, 63)] == before == [0, 33, 63]


def test_it_pickles_as_its_path_and_transforms(folder: Path) -> None:
    packed = PackedDataset(folder, transform=torch.sum)
    assert packed[3] == (150, 0)
    text = pickle.dumps(packed)
    assert len(text) < 300
    again = pickle.loads(text)  # noqa: S301 - our own
    assert (again[3], len(again), again.targets[:4]) == ((150, 0), 64, [0, 1, 2, 0])
    assert repr(again) == f"PackedDataset({str(folder)!r}, 64 samples as {folder.name})"


def test_few_shards_are_open_at_a_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gapless.parts.packed_dataset._MAX_OPEN_SHARDS", 2)
    packed = PackedDataset(folder)
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert [packed[n][1] for n in (0, 63, 20, 40, 1, 62)] == [0, 0, 2, 1, 1, 2]
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 4  # two shards, and indices' maps


def test_batches_are_read_ahead(folder: Path) -> None:
    batch = PackedDataset(folder).__getitems__([5, 60, 5, -1])
    assert [sample[0][0].item() for sample in batch] == [5, 60, 5, 63]


def test_a_record_that_the_file_ends_before_is_an_error(folder: Path, tmp_path: Path) -> None:
    if folder.name not in ("packed", "tar", "npy"):
        pytest.skip("the library of the format says so")
    short = tmp_path / "short"
    short.write_bytes(b"abc")
    shard = packed_shards.SpanShard(str(short))
    with pytest.raises(EOFError, match="ends before the record at 1"):
        shard.read(0, packed_shards.IndexRow(1, 9, 0))


def test_a_file_that_comes_cut_short_is_asked_for_again_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [b"abc", b"abcdef", b"abc", b"abc", b"abc"]

    def answer(_: str) -> io.BytesIO:
        return io.BytesIO(answers.pop(0))

    monkeypatch.setattr(packed_shards, "open_far", answer)
    copy = packed_shards.find_file("https://host", "whole", str(tmp_path), 6)
    assert Path(copy).read_bytes() == b"abcdef"
    with pytest.raises(OSError, match="https://host/short gave 3 bytes"):
        packed_shards.find_file("https://host", "short", str(tmp_path), 6)
    assert [path.name for path in tmp_path.iterdir()] == ["whole"]


def test_where_nothing_was_packed_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing was packed there: no packed\.json"):
        PackedDataset(tmp_path)


def test_packed_data_behind_an_url_are_copied_shard_by_shard_and_once(
    folder: Path, tmp_path: Path
) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory, url = fsspec.filesystem("memory"), f"memory://packed/{folder.name}"
    memory.put(str(folder), f"/packed/{folder.name}", recursive=True)
    packed = PackedDataset(url, cache=tmp_path)
    assert packed[40][0][0] == 40
    n_files = len(list(tmp_path.glob("*/*")))
    assert 2 <= n_files < len(list(folder.iterdir())) - 1, "the shard that was read from"
    assert (packed.names[3], len(packed.targets)) == ("3", 64)
    loader = DataLoader(packed, 8, num_workers=1, multiprocessing_context="fork")
    assert [int(row[0]) for rows, _ in loader for row in rows] == [*range(64)]
    for file in memory.ls(f"/packed/{folder.name}", detail=False):
        if not file.endswith(".json"):
            memory.rm(file)
    assert PackedDataset(url, cache=tmp_path)[63][0][0] == 63, "a later run has the copies"
    assert PackedDataset(folder.as_uri())[5][0][0] == 5


def test_packed_data_of_a_web_server_are_copied_and_missing_ones_said_to_be(
    folder: Path, tmp_path: Path
) -> None:
    if folder.name not in ("packed", "lmdb"):
        pytest.skip("files are copied alike")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        packed = PackedDataset(url, cache=tmp_path)
        loader = DataLoader(packed, 8, num_workers=1, multiprocessing_context="fork")
        assert [int(row[0]) for rows, _ in loader for row in rows] == [*range(64)]
        with pytest.raises(FileNotFoundError, match="nothing was packed there"):
            PackedDataset(f"{url}/elsewhere", cache=tmp_path)
        server.shutdown()
    assert packed[63][0][0] == 63, "of the copies"


def test_an_url_needs_a_folder_for_copies() -> None:
    with pytest.raises(ValueError, match="cache="):
        PackedDataset("memory://nowhere")
