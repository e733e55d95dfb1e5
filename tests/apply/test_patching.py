"""Texts that come out, to the letter: where lines go, what is kept, what is left alone."""

import importlib
import re
from pathlib import Path
from textwrap import dedent

import pytest
import torch

from gapless.apply.drafts.checking import compare_facts
from gapless.apply.edits.vendored import write_part
from gapless.apply.patching import make_patch
from gapless.catalogue.examples.example_facts import cpu, loader
from gapless.model.edit import (
    Applicability,
    Edit,
    Location,
    SetArgument,
    SetEnv,
    SetGlobal,
    Skip,
    Wrap,
)
from gapless.model.tuning import ProvenFix

SCRIPT = Path("/srv/train.py")
LOADER = "torch.utils.data.DataLoader"
HEAD = "import torch\nfrom torch.utils.data import DataLoader\n"
BENCHMARK = SetGlobal("torch.backends.cudnn.benchmark", value=True)
COMPILE = Wrap("torch.nn.Module", "compile", {"mode": "default", "dynamic": None})
SGD = "opt = torch.optim.SGD(model.parameters())"


def at(line: int) -> Location:
    return Location(str(SCRIPT), line)


def fix(*edits: Edit, name: str = "fix", kind: Applicability = Applicability.RISKY) -> ProvenFix:
    return ProvenFix(name, name, edits, kind)


def write(text: str, *edits: Edit) -> str:
    patch = make_patch([fix(*edits)], {SCRIPT: text.encode()}, SCRIPT)
    assert [change.reason for change in patch.manual] == []
    (file,) = (file for file in patch.files if file.path == SCRIPT)
    assert file.before == text.encode()
    return file.after.decode()


def refuse(text: str, *edits: Edit) -> str:
    patch = make_patch([fix(*edits)], {SCRIPT: text.encode()}, SCRIPT)
    assert (patch.files, patch.written) == ((), ())
    return patch.manual[0].reason


def workers(line: int, value: int = 4) -> SetArgument:
    return SetArgument(LOADER, "num_workers", value, at(line))


def test_lines_are_found_again_after_lines_were_put_before_them() -> None:
    text = HEAD + "\na = DataLoader(\n    x,  # first\n)\nb = DataLoader(y)\n"
    after = write(text, BENCHMARK, SetEnv("A", "1"), workers(4), workers(7, 2))
    assert after == dedent("""\
        import os

        os.environ["A"] = "1"

        import torch
        from torch.utils.data import DataLoader

        torch.backends.cudnn.benchmark = True

        a = DataLoader(
            x,  # first
            num_workers=4,
        )
        b = DataLoader(y, num_workers=2)
        """)


def test_imports_of_the_future_and_docstrings_stay_first() -> None:
    text = '#!/usr/bin/env python\n"""Train."""\nfrom __future__ import annotations\nx = 1\n'
    assert write(text, BENCHMARK) == (
        '#!/usr/bin/env python\n"""Train."""\nfrom __future__ import annotations\n'
        "import torch\n\ntorch.backends.cudnn.benchmark = True\n\nx = 1\n"
    )


def test_a_setting_under_a_condition_is_written_at_the_top_too() -> None:
    text = HEAD + "\nif x:\n    torch.backends.cudnn.benchmark = True\n"
    after = write(text, BENCHMARK)
    assert after.count("benchmark = True") == 2
    assert write(after + "#\n", BENCHMARK, workers_of_nothing()) != after  # still compiles


def workers_of_nothing() -> SetGlobal:
    return SetGlobal("torch.set_num_threads", 2)


def test_a_setting_is_written_once() -> None:
    after = write(HEAD, BENCHMARK)
    assert make_patch([fix(BENCHMARK)], {SCRIPT: after.encode()}, SCRIPT).files == ()


def test_threads_of_workers_are_left_alone() -> None:
    text = HEAD + (
        "\ndef begin(_):\n    torch.set_num_threads(1)\n\n"
        "loader = DataLoader(x, worker_init_fn=begin)\n"
    )
    after = write(text, SetGlobal("torch.set_num_threads", 4))
    assert "    torch.set_num_threads(1)\n" in after
    assert "\ntorch.set_num_threads(4)\n" in after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("if a:\n    {0}\nb()\n", "if a:\n    pass\nb()\n"),
        ("if a:\n    {0}\n    {0}\nb()\n", "if a:\n    pass\nb()\n"),
        ("if a: {0}\n", "if a: pass\n"),
        ("if a: {0}; b()\n", "if a: b()\n"),
        ("a(); {0}  # why\n", "a()  # why\n"),
        ("{0}; {0}\n", ""),
        ("f = lambda: {0}\n", "f = lambda: None\n"),
        ("def f():\n    return {0}\n", "def f():\n    return None\n"),
        ("for a in b:\n    # kept\n    {0}\n    c()\n", "for a in b:\n    # kept\n    c()\n"),
        ("a()\n{0}", "a()\n"),
    ],
)
def test_calls_are_taken_out(before: str, after: str) -> None:
    text = "import torch\n" + before.format("torch.cuda.synchronize()")
    assert write(text, Skip("torch.cuda.synchronize")) == "import torch\n" + after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{SGD}\n", f"model.compile()\n{SGD}\n"),
        (f"model = make(); {SGD}\n", f"model = make(); model.compile(); {SGD}\n"),
        (f"if model: {SGD}\n", f"if model: model.compile(); {SGD}\n"),
        (f"def f():\n\t{SGD}\n", f"def f():\n\tmodel.compile()\n\t{SGD}\n"),
    ],
)
def test_models_are_changed_before_their_optimizer(before: str, after: str) -> None:
    assert write("import torch\n" + before, COMPILE) == "import torch\n" + after


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("model = DDP(net)\n" + SGD, "wrapped already"),
        (
            "class M:\n    def f(self):\n        return torch.optim.SGD(self.parameters())\n",
            "inside",
        ),
        ("opt = torch.optim.SGD([*a.parameters(), *b.parameters()])\n", "which model"),
    ],
)
def test_models_that_are_not_known_are_left(text: str, reason: str) -> None:
    assert reason in refuse("import torch\n" + text, COMPILE)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import sys\nx = DataLoader(d, num_workers=int(sys.argv[1]))\n", "command line"),
        ("a = p.parse_args()\nx = DataLoader(d, num_workers=0 if a.b else 1)\n", "command line"),
        ("\nf = lambda n=0: DataLoader(d, num_workers=n)  # x = DataLoader(\n", "callers"),
        ("\ndef f(d, n=0, *a):\n    x = DataLoader(d, num_workers=n)\n\nf(*b)\n", "callers"),
        ("import cfg\n\nx = DataLoader(d, num_workers=cfg.workers())\n", "cfg.workers()"),
        ("import cfg\n\nx = DataLoader(d, num_workers=cfg.WORKERS)\n", "cfg.WORKERS"),
        ("\nclass C: n = 0\nx = DataLoader(d, num_workers=C.n)\n", "C.n"),
        ("\nfor n in (0, 1):\n    x = DataLoader(d, num_workers=n)\n", "not written as one value"),
        ("\nn = 0\nn += 1\nx = DataLoader(d, num_workers=n)\n".replace("\nn +=", "; n +="), "n"),
        ("\nkw = {}\nkw['a'] = 1; x = DataLoader(d, **kw)\n".replace("}\nkw", "}; kw"), "kw"),
    ],
)
def test_values_of_others_are_left(text: str, reason: str) -> None:
    head = HEAD.replace("\n", ";", 1)
    lines = (head + text).splitlines()
    line = next(number for number, row in enumerate(lines, 1) if "x = DataLoader(" in row)
    assert reason in refuse(head + text, workers(line))


def test_a_partial_that_gives_arguments_by_position_shifts_those_of_the_call() -> None:
    text = "import functools\n" + HEAD + "\nmake = functools.partial(DataLoader, d)\nx = make(4)\n"
    after = write(text, SetArgument(LOADER, "batch_size", 8, at(6)))
    assert after.endswith("x = make(8)\n")


def test_a_fix_is_written_wholly_or_not_at_all() -> None:
    text = HEAD + "\nx = DataLoader(d)\n"
    patch = make_patch(
        [
            fix(BENCHMARK, workers(4), Wrap(LOADER, "autocast"), name="a"),
            fix(workers(4), name="b"),
            fix(workers(4, 8), name="c", kind=Applicability.MANUAL),
        ],
        {SCRIPT: text.encode()},
        SCRIPT,
    )
    assert patch.written == ("b",)
    assert [change.fix for change in patch.manual] == ["a", "c"]
    assert "DataLoader(…, num_workers=4)" in patch.manual[0].text
    assert patch.files[0].after.decode() == HEAD + "\nx = DataLoader(d, num_workers=4)\n"


def test_the_part_is_one_file_beside_the_script_and_imported_before_it_is_used() -> None:
    text = HEAD + "x = DataLoader(d)\nimport json\n"
    edit = Wrap(LOADER, "device-prefetcher", {"ahead": 2}, at(3))
    patch = make_patch([fix(edit)], {SCRIPT: text.encode()}, SCRIPT)
    script, part = patch.files
    assert script.after.decode() == HEAD + (
        "from device_prefetcher import DevicePrefetcher\n"
        "x = DevicePrefetcher(DataLoader(d), ahead=2)\nimport json\n"
    )
    assert (part.path, part.before) == (SCRIPT.parent / "device_prefetcher.py", None)
    assert b"Apache License" in part.after.splitlines()[0]
    assert b"gapless" not in b"\n".join(part.after.splitlines()[1:])
    again = {SCRIPT: script.after, part.path: part.after}
    moved = Wrap(LOADER, "device-prefetcher", {"ahead": 2}, at(4))
    assert make_patch([fix(moved)], again, SCRIPT).files == ()


def test_the_part_does_what_it_does_in_gapless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vendored_part.py").write_text(write_part("device-prefetcher"))
    monkeypatch.syspath_prepend(str(tmp_path))
    part = importlib.import_module("vendored_part")
    assert [*part.DevicePrefetcher([1, 2, 3], device="cpu")] == [1, 2, 3]


def test_a_part_of_several_files_is_one_that_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vendored_batches.py").write_text(write_part("uint8-in-loop"))
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("vendored_batches")
    pictures = torch.full((1, 3, 8, 8), 51, dtype=torch.uint8)
    ((batch,),) = module.ByteBatches([[pictures]])
    assert torch.equal(batch.float() / 255 + 0, pictures.float() / 255)


def test_a_loader_that_others_look_at_is_not_wrapped() -> None:
    text = HEAD + "x = accelerator.prepare(DataLoader(d))\n"
    assert "needs a DataLoader" in refuse(text, Wrap(LOADER, "device-prefetcher", {}, at(3)))


@pytest.mark.parametrize(
    ("part_name", "module", "function"),
    [
        ("recycled-collate", "recycled_collate", "recycle_batches"),
        ("uint8-to-device", "uint8_pictures", "send_uint8"),
        ("decode-on-device", "jpeg_files", "decode_on_device"),
        ("decode-by-dali", "dali_batches", "decode_by_dali"),
        ("packed-data", "packed_loader", "read_packed"),
        ("read-ahead", "read_ahead", "read_ahead"),
        ("reduced-decoding", "jpeg_files", "decode_at_fraction"),
        ("jpeg-decoder", "jpeg_decoders", "decode_with"),
        ("picture-cache", "picture_cache", "cache_pictures"),
        ("uint8-by-hand", "handwritten_floats", "send_handwritten_uint8"),
        ("file-cache", "file_cache", "cache_files"),
        ("length-buckets", "length_buckets", "bucket_by_length"),
        ("sample-cache", "sample_cache", "cache_samples"),
    ],
)
def test_a_part_that_gives_the_loader_itself_is_written_there_too(
    part_name: str, module: str, function: str
) -> None:
    text = HEAD + "x = accelerator.prepare(DataLoader(d))\n"
    edit = Wrap(LOADER, part_name, {}, at(3))
    script, part = make_patch([fix(edit)], {SCRIPT: text.encode()}, SCRIPT).files
    assert script.after.decode() == HEAD + (
        f"from {module} import {function}\nx = accelerator.prepare({function}(DataLoader(d)))\n"
    )
    assert part.path == SCRIPT.parent / f"{module}.py"
    names: dict[str, object] = {"__name__": module}
    exec(compile(part.after, f"{module}.py", "exec"), names)  # noqa: S102 - the part itself
    assert callable(names[function])
    assert not re.search(rb"(import|from) gapless", part.after)


def test_a_class_of_a_part_is_the_same_in_a_file_of_its_own() -> None:
    ours, theirs, users = (
        cpu(loader(dataset=name))
        for name in ("_gapless.parts.a.Packed", "packed_loader.Packed", "train.Photos")
    )
    assert list(compare_facts(ours, theirs)) == []
    assert len(list(compare_facts(ours, users))) == len(list(compare_facts(users, theirs))) == 1


def test_without_a_script_that_can_be_changed_settings_are_left() -> None:
    patch = make_patch([fix(BENCHMARK)], {}, None)
    assert "no script" in patch.manual[0].reason
    assert patch.manual[0].text == "torch.backends.cudnn.benchmark = True"
