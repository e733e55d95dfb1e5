"""What is packed comes back: the same types and bytes, whatever the format."""

import io
import json
import struct
import tarfile
from pathlib import Path
from typing import Final

import numpy as np
import pytest
import torch
from PIL import Image

from gapless.errors import PackingError
from gapless.parts import PackedDataset
from tests.pack.in_process import pack_source
from tests.pack.odd_data import ALIKE, DATA_SETS, are_same

pytestmark = pytest.mark.usefixtures("in_process")
FORMATS: Final = ("packed", "tar", "lmdb", "hdf5", "mds", "litdata")
_ODD: Final = "tests.pack.odd_data:DATA_SETS[{!r}]"


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("name", DATA_SETS)
def test_odd_data_sets_come_back(name: str, kind: str, tmp_path: Path) -> None:
    result = pack_source(_ODD.format(name), tmp_path / "target", named_format=kind, verify=True)
    packed = PackedDataset(tmp_path / "target")
    assert result.n_verified == len(packed) == len(DATA_SETS[name])
    assert are_same([packed[i] for i in range(len(packed))], DATA_SETS[name])


@pytest.mark.parametrize("name", ALIKE)
def test_samples_that_are_alike_come_back_from_arrays(name: str, tmp_path: Path) -> None:
    pack_source(_ODD.format(name), tmp_path / "target.npy", verify=True)
    packed = PackedDataset(tmp_path / "target.npy")
    assert are_same([packed[i] for i in range(len(packed))], DATA_SETS[name])


def test_arrays_open_in_numpy(tmp_path: Path) -> None:
    pack_source(_ODD.format("alike"), tmp_path / "a.npy", shard_bytes=1)
    array = np.load(tmp_path / "a.npy/shard-00007.npy", mmap_mode="r")
    assert (array["0"].tolist(), array["1.f"].tolist()) == ([[[7] * 3] * 2], [7.0])


@pytest.mark.parametrize("name", ["lengths that vary", "unicode", "numbers"])
def test_samples_that_differ_are_no_arrays(name: str, tmp_path: Path) -> None:
    with pytest.raises(PackingError, match="--to npy is for"):
        pack_source(_ODD.format(name), tmp_path / "a.npy")
    assert not (tmp_path / "a.npy").exists()


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Return a folder of images that are odd in many ways."""
    images: dict[str, Image.Image | bytes] = {
        "b/a.png": Image.new("RGBA", (4, 2), (1, 2, 3, 4)),
        "b/deep/er/a.PNG": Image.fromarray(np.arange(8, dtype=np.uint16).reshape(2, 4)),
        "a/a.png": Image.new("RGB", (4, 2), (5, 6, 7)),
        "a/äöü 猫.jpg": Image.new("RGB", (4, 2), (9, 9, 9)),
        "a/broken.jpg": b"\xff\xd8 not a picture",
        "a/empty.jpeg": b"",
        "a/notes.txt": b"no image",
        "nothing/notes.txt": b"",
        "loose.png": b"in no class",
    }
    for name, image in images.items():
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(image, bytes):
            path.write_bytes(image)
        else:
            image.save(path)
    return tmp_path / "photos"


@pytest.mark.parametrize("kind", FORMATS)
def test_files_of_images_come_back_as_they_were(photos: Path, kind: str, tmp_path: Path) -> None:
    result = pack_source(photos, tmp_path / "target", named_format=kind, verify=True)
    packed = PackedDataset(tmp_path / "target", loader=lambda file: file.read())
    assert packed.classes == ["a", "b", "nothing"]
    assert packed.class_to_idx == {"a": 0, "b": 1, "nothing": 2}
    assert packed.names == [  # in the order of torchvision's ImageFolder
        "a/a.png", "a/broken.jpg", "a/empty.jpeg", "a/äöü 猫.jpg", "b/a.png", "b/deep/er/a.PNG"
    ]  # fmt: skip
    assert packed.targets == [0, 0, 0, 0, 1, 1]
    assert [packed[i] for i in range(6)] == [
        ((photos / name).read_bytes(), label) for name, label in packed.samples
    ]
    assert result.notes == [
        f"images directly in {photos} are left out, since they are in no class: 1",
        "files that are left out, since their names are of no images: 2 (.txt)",
    ]
    images = PackedDataset(tmp_path / "target", transform=lambda image: image.getpixel((0, 0)))
    assert (images[0], images[4]) == (((5, 6, 7), 0), ((1, 2, 3), 1))  # in RGB
    with pytest.raises(OSError, match="cannot identify image"):
        images[1]


def test_a_folder_of_images_without_classes_has_no_labels(photos: Path, tmp_path: Path) -> None:
    pack_source(photos / "a", tmp_path / "target")
    packed = PackedDataset(tmp_path / "target")
    assert (packed.classes, packed.targets[0], packed[0].size) == (None, None, (4, 2))


def test_a_folder_without_images_is_refused(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(PackingError, match="holds no images"):
        pack_source(photos / "nothing", tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_rows_of_a_table_come_back(tmp_path: Path) -> None:
    rows = [{"id": str(n), "te\nxt": f'"{n}", \n é'} for n in range(3000)]
    lines = [f'{n},"""{n}"", \n é"' for n in range(3000)]
    text = '\ufeffid,"te\nxt"\r\n' + "\r\n\r\n".join(lines)
    (tmp_path / "table.csv").write_bytes(text.encode())
    result = pack_source(tmp_path / "table.csv", tmp_path / "rows", shard_bytes=20_000, verify=True)
    packed = PackedDataset(tmp_path / "rows")
    assert len(result.manifest.shards) == 10
    assert [packed[i] for i in range(len(packed))] == rows


def test_a_row_with_too_few_fields_is_named(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,b\n1,2\n3\n")
    with pytest.raises(PackingError, match=r"sample 1 .* in the row: 1, in the header: 2: '3'"):
        pack_source(tmp_path / "table.csv", tmp_path / "rows")


def test_rows_of_parquet_come_back(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    pa = pytest.importorskip("pyarrow")
    rows = [{"n": n, "text": f"é{n}", "v": [0.5, n], "none": None} for n in range(30)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "t.parquet", row_group_size=7)
    pack_source(tmp_path / "t.parquet", tmp_path / "rows.lmdb", verify=True)
    packed = PackedDataset(tmp_path / "rows.lmdb")
    assert [packed[i] for i in range(30)] == rows


@pytest.mark.parametrize("kind", ["packed", "tar"])
def test_existing_shards_are_packed_again(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    folder.mkdir()
    samples = [
        {"__key__": f"dir/k{n}", "jpg": bytes([n] * n), "seg.png": b"s", "cls": b"1"}
        for n in range(6)
    ]
    for shard in range(2):
        with tarfile.open(folder / f"{shard}.tar", "w") as tar:
            for sample in samples[shard * 3 : shard * 3 + 3]:
                for extension in ("jpg", "seg.png", "cls"):
                    member = tarfile.TarInfo(f"{sample['__key__']}.{extension}")
                    member.size = len(sample[extension])
                    tar.addfile(member, io.BytesIO(sample[extension]))  # type: ignore[arg-type]
    pack_source(folder, tmp_path / "target", named_format=kind, verify=True, shard_bytes=1)
    packed = PackedDataset(tmp_path / "target")
    assert [packed[i] for i in range(6)] == samples
    assert packed.names == [sample["__key__"] for sample in samples]


def test_tar_shards_are_in_the_form_of_webdataset(photos: Path, tmp_path: Path) -> None:
    pack_source(photos, tmp_path / "p.tar")
    with tarfile.open(tmp_path / "p.tar/shard-00000.tar") as tar:
        names = tar.getnames()
    assert names[:3] == ["000000000.png", "000000000.cls", "000000001.jpg"]


def test_chunks_are_in_the_form_of_litdata(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    for n in (1, 2, 3):
        (tmp_path / "plain" / f"{n}.jpg").write_bytes(b"abc" * n)
    pack_source(tmp_path / "plain", tmp_path / "p.litdata")
    assert (tmp_path / "p.litdata/shard-00000.bin").read_bytes() == (  # as litdata 0.2.76 wrote it
        b"\x03\x00\x00\x00\x14\x00\x00\x00\x1b\x00\x00\x00%\x00\x00\x002\x00\x00\x00"
        b"\x03\x00\x00\x00abc\x06\x00\x00\x00abcabc\t\x00\x00\x00abcabcabc"
    )
    index = json.loads((tmp_path / "p.litdata/index.json").read_text())
    assert index["chunks"] == [
        {"chunk_bytes": 50, "chunk_size": 3, "dim": None, "filename": "shard-00000.bin"}
    ]
    assert index["config"]["data_format"] == ["bytes"]
    pack_source(photos, tmp_path / "labelled.litdata")
    index = json.loads((tmp_path / "labelled.litdata/index.json").read_text())
    assert index["config"]["data_format"] == ["bytes", "int"]
    chunk = (tmp_path / "labelled.litdata/shard-00000.bin").read_bytes()
    start, end = struct.unpack_from("<2I", chunk, 4 * 6)  # of the last sample
    length, label_length = struct.unpack_from("<2I", chunk, start)
    data = (photos / "b/deep/er/a.PNG").read_bytes()
    assert chunk[start + 8 : end] == data + (1).to_bytes(8, "little")
    assert (length, label_length, end) == (len(data), 8, len(chunk))


def test_transforms_are_applied_as_in_torchvision(tmp_path: Path) -> None:
    pack_source(_ODD.format("alike"), tmp_path / "triples")
    pack_source(_ODD.format("labels of all kinds"), tmp_path / "pairs")
    triples = PackedDataset(tmp_path / "triples", transform=len)
    pairs = PackedDataset(tmp_path / "pairs", transform=str.upper, target_transform=str)
    assert (triples[0], pairs[0]) == (3, ("A", "-7"))
    assert torch.equal(PackedDataset(tmp_path / "triples")[-1][0], torch.full((2, 3), 39))
    with pytest.raises(IndexError, match="sample 40 of 40"):
        triples[40]
