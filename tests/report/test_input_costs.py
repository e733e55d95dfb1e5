"""The table of ``gapless data``."""

import io
import json
from pathlib import Path

import jsonschema
from inline_snapshot import snapshot
from msgspec.structs import replace
from rich.cells import cell_len

from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.input_costs import (
    InputCosts,
    InputSubject,
    PixelDifference,
    StageCost,
    StorageSpeed,
)
from gapless.report.documents.measurements import input_json
from gapless.report.input_costs import input_lines
from gapless.report.text.console import pen_for

SCHEMA = Path(__file__).parents[2] / "docs/schema/data.json"


def around(ms: float) -> Estimate:
    return Estimate(ms * 0.9e6, ms * 1e6, ms * 1.1e6)


COSTS = InputCosts(
    command=("python", "train.py"),
    run="r1",
    subject=InputSubject(
        Location("code/train.py", 41), "Photos", 5000, 64, 2, None, "Pillow", 38_535_168
    ),
    samples=256,
    costs=(
        StageCost("read", "now", is_now=True, sample_ns=around(0.08)),
        StageCost("decode", "now", is_now=True, sample_ns=around(3.0)),
        StageCost(
            "decode",
            "simplejpeg, fast DCT",
            is_now=False,
            sample_ns=around(2.0),
            speedup=Estimate(1.4, 1.5, 1.6),
            step_ns=Estimate(7.5e7, 8e7, 8.5e7),
            step_speedup=Estimate(1.1, 1.25, 1.3),
            pixels=PixelDifference(7, 0.31),
        ),
        StageCost("decode", "torchvision.io", is_now=False, why="not installed"),
        StageCost("decode", "PyTurboJPEG", is_now=False, why="not installed"),
        StageCost("sample", "now", is_now=True, sample_ns=around(4.0)),
        StageCost("collate", "now", is_now=True, sample_ns=around(1.0)),
        StageCost(
            "collate",
            "uint8 batch",
            is_now=False,
            sample_ns=around(0.9),
            speedup=Estimate(0.9, 1.1, 1.3),
            pixels=PixelDifference(0, 0.0),
        ),
        StageCost("pin", "now", is_now=True, why="no CUDA device is there"),
    ),
    storage=(
        StorageSpeed("cold", 1, 3e8, 3000.0),
        StorageSpeed("cold", 8, 6e8, 6000.0),
        StorageSpeed("warm", 1, 2e9, 20_000.0),
    ),
    files=256,
    run_step_ns=1e8,
    step_note=None,
    notes=(),
    is_complete=True,
)


def text_of(costs: InputCosts, width: int) -> str:
    stream = io.StringIO()
    pen = pen_for(stream, width)
    pen.write(input_lines(costs, pen))
    return stream.getvalue()


def test_the_table() -> None:
    assert text_of(COSTS, 100) == snapshot("""\
gapless data · python train.py
256 samples (of 5,000) of Photos by the loader at train.py:41, batches of 64, 2 workers; a batch is
36.8 MiB

                                            ms/sample samples/s   times         a step    pixels off
read      now                     0.080 [0.072–0.088]    12,500
decode    now                        3.00 [2.70–3.30]       333
          simplejpeg, fast DCT       2.00 [1.80–2.20]       500   1.50×  80.0 ms 1.25×   ≤ 7, ø 0.31
all of it now                        4.00 [3.60–4.40]       250
collate   now                       1.00 [0.900–1.10]     1,000
          uint8 batch             0.900 [0.810–0.990]     1,111  1.10×?                         none
not measured: decode by torchvision.io, decode by PyTurboJPEG: not installed
not measured: pin: no CUDA device is there

one process makes 200 samples/s (5.00 ms each); 74 % of that is decode
the storage, 256 of its files: cold, in any order, by 1, 8 readers 300, 600 MB/s (3,000, 6,000
files/s); warm 2,000 MB/s (20,000 files/s)
a step of run r1 takes 100 ms now; most would be gained by simplejpeg, fast DCT (decode): 1.25×
[1.10 … 1.30]
""")


def test_no_line_is_wider_than_the_terminal_and_wide_ones_have_all_intervals() -> None:
    for width in (60, 80, 100, 130):
        assert max(map(cell_len, text_of(COSTS, width).splitlines())) <= width
    assert "1.50× [1.40–1.60]" in text_of(COSTS, 130)
    assert "1.50× [1.40–1.60]" not in text_of(COSTS, 100)


def test_what_is_absent_is_not_nought() -> None:
    bare = replace(COSTS, costs=COSTS.costs[-1:], run_step_ns=None, storage=(), step_note="no run")
    text = text_of(bare, 100)
    assert "not measured: pin: no CUDA device is there" in text
    assert "no step is foretold: no run" in text
    assert "0.0" not in text


def test_the_document_keeps_to_its_schema() -> None:
    document = json.loads(input_json(COSTS))
    jsonschema.validate(document, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert document["input"]["costs"][2]["pixels"] == {"largest": 7, "mean": 0.31}
