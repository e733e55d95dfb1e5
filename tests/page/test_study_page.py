"""The page of a study: its sums are the account's, names are data, absent is absent."""

import gzip
import importlib.util
import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

import gapless
from gapless.cli import main
from gapless.errors import UsageError
from gapless.model.leaf import GROUPS, LEAVES
from gapless.model.picture import StripKind
from gapless.model.study import Study
from gapless.page import document
from gapless.page.account import account_tree
from gapless.page.document import encode_json
from gapless.page.study_page import rank_bars, study_page
from gapless.report.sections.causes import why_line
from gapless.report.text.text import kernel_name
from gapless.study import Options, open_study
from tests.page.opening import open_pictured
from tests.page.reading import Page
from tests.study import writing

DATA: Final = Path(__file__).parents[1] / "data"
HOSTILE: Final = (
    "</script><script>alert(1)</script><!--",
    "<img src=http://example.org/x onerror=alert(2)>",
    "\"' onclick=alert(3) &lt;b&gt;\u2028\x1b[31m",
)


def hostile_trace(folder: Path) -> Path:
    """Return a real trace in which operators, kernels, calls, threads have names that attack."""
    trace: dict[str, Any] = json.loads(
        gzip.decompress((DATA / "loader_workers.json.gz").read_bytes())
    )
    for index, event in enumerate(trace["traceEvents"]):
        if event.get("cat") in {"cpu_op", "kernel"}:
            event["name"] += HOSTILE[index % len(HOSTILE)]
        elif event.get("name") == "thread_name":
            event["args"]["name"] = HOSTILE[0]
    path = folder / "trace<script>.json"
    path.write_text(json.dumps(trace), encoding="utf-8")
    return path


def drawn_leaves(charts: dict[str, Any]) -> dict[str, int]:
    """Sum the bars of the account by leaf."""
    sums: dict[str, int] = {}
    for strip in charts["picture"]["strips"]:
        if strip["kind"] == "account":
            leaves: list[int] = strip["leaf"]
            for index, leaf in enumerate(leaves):
                length: int = strip["end"][index] - strip["start"][index]
                sums[LEAVES[leaf]] = sums.get(LEAVES[leaf], 0) + length
    return sums


def test_the_bars_of_the_timeline_sum_to_the_account(traced: Study) -> None:
    assert traced.picture is not None
    assert traced.picture.left_out_steps == 0
    charts = Page(study_page(traced)).charts
    drawn, leaves = drawn_leaves(charts), dict(traced.account.leaves)
    # The picture begins with the first counted step; its rows are drawn whole.
    assert {leaf: drawn[leaf] for leaf in leaves} == leaves


def test_groups_and_leaves_sum_to_the_digits_of_the_whole(traced: Study, recorded: Study) -> None:
    for study in (traced, recorded):
        tree = account_tree(study)
        assert tree is not None
        assert sum(group.digits for group in tree.groups) == tree.digits
        for group in tree.groups:
            assert sum(leaf.digits for leaf in group.leaves) == group.digits
        text = Page(study_page(study)).text
        assert all(f"{group.figure} {tree.unit} {group.percent} %" in text for group in tree.groups)


def test_the_verdict_has_the_words_of_the_report(recorded: Study) -> None:
    assert recorded.diagnosis is not None
    assert recorded.diagnosis.verdict is not None
    assert why_line(recorded.diagnosis.verdict) in Page(study_page(recorded)).text


def test_a_leaf_opens_to_its_longest_pieces_and_their_events(traced: Study) -> None:
    tree = account_tree(traced)
    assert tree is not None
    busy = [
        leaf for group in tree.groups for leaf in group.leaves if leaf.leaves.startswith("busy.")
    ]
    kernels = {kernel_name(kernel.name) for kernel in traced.tables.kernels}
    assert busy
    for leaf in busy:
        assert leaf.pieces[0].position.startswith("step ")
        assert any(leaf.pieces[0].blame[0].startswith((name, "Memset")) for name in kernels)


def test_a_run_has_its_steps_one_by_one_and_what_was_sampled(recorded: Study) -> None:
    assert recorded.recorded is not None
    assert recorded.recorded.pace is not None
    charts = Page(study_page(recorded)).charts
    assert len(charts["steps"]["x"]) == len(recorded.recorded.pace.lengths_ns)
    assert sum(charts["steps"]["outlier"]) == charts["steps"]["outliers"] > 0
    longest = max(recorded.recorded.pace.lengths_ns.tolist())
    marked = [
        y for y, flag in zip(charts["steps"]["y"], charts["steps"]["outlier"], strict=True) if flag
    ]
    assert max(marked) == pytest.approx(longest / 1e6)
    titles = [series["title"] for series in charts["series"]]
    assert titles == [series.title for series in recorded.recorded.machine]


def test_what_a_study_lacks_is_left_out(tmp_path: Path) -> None:
    host_only = writing.write(
        tmp_path / "trace.json",
        [event for event in writing.training() if event["cat"] in {"cpu_op", "user_annotation"}],
    )
    page = Page(study_page(open_study([host_only], Options(cache=False))))
    assert {"charts", "account", "details"} <= page.ids()
    assert "table-operators" in page.ids()
    assert not {"timeline", "table-kernels", "table-copies", "table-lines"} & page.ids()
    assert {"picture", "series"} & page.charts.keys() == set()


def test_without_a_diagnosis_there_are_no_causes(traced: Study) -> None:
    page = Page(study_page(replace(traced, diagnosis=None, proposals=())))
    assert "causes" not in page.ids()
    assert "account" in page.ids()


def test_names_from_traces_are_text(tmp_path: Path) -> None:
    page = Page(study_page(open_pictured(hostile_trace(tmp_path))))
    assert {tag for tag, _ in page.elements} & {"img", "iframe"} == set()
    assert not any(name.startswith("on") for _, values in page.elements for name in values)
    assert HOSTILE[0] in page.text  # it is shown, as the text that it is
    assert [values.get("type") for values, _ in page.scripts] == ["application/json", None, None]
    assert any(HOSTILE[0] in name for name in page.charts["picture"]["names"])
    assert page.open == []


def test_a_string_cannot_leave_its_script() -> None:
    text = encode_json({"name": "</script><!--\u2028&"})
    assert not re.search("[<>&\u2028\u2029]", text)
    assert json.loads(text) == {"name": "</script><!--\u2028&"}


def test_nothing_is_loaded_from_anywhere(recorded: Study) -> None:
    page = Page(study_page(recorded))
    sources = [
        values[name]
        for _, values in page.elements
        for name in ("src", "href", "action", "srcset", "poster", "data")
        if name in values
    ]
    assert sources
    assert all(source.startswith(("#", "data:")) for source in sources)
    (policy,) = [values["content"] for _, values in page.elements if "http-equiv" in values]
    assert "default-src 'none'" in policy
    assert "http" not in policy


def test_links_within_the_page_lead_somewhere(recorded: Study) -> None:
    page = Page(study_page(recorded))
    anchors = {values["href"][1:] for tag, values in page.elements if tag == "a"}
    opened = {values["data-opens"] for _, values in page.elements if "data-opens" in values}
    assert anchors | opened <= page.ids()


def test_the_command_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "trace.html"
    trace = str(DATA / "loader_workers.json.gz")
    assert main(["open", trace, "--no-cache", "--html", str(file)]) == 0
    assert str(file) in capsys.readouterr().out
    assert "timeline" in Page(file.read_text(encoding="utf-8")).ids()


def test_a_file_that_cannot_be_written_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "nowhere" / "trace.html"
    trace = str(DATA / "loader_workers.json.gz")
    assert main(["open", trace, "--no-cache", "--html", str(file)]) == 2
    assert f"{file} cannot be written" in capsys.readouterr().err


def test_without_the_library_the_command_to_install_it_is_named(
    traced: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    document.read_library.cache_clear()

    def find_none(_: str) -> None:
        return None

    monkeypatch.setattr(importlib.util, "find_spec", find_none)
    with pytest.raises(UsageError, match=r"pip install 'gapless\[html\]'"):
        study_page(traced)


def test_nothing_is_pictured_unless_it_is_asked_for() -> None:
    study = gapless.open(DATA / "loader_workers.json.gz")
    assert study.picture is None
    assert study.leaves == ()


def test_groups_of_the_drawn_account_are_those_of_the_account(traced: Study) -> None:
    assert traced.picture is not None
    sums: dict[str, int] = {}
    for strip in traced.picture.strips:
        if strip.kind is StripKind.ACCOUNT:
            lengths = strip.end - strip.start
            for number, group in enumerate(GROUPS):
                sums[group] = sums.get(group, 0) + int(lengths[strip.group == number].sum())
    assert {group: sums[group] for group in traced.account.groups} == dict(traced.account.groups)


def test_collectives_and_copies_on_streams_are_no_computing() -> None:
    study = open_pictured(DATA / "two_ranks.rank0.json.gz")
    assert study.picture is not None
    for strip in study.picture.strips:
        if strip.kind is StripKind.STREAM:
            names = [study.picture.names[number] for number in map(int, strip.name)]
            groups = [GROUPS[number] for number in map(int, strip.group)]
            for name, group in zip(names, groups, strict=True):
                assert (group == "communication") == name.startswith("nccl")
                assert (group == "copy") == name.startswith(("Memcpy HtoD", "Memcpy DtoH"))


def test_ranks_are_bars_to_one_scale(traced: Study) -> None:
    names = ("late.rank0.json.columns", "late.rank1.json.columns")
    paths = [DATA / "opened" / name for name in names]
    study = open_study(paths, Options(cache=False, pictured=True))
    bars = rank_bars(study)
    assert [bar.caption.partition(",")[0] for bar in bars] == ["rank 0", "rank 1"]
    shares = [{part.group: part.share for part in bar.parts} for bar in bars]
    assert max(sum(share.values()) for share in shares) == pytest.approx(1, abs=0.01)
    assert shares[0]["communication"] > shares[1]["communication"]
    assert "the others waited for rank 1" in Page(study_page(study)).text
    assert rank_bars(traced) == ()


def test_a_diff_is_shown_with_its_fix(recorded: Study) -> None:
    proposal = recorded.proposals[0]
    lines = ["--- a/train.py", "+++ b/train.py", "@@ -1 +1 @@", "-<old>", f"+{HOSTILE[0]}"]
    page = Page(study_page(recorded, {proposal.fix: lines}))
    assert [values["class"] for tag, values in page.elements if tag == "pre"] == ["diff"]
    assert HOSTILE[0] in page.text
    assert "pre" not in {tag for tag, _ in Page(study_page(recorded)).elements}
