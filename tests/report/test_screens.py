"""What is printed: the screen as a whole, sums that can be seen, safe names, every form."""
# ruff: noqa: E501 - snapshots are as wide as what they show

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace
from rich.cells import cell_len

import gapless
from gapless.errors import UsageError
from gapless.model.account import Account, RowAccount
from gapless.model.leaf import GROUPS, LEAVES, group_of
from gapless.model.ledger import Row
from gapless.model.study import Steps, Straggler, Study
from gapless.model.tables import EMPTY_TABLES, Operator
from gapless.report import changes, markdown, sheet_csv, terminal
from gapless.report.documents import document
from gapless.report.sections import grids
from gapless.report.sections.account import account_sheet
from gapless.report.sections.grids import NAMES, SORT_KEYS, order_rows, table_grid
from gapless.report.terminal import TableView
from gapless.report.text.console import Pen, pen_for
from gapless.study import Options, open_study
from tests.study import writing
from tests.traces import TRACES

SCHEMA = Path(__file__).parents[2] / "docs/schema/study.json"


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """Return a study without causes: these have tests of their own, and change with the rules.

    It has rows in these tables alone, so that no snapshot changes with a new one.
    """
    monkeypatch.chdir(tmp_path)
    path = writing.write(Path("trace.json"), writing.training())
    study = open_study([path], Options(cache=False, diagnose=False))
    names = ("operators", "kernels", "copies", "ranges", "lines")
    rows = {name: getattr(study.tables, name) for name in names}
    return replace(study, tables=replace(EMPTY_TABLES, **rows))


def make_pen(width: int = 80) -> Pen:
    return pen_for(io.StringIO(), width)


def study_text(study: Study, width: int = 80, **view_options: Any) -> str:  # noqa: ANN401
    stream = io.StringIO()
    pen = pen_for(stream, width)
    pen.write(terminal.study_screen(study, pen, TableView(**view_options)))
    return stream.getvalue()


def test_the_first_screen(study: Study) -> None:
    assert study_text(study, 80).partition("\n\n")[0] == snapshot("""\
gapless · 6 steps of 1.000 ms on NVIDIA Test · the GPU worked 22 % of the time
where a step goes
  waiting for the host   0.720 ms  72.0 %  ████████████████████▏
     Python 0.680 · dispatch 0.040
  compute                0.220 ms  22.0 %  ██████▏
     tensor cores 0.200 · elementwise 0.020
  copying                0.060 ms   6.0 %  █▋
     to the device, pinned 0.040 · staging on the host 0.020
  unknown                0.000 ms   0.0 %
  this recorder          0.000 ms   0.0 %
                        ─────────────────
                         1.000 ms 100.0 %   (sums exactly; timestamps to
                                            1.00 µs; from 6 of 8 steps)
steps    median 1.000 ms · p10 1.000 · p90 1.000 · found by ProfilerStep#
health   98 events (kineto) · launches recorded 100 %
         timestamps are whole microseconds: every length is ± 1 µs, gaps below
           that are noise
         the profiler slows the host: waiting for it is an upper bound\
""")


def test_the_tables(study: Study) -> None:
    assert study_text(study, 100, top=3).partition("\n\n")[2] == snapshot("""\
operators, a step    self host ms  host ms  self device ms  device ms  calls
  forward                   0.080    0.200           0.000      0.220      1
  aten::addmm               0.050    0.060           0.200      0.200      1
  aten::copy_               0.035    0.040           0.040      0.040      1
  4 more (--top 7)

kernels, a step                      ms  of time  calls  mean µs  tensor  occup.   grid     operator
  sm90_xmma_gemm_…6bf16_tensorop  0.200     20 %      1    200.0    used     25%  2×1×1  aten::addmm
  vectorized_elementwise_kernel   0.020    2.0 %      1     20.0       –       –      –   aten::relu

copies, a step       ms  of time  calls      bytes       rate
  HtoD pinned     0.040    4.0 %      1  976.6 KiB  25.0 GB/s

your ranges, a step    host ms  device ms  calls
  forward                0.200      0.220      1

source lines, a step    idle ms  self host ms  host ms  device ms  calls
  train.py:10 main        0.740         1.000    1.000      0.260      0

look closer: gapless open … --leaf idle.host.python
""")


def test_a_leaf_opened(tmp_path: Path) -> None:
    path = writing.write(tmp_path / "trace.json", writing.training())
    study = gapless.open(path, cache=False, leaf="idle.host", pieces=2)
    assert study_text(study).partition("\n\n")[2] == snapshot("""\
idle.host: 700.0 µs a step, in 30 pieces, half of them longer than 30.00 µs; the longest:
    540.0 µs  step 1, device 0 at 460.0 µs · idle.host.python
              train.py(10): main on main
    540.0 µs  step 2, device 0 at 460.0 µs · idle.host.python
              train.py(10): main on main
""")


def test_a_leaf_of_which_there_is_nothing(tmp_path: Path) -> None:
    path = writing.write(tmp_path / "trace.json", writing.training())
    study = gapless.open(path, cache=False, leaf="comm")
    assert "comm: nothing of the account is charged to it" in study_text(study)


@pytest.mark.parametrize("name", TRACES)
@pytest.mark.parametrize("width", [60, 80, 140])
def test_what_is_printed_sums_to_what_is_printed(name: str, width: int) -> None:
    study = open_fixture(name)
    text = study_text(study, width)
    assert all(cell_len(line) <= width for line in text.splitlines()[1:])
    lines = [m for line in text.splitlines() if (m := _FIGURES.match(line))]
    *groups, total = lines
    assert total["name"].strip() == ""
    for figure, expected in (("time", total["time"]), ("share", "100.0")):
        digits = [int(re.sub(r"[.,]", "", line[figure])) for line in groups]
        assert sum(digits) == int(re.sub(r"[.,]", "", expected))
    assert {"unknown", "this recorder"} <= {line["name"].strip() for line in groups}


_FIGURES = re.compile(
    r"^  (?P<name>[a-z ,]*?) +(?P<time>[\d,.]+) (?:s|ms|µs) +(?P<share>[\d.]+) %(?:  |   |$)"
)
_STUDIES: dict[str, Study] = {}


def open_fixture(name: str) -> Study:
    if name not in _STUDIES:
        _STUDIES[name] = gapless.open(TRACES[name], cache=False)
    return _STUDIES[name]


def test_parts_of_a_group_sum_to_the_group() -> None:
    sheet = account_sheet(open_fixture("amp_bf16").account)
    assert any(len(line.parts) > 3 for line in sheet.lines)
    for line in sheet.lines:
        assert sum(leaf_part.digits for leaf_part in line.parts) == line.digits


def test_every_leaf_and_group_has_a_name_in_print() -> None:
    wall_ns = 1000 * len(LEAVES)
    parts: dict[str, dict[str, int]] = {name: {} for name in GROUPS}
    for leaf in LEAVES:
        parts[group_of(leaf)][leaf] = 1000
    groups = {name: sum(leaves.values()) for name, leaves in parts.items()}
    row = RowAccount(
        Row(None, 0, None, 0, wall_ns, left_out=False), dict.fromkeys(LEAVES, 1000), {}
    )
    sheet = account_sheet(Account(wall_ns, None, row.leaves, groups, parts, (row,)))
    assert {line.group for line in sheet.lines} == set(GROUPS)
    names = [leaf_part.name for line in sheet.lines for leaf_part in line.parts]
    assert len(names) == len(LEAVES)
    assert not any("." in name or "_" in name for name in names)


EVIL = "\x1b]0;owned\x07\x1b[2Jkernel[/bold]\u202e|`<script>\n=1+1"


@pytest.fixture
def evil_study(tmp_path: Path) -> Study:
    events = writing.training()
    for number in range(8):
        start = number * 1000.0
        events += [
            writing.op(EVIL, start + 500, start + 600),
            writing.call(700 + number, start + 510, start + 520),
            writing.kernel(EVIL, 700 + number, start + 600, start + 700),
            writing.annotation(EVIL, start + 450, start + 650),
            writing.python(f"{EVIL}(3): {EVIL}", start + 460, start + 640),
        ]
    top = {"deviceProperties": [{**writing.DEVICE, "name": EVIL}]}
    path = writing.write(tmp_path / "trace.json", events, **top)
    return gapless.open(path, cache=False, leaf="idle.host", pieces=50)


_ACTS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def test_no_name_of_a_trace_acts_on_a_terminal(evil_study: Study) -> None:
    for text in (
        study_text(evil_study, top=50),
        study_text(replace(evil_study, leaf=None), 300, top=50),
        markdown.study_page(evil_study, TableView()),
        document.study_json(evil_study),
        *(sheet_csv.table_csv(evil_study, name) for name in sheet_csv.NAMES),
    ):
        assert not _ACTS.search(text)
        assert "kernel" in text or "rank" in text or "direction" in text or "device" in text
    assert "kernel[/bold]|`<script> =1+1" in study_text(replace(evil_study, leaf=None), 300, top=50)


def test_json_keeps_names_to_the_letter(evil_study: Study) -> None:
    names = [
        row["name"] for row in json.loads(document.study_json(evil_study))["tables"]["operators"]
    ]
    assert EVIL in names


def test_markdown_keeps_tables_whole(evil_study: Study) -> None:
    lines = markdown.study_page(replace(evil_study, leaf=None), TableView(top=50)).splitlines()
    for line in lines:
        assert not re.search(r"<script>", re.sub(r"`+[^`].*?`+(?= )", "", line))
    rows = [line for line in lines if "script" in line and line.startswith("|")]
    assert len(rows) >= 4
    heads = {line.count(" | ") for line in lines if line.startswith("| operator")}
    assert {row.count(" | ") for row in rows if row.count(" | ") == 5} == heads


def test_markdown_page(study: Study) -> None:
    assert markdown.study_page(study, TableView(top=2)) == snapshot("""\
**gapless · 6 steps of 1.000 ms on NVIDIA Test · the GPU worked 22 % of the time**

| where a step goes | ms a step | % | most of it |
|:--|--:|--:|:--|
| waiting for the host | 0.720 | 72.0 | Python 0.680, dispatch 0.040 |
| compute | 0.220 | 22.0 | tensor cores 0.200, elementwise 0.020 |
| copying | 0.060 | 6.0 | to the device, pinned 0.040, staging on the host 0.020 |
| unknown | 0.000 | 0.0 |  |
| this recorder | 0.000 | 0.0 |  |
| **sum** | **1.000** | **100.0** | |

*sums exactly; timestamps to 1.00 µs; from 6 of 8 steps*

### Steps

- median 1.000 ms · p10 1.000 · p90 1.000 · found by ProfilerStep\\#

### Health

- 98 events (kineto) · launches recorded 100 %
- timestamps are whole microseconds: every length is ± 1 µs, gaps below that are noise
- the profiler slows the host: waiting for it is an upper bound

### Operators, a step

| operator | self host ms | host ms | self device ms | device ms | calls |
|:--|--:|--:|--:|--:|--:|
| `forward` | 0.080 | 0.200 | 0.000 | 0.220 | 1 |
| `aten::addmm` | 0.050 | 0.060 | 0.200 | 0.200 | 1 |

5 more rows

### Kernels, a step

| kernel | ms | of time | calls | mean µs | tensor | occup. | grid | block | reg. | shared | operator |
|:--|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
| `sm90_xmma_gemm_bf16bf16_tensorop` | 0.200 | 20 % | 1 | 200.0 | used | 25% | 2×1×1 | 128×1×1 | 90 | – | aten::addmm |
| `vectorized_elementwise_kernel` | 0.020 | 2.0 % | 1 | 20.0 | – | – | – | – | – | – | aten::relu |

### Copies, a step

| copy | ms | of time | calls | bytes | rate |
|:--|--:|--:|--:|--:|--:|
| `HtoD pinned` | 0.040 | 4.0 % | 1 | 976.6 KiB | 25.0 GB/s |

### Your ranges, a step

| range | host ms | device ms | calls |
|:--|--:|--:|--:|
| `forward` | 0.200 | 0.220 | 1 |

### Source lines, a step

| function | idle ms | self host ms | host ms | device ms | calls |
|:--|--:|--:|--:|--:|--:|
| `train.py:10 main` | 0.740 | 1.000 | 1.000 | 0.260 | 0 |
""")


def test_csv_reads_back_as_the_table(study: Study) -> None:
    rows = list(csv.DictReader(io.StringIO(sheet_csv.table_csv(study, "kernels"))))
    assert [row["name"] for row in rows] == [kernel.name for kernel in study.tables.kernels]
    assert [int(row["device_ns"]) for row in rows] == [k.device_ns for k in study.tables.kernels]
    assert (rows[0]["grid"], rows[0]["occupancy"], rows[1]["grid"]) == ("2 1 1", "0.25", "")


def test_csv_of_the_account_sums_to_its_rows(study: Study) -> None:
    for row in csv.DictReader(io.StringIO(sheet_csv.table_csv(study, "account"))):
        wall = int(row.pop("wall_ns"))
        assert sum(int(row[leaf]) for leaf in row if "." in leaf) == wall == 1_000_000


def test_an_unknown_table_is_refused_with_those_there_are(study: Study) -> None:
    with pytest.raises(UsageError, match="operators, kernels"):
        sheet_csv.table_csv(study, "nothing")
    with pytest.raises(UsageError, match="operators, kernels"):
        table_grid(study, "nothing")


def test_a_table_without_columns_of_its_own_has_its_fields(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert table_grid(study, "ranges").titles == ("range", "host ms", "device ms", "calls")
    monkeypatch.delitem(grids._COLUMNS, "memory")  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    grid = table_grid(study, "memory")
    assert grid.titles[:3] == ("memory", "peak allocated", "peak reserved")
    assert [row[0] for row in grid.cells] == [row.device for row in study.tables.memory]


def test_tables_can_be_sorted_by_any_of_their_columns(study: Study) -> None:
    kernels = order_rows(study, "kernels", "mean")
    assert list(kernels) == sorted(study.tables.kernels, key=lambda row: -row.mean_ns)
    names = [str(getattr(row, "name")) for row in order_rows(study, "operators", "name")]  # noqa: B009
    assert names == sorted(names)
    for key in SORT_KEYS:
        for table in NAMES:
            assert len(order_rows(study, table, key)) == len(getattr(study.tables, table))
    with pytest.raises(UsageError, match="device-nothing"):
        order_rows(study, "kernels", "device-nothing")


def test_json_fits_its_schema_and_the_committed_one_is_current(study: Study) -> None:
    committed_schema = json.loads(SCHEMA.read_text())
    assert committed_schema == json.loads(json.dumps(msgspec.json.schema(document.StudyObject)))
    for case_study in (study, open_fixture("stacks_memory")):
        jsonschema.validate(json.loads(document.study_json(case_study)), committed_schema)


def test_a_comparison_fits_its_schema_and_the_committed_one_is_current(study: Study) -> None:
    committed_schema = json.loads(SCHEMA.with_name("comparison.json").read_text())
    assert committed_schema == msgspec.json.schema(document.ComparisonObject)
    comparison = gapless.compare(study, open_fixture("stacks_memory"))
    jsonschema.validate(json.loads(document.comparison_json(comparison)), committed_schema)


def test_json_has_the_keys_of_the_interface(study: Study) -> None:
    page = json.loads(document.study_json(study))
    assert page["schema"] == 1
    assert page["gapless"] == gapless.__version__
    assert page["run"]["command"] is None
    assert sum(page["account"]["leaves"].values()) == page["account"]["wall_ns"]
    assert sum(page["account"]["groups"].values()) == page["account"]["wall_ns"]
    step = {key: value for key, value in page["step"].items() if value is not None}
    assert step | {"median_ns": 0, "p10_ns": 0, "p90_ns": 0} == {
        "count": 8,
        "profiled": 6,
        "median_ns": 0,
        "p10_ns": 0,
        "p90_ns": 0,
        "rule": "ProfilerStep#",
    }
    assert page["findings"] is page["proposals"] is None  # causes were not looked for
    assert page["trials"] is None  # nothing was tried
    assert page["timeline"] is page["loaders"] is None  # of a recorded run


def test_a_comparison_on_the_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    extra = [
        event
        for n in range(8)
        for event in (
            writing.op("new", n * 1000 + 600, n * 1000 + 700),
            writing.call(500 + n, n * 1000 + 610, n * 1000 + 620),
            writing.kernel("added", 500 + n, n * 1000 + 700, n * 1000 + 900),
        )
    ]
    a = gapless.open(writing.write(Path("a.json"), writing.training()), cache=False)
    b = gapless.open(writing.write(Path("b.json"), writing.training() + extra), cache=False)
    stream = io.StringIO()
    pen = pen_for(stream, 90)
    pen.write(changes.comparison_screen(gapless.compare(a, b), pen, 3))
    assert stream.getvalue() == snapshot("""\
gapless · a step of 1.000 ms became 1.000 ms: 1.00× as fast
  A: a.json · NVIDIA Test · 6 rows
  B: b.json · NVIDIA Test · 6 rows

where the difference lies     A ms   B ms   B − A
  compute                    0.220  0.420  +0.200
  waiting for the host       0.720  0.520  −0.200
  copying                    0.060  0.060  +0.000
  sum                        1.000  1.000  +0.000

by leaf                 A ms   B ms   B − A
  idle.host.python     0.680  0.380  −0.300
  busy.other           0.000  0.200  +0.200
  idle.launch.latency  0.020  0.100  +0.080

operators, self host time     A ms   B ms   B − A  A calls  B calls         \n\
  new                            –  0.090  +0.090        –        1    added
  cudaLaunchKernel           0.015  0.025  +0.010        2        3  changed

kernels    A ms   B ms   B − A  A calls  B calls       \n\
  added       –  0.200  +0.200        –        1  added
""")
    comparison = gapless.compare(a, a)
    lines = [str(line) for line in changes.comparison_screen(comparison, make_pen(), 3)]
    assert any("kernels: no change" in line for line in lines)
    assert json.loads(document.comparison_json(comparison))["groups"][0]["a_ns"] > 0


def make_rows(spread: int, ranks: int = 1) -> tuple[RowAccount, ...]:
    return tuple(
        RowAccount(
            Row(rank, 0, step, 0, 10**6 + spread * step + rank, left_out=False),
            {"busy.math": 10**6 + spread * step + rank},
            {"compute": 10**6 + spread * step + rank},
        )
        for rank in range(ranks)
        for step in range(4)
    )


def with_rows(study: Study, rows: tuple[RowAccount, ...]) -> Study:
    wall = sum(row.row.end for row in rows)
    account = Account(
        wall,
        len(rows),
        {"busy.math": wall},
        {"compute": wall},
        {"compute": {"busy.math": wall}},
        rows,
    )
    steps = Steps(4, 0, 10**6, 10**6, 10**6, "rule", tuple(reversed(rows[-3:])), rows[0])
    return replace(study, account=account, steps=steps)


def test_slow_steps_say_what_they_lost_in(study: Study) -> None:
    text = study_text(with_rows(study, make_rows(100_000)))
    assert "step 3 1.300 ms (+0.300): compute +0.300" in text
    assert "step 1 1.100 ms" in text
    even = study_text(with_rows(study, make_rows(1000)))  # 0.1 % a step: only the slowest is named
    assert ("step 3" in even, "step 2" in even) == (True, False)
    assert "step 3" not in study_text(with_rows(study, make_rows(0)))


def test_few_ranks_are_listed_and_many_summed_up(study: Study) -> None:
    two_ranks = replace(with_rows(study, make_rows(0, 2)), stragglers=(Straggler(1, 8_000_000, 4),))
    text = study_text(two_ranks)
    assert "2 × NVIDIA Test · the GPUs worked 100 %" in text.replace("\n", " ")
    assert "rank 0 1.000 ms: compute 100 %" in text
    assert "the others waited for rank 1: 1.000 ms a step" in text
    crowded = study_text(with_rows(study, make_rows(0, 20)))
    assert "20 ranks: a step takes 1.000 ms (median; p10 1.000, p90 1.000)" in crowded
    assert f"rank 0 … {20 * '█'}" in crowded
    assert "rank 5 " not in crowded


def test_a_capture_of_the_cpu_alone(tmp_path: Path) -> None:
    path = writing.write(tmp_path / "t.json", [writing.op("aten::mm", 0, 100)])
    text = study_text(gapless.open(path, cache=False))
    assert text.startswith("gapless · a capture of 100.0 µs on the CPU alone\nwhere the time goes")
    assert "look closer" not in text
    page = markdown.study_page(gapless.open(path, cache=False), TableView())
    assert "### Operators\n" in page


def test_clock_error_and_resolution_are_printed_beside_the_sum(study: Study) -> None:
    rough = replace(study.health, clock_error_ns=20_000, resolution_ns=1000)
    text = study_text(replace(study, health=rough), 120)
    assert "(sums exactly; ± 20.00 µs clock error; timestamps to 1.00 µs" in re.sub(" +", " ", text)


def test_narrow_terminals_lose_columns_before_names(study: Study) -> None:
    tables = replace(study.tables, operators=(Operator("aten::" + "x" * 60, None, 1, 2, 3, 4, 5),))
    for width in (40, 60):
        lines = study_text(replace(study, tables=tables), width).splitlines()
        (line,) = [line for line in lines if line.startswith("  aten::xx")]
        assert cell_len(line) <= width


def test_an_encoding_without_blocks_gets_plain_signs(study: Study) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", errors="backslashreplace")
    pen = pen_for(stream)
    pen.write(terminal.study_screen(study, pen, TableView()))
    stream.flush()
    assert b"####" in raw.getvalue()
    assert b"-----" in raw.getvalue()
    assert b"\\u2588" not in raw.getvalue()
