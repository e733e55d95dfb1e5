"""Data in the formats that the scripts read: made from a seed, small, the same on each machine."""

import gzip
import json
import pickle
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import numpy as np

_WORDS: Final = 2_000


def make(entry: str, root: Path) -> None:
    """Make what ``KIND:PATH[:COUNT]`` asks for, the path below a folder, unless it is there."""
    kind, path, *count = entry.split(":")
    target = root / path
    if not target.exists():
        MAKERS[kind](target, int(count[0]) if count else 0)


def mnist(folder: Path, count: int) -> None:
    """Write MNIST's four files of pictures and labels, as they are published, unpacked.

    A sixth as many for tests, as there: so an evaluation takes as much of an epoch as there.
    """
    for owner in ("MNIST", "FashionMNIST"):
        raw = folder / owner / "raw"
        raw.mkdir(parents=True, exist_ok=True)
        for name, number in (("train", count or 12_000), ("t10k", (count or 12_000) // 6)):
            rng = np.random.default_rng(number)
            pictures = rng.integers(0, 255, (number, 28, 28), dtype=np.uint8)
            labels = rng.integers(0, 10, number, dtype=np.uint8)
            labels[:10] = np.arange(10)
            head = struct.pack(">IIII", 2051, number, 28, 28)
            _write_both(raw / f"{name}-images-idx3-ubyte", head + pictures.tobytes())
            _write_both(
                raw / f"{name}-labels-idx1-ubyte",
                struct.pack(">II", 2049, number) + labels.tobytes(),
            )


def _write_both(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(data, 1))


def cifar10(folder: Path, count: int) -> None:
    """Write the pickled batches of CIFAR-10: as many for tests as in each of five of training."""
    base = folder / "cifar-10-batches-py"
    base.mkdir(parents=True, exist_ok=True)
    n_samples = (count or 10_000) // 5
    for index, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        rng = np.random.default_rng(index)
        batch = {
            "data": rng.integers(0, 255, (n_samples, 3072), dtype=np.uint8),
            "labels": rng.integers(0, 10, n_samples).tolist(),
        }
        (base / name).write_bytes(pickle.dumps(batch))
    meta = {"label_names": [str(i) for i in range(10)]}
    (base / "batches.meta").write_bytes(pickle.dumps(meta))


def text(path: Path, count: int) -> None:
    """Write a text of made-up sentences that holds every printable sign."""
    path.parent.mkdir(parents=True, exist_ok=True)
    signs = "".join(map(chr, range(32, 127)))
    path.write_text(f"{signs}\n{_text(count or 20_000, 1)}", encoding="utf-8")


def corpus(folder: Path, count: int) -> None:
    """Write ``train.txt``, ``valid.txt`` and ``test.txt``."""
    folder.mkdir(parents=True, exist_ok=True)
    number = count or 40_000
    for index, name in enumerate(("train", "valid", "test")):
        words = _text(number if index == 0 else max(1500, number // 40), index + 1)
        (folder / f"{name}.txt").write_text(words, encoding="utf-8")


def _text(count: int, seed: int) -> str:
    rng = np.random.default_rng(seed)
    letters = np.array(list("etaoinshrdlucmfwypvbgkqjxz"))
    vocabulary = ["".join(rng.choice(letters, rng.integers(2, 9))) for _ in range(_WORDS)]
    picks = np.minimum(rng.zipf(1.3, count), _WORDS) - 1
    words = [vocabulary[i] for i in picks]
    rows = [" ".join(words[i : i + 12]).capitalize() + " ." for i in range(0, count, 12)]
    return " \n".join(rows) + " \n"


def names(path: Path, count: int) -> None:
    """Write one made-up name a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    words = [word for word in _text(4 * (count or 5000), 3).lower().split() if word.isalpha()]
    path.write_text("\n".join(words[: count or 5000]) + "\n", encoding="utf-8")


def tokens(folder: Path, count: int) -> None:
    """Write ``train.bin``, ``val.bin`` (16-bit tokens) and ``meta.pkl``, as nanoGPT reads them."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(4)
    for name, number in (("train", count or 400_000), ("val", 40_000)):
        rng.integers(0, 65, number).astype(np.uint16).tofile(folder / f"{name}.bin")
    signs = [chr(32 + i) for i in range(65)]
    meta = {
        "vocab_size": 65,
        "itos": dict(enumerate(signs)),
        "stoi": {s: i for i, s in enumerate(signs)},
    }
    (folder / "meta.pkl").write_bytes(pickle.dumps(meta))


def cora(folder: Path, count: int) -> None:
    """Write ``cora.content`` and ``cora.cites``: words and citations of made-up papers."""
    folder.mkdir(parents=True, exist_ok=True)
    rng, number = np.random.default_rng(5), count or 2708
    labels = [
        "Case_Based",
        "Theory",
        "Neural_Networks",
        "Rule_Learning",
        "Genetic",
        "Methods",
        "RL",
    ]
    words = (rng.random((number, 400)) < 0.03).astype(int)  # noqa: PLR2004  few words each
    words[:, 0] = 1
    rows = [
        "\t".join([str(i), *map(str, words[i]), labels[i % len(labels)]]) for i in range(number)
    ]
    (folder / "cora.content").write_text("\n".join(rows) + "\n")
    links = {(int(a), int(b)) for a, b in rng.integers(0, number, (2 * number, 2)) if a != b}
    (folder / "cora.cites").write_text("\n".join(f"{a}\t{b}" for a, b in sorted(links)) + "\n")


def pictures(folder: Path, count: int) -> None:
    """Write a folder of JPEG files by class, for training and validation."""
    from PIL import Image

    rng = np.random.default_rng(6)
    for split, number in (("train", count or 400), ("val", 60)):
        for index in range(number):
            class_folder = folder / split / f"class{index % 4}"
            class_folder.mkdir(parents=True, exist_ok=True)
            small = rng.integers(0, 255, (12, 12, 3), dtype=np.uint8)
            Image.fromarray(small).resize((96, 96)).save(class_folder / f"{index}.jpg", quality=85)


def bsds(folder: Path, count: int) -> None:
    """Write pictures for training and testing, as BSDS300 lies unpacked."""
    from PIL import Image

    rng = np.random.default_rng(10)
    for split, number in (("train", count or 60), ("test", 8)):
        (folder / split).mkdir(parents=True, exist_ok=True)
        for index in range(number):
            small = rng.integers(0, 255, (40, 30, 3), dtype=np.uint8)
            Image.fromarray(small).resize((481, 321)).save(folder / split / f"{index}.jpg")


def masks(folder: Path, count: int) -> None:
    """Write pictures (``imgs``) and their masks of two classes (``masks``)."""
    from PIL import Image

    rng = np.random.default_rng(7)
    for name in ("imgs", "masks"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for index in range(count or 120):
        small = rng.integers(0, 255, (12, 12, 3), dtype=np.uint8)
        Image.fromarray(small).resize((96, 96)).save(folder / "imgs" / f"{index}.png")
        mask = (rng.random((12, 12)) < 0.5).astype(np.uint8)  # noqa: PLR2004  half of it
        Image.fromarray(mask).resize((96, 96), 0).save(folder / "masks" / f"{index}.png")


def table(path: Path, count: int) -> None:
    """Write a CSV of numbers with a label in the last column."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(8)
    values = rng.normal(size=(count or 5000, 20))
    rows = [",".join(f"{v:.4f}" for v in row) + f",{int(row[0] > 0)}" for row in values]
    path.write_text("\n".join([",".join([*(f"x{i}" for i in range(20)), "y"]), *rows]) + "\n")


def shapes(folder: Path, count: int) -> None:
    """Write clouds of points with a label each, by category, as ShapeNet's parts lie unpacked."""
    rng, number = np.random.default_rng(11), count or 300
    names = {"Airplane": "001", "Chair": "002", "Lamp": "003", "Table": "004"}
    folder.mkdir(parents=True, exist_ok=True)
    rows = "".join(f"{name}\t{code}\n" for name, code in names.items())
    (folder / "synsetoffset2category.txt").write_text(rows)
    (folder / "train_test_split").mkdir(exist_ok=True)
    for split, n_files in (("train", number), ("test", number // 6)):
        file_list: list[str] = []
        for index in range(n_files):
            code = f"{index % len(names) + 1:03d}"
            class_folder = folder / code
            for name in ("points", "points_label"):
                (class_folder / name).mkdir(parents=True, exist_ok=True)
            points = rng.normal(size=(600, 3))
            labels = rng.integers(1, 4, 600)
            np.savetxt(class_folder / "points" / f"{split}{index}.pts", points, "%.5f")
            np.savetxt(class_folder / "points_label" / f"{split}{index}.seg", labels, "%d")
            file_list.append(f"shape_data/{code}/{split}{index}")
        path = folder / "train_test_split" / f"shuffled_{split}_file_list.json"
        path.write_text(json.dumps(file_list))


def folder(path: Path, _count: int) -> None:
    """Make an empty folder that a script writes into."""
    path.mkdir(parents=True, exist_ok=True)


def json_lines(path: Path, count: int) -> None:
    """Write one object a line: a sentence and its label."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sentences = _text(12 * (count or 2000), 9).splitlines()
    rows = [json.dumps({"text": row, "label": len(row) % 2}) for row in sentences]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def patches(path: Path, count: int) -> None:
    """Write an HDF5 file of small grey pictures, blurred and sharp, as super-resolution reads."""
    import h5py

    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(12)
    sharp = rng.random((count or 1200, 1, 41, 41), dtype=np.float32)
    blurred = (sharp + np.roll(sharp, 1, -1) + np.roll(sharp, 1, -2)) / 3
    with h5py.File(path, "w") as file:
        file["data"], file["label"] = blurred, sharp
        file["lr"], file["hr"] = 255 * blurred[:, 0], 255 * sharp[:, 0]


def points(folder: Path, count: int) -> None:
    """Write HDF5 files of clouds of points with the number of a class, as ModelNet40 lies there."""
    import h5py

    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(13)
    for split, number in (("train", count or 800), ("test", 40)):
        with h5py.File(folder / f"ply_data_{split}0.h5", "w") as file:
            file["data"] = rng.normal(size=(number, 1024, 3)).astype(np.float32)
            file["label"] = rng.integers(0, 40, (number, 1), dtype=np.uint8)


def sensors(folder: Path, count: int) -> None:
    """Write ``adj_mat.npy`` and ``node_values.npy``: distances of sensors, what they measured."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(14)
    near = (rng.random((64, 64)) < 0.1).astype(np.float32)  # noqa: PLR2004  few neighbours each
    np.save(folder / "adj_mat.npy", np.maximum(near, near.T))
    np.save(folder / "node_values.npy", rng.random((count or 2000, 64, 2), dtype=np.float32))


def voices(folder: Path, count: int) -> None:
    """Write ``train.pkl`` and the spectrograms of speakers that it lists."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(15)
    rows: list[list[object]] = []
    for index in range(count or 160):
        name = f"speaker{index}.npy"
        np.save(folder / name, rng.random((160, 80), dtype=np.float32))
        rows.append([f"p{index}", rng.random(256, dtype=np.float32), name])
    (folder / "train.pkl").write_bytes(pickle.dumps(rows))


def shards(folder: Path, count: int) -> None:
    """Write files of 16-bit tokens below 512."""
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(3):
        rng = np.random.default_rng(index)
        rng.integers(0, 512, count or 400_000).astype(np.uint16).tofile(folder / f"data{index}.bin")


def tags(folder: Path, count: int) -> None:
    """Write sentences of words and their tags by number, and the lists of signs, words, tags."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(16)
    marks = ["<PAD>", "<SOS>", "<EOS>", "<UNK>"]
    for name, number in (("char", 40), ("word", 2000), ("tag", 12)):
        (folder / name).write_text("\n".join([*marks, *map(str, range(number))]) + "\n")
    rows = [
        " ".join(f"4+5:{word}" for word in rng.integers(4, 2004, 14))
        + "\t"
        + " ".join(map(str, rng.integers(4, 16, 14)))
        for _ in range(count or 2000)
    ]
    (folder / "train").write_text("\n".join(rows) + "\n")


MAKERS: Final[Mapping[str, Callable[[Path, int], None]]] = {
    "mnist": mnist,
    "cifar10": cifar10,
    "text": text,
    "corpus": corpus,
    "names": names,
    "tokens": tokens,
    "cora": cora,
    "pictures": pictures,
    "bsds": bsds,
    "masks": masks,
    "table": table,
    "folder": folder,
    "shapes": shapes,
    "lines": json_lines,
    "patches": patches,
    "points": points,
    "sensors": sensors,
    "voices": voices,
    "shards": shards,
    "tags": tags,
}
