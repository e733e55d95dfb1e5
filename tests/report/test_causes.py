"""Causes in print: what costs time, what would help, what is harmless, in any width and form."""

import io
import json

import jsonschema
import msgspec
import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace
from rich.cells import cell_len

from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.example_facts import LOADER_LINE, gpu, loader
from gapless.model.change import LoaderChange, Omit, Prediction
from gapless.model.edit import Applicability, FixRequest, Location, Proposal
from gapless.model.estimate import Estimate
from gapless.model.finding import (
    Abstention,
    Detection,
    Diagnosis,
    Finding,
    Measure,
    Remedy,
    ReplayFidelity,
    StepVerdict,
    TrialCandidate,
)
from gapless.model.study import Study
from gapless.report import markdown, terminal
from gapless.report.documents.document import StudyObject, study_json
from gapless.report.run import markdown_page
from gapless.report.run.page import run_screen
from gapless.report.sections.causes import (
    first_lines,
    harmless_lines,
    replay_lines,
    try_lines,
    worth,
)
from gapless.report.sections.remedies import remedy_screen
from gapless.report.terminal import TableView
from gapless.report.text.console import pen_for

DATA = Detection(
    "G101",
    "loader-in-training-process",
    "The training process makes each batch itself, 80.0 ms of a step of 100.0 ms.",
    (LoaderChange(0, wait=False),),
    LOADER_LINE,
    (Measure("workers", 0, ""),),
    (FixRequest("more-workers"),),
)
READ = Detection(
    "G302",
    "read-back",
    "20 values are read back.",
    (Omit(("aten::item",)),),
    Location("/a/train.py", 70),
)
DIAGNOSIS = Diagnosis(
    findings=(Finding(DATA, Prediction(Estimate(4.1, 4.6, 5.0), "feed", notes=("as seen",)), 78),),
    present=(
        Finding(READ, Prediction(Estimate(1.0, 1.001, 1.002), "sync"), 0),
        Finding(
            replace(READ, code="G303", name="odd"), Prediction(Estimate(1.0, 1.1, 1.2), "sync"), 9
        ),
        Finding(
            replace(READ, code="G5", name="new"), Prediction(None, "host", refused="why"), None
        ),
    ),
    abstentions=(Abstention("G601", "straggler", "ranks", "there is one"),),
    fidelity=ReplayFidelity(2, -0.004, 0.018, 1700.0, 0.002),
)
WORKERS = Proposal(
    "more-workers",
    "num_workers 0 → 12 at train.py:41",
    (),
    Applicability.EQUIVALENT,
    None,
    None,
    LOADER_LINE,
    ("G101",),
    Estimate(4.1, 4.6, 5.0),
)
PINNED = replace(
    WORKERS,
    fix="pin-memory",
    summary="pin_memory False → True at train.py:41",
    applicability=Applicability.IDENTICAL,
    speedup=Estimate(1.01, 1.02, 1.03),
    after=("more-workers",),
    together=Estimate(4.2, 4.75, 5.2),
)
NOTHING_MORE = replace(PINNED, fix="prefetch", together=Estimate(4.1, 4.61, 5.0))
UNKNOWN = replace(
    WORKERS, fix="compile", summary="torch.compile", location=None, speedup=None, unpredicted="try"
)
REFUSED = replace(WORKERS, fix="bf16", refused="it is the CPU")


@pytest.fixture
def study() -> Study:
    base_study = evidence_of(gpu(loader()), {"busy.math": 20, "idle.data.decode": 80}).study
    proposals = (WORKERS, PINNED, NOTHING_MORE, UNKNOWN, REFUSED)
    return replace(base_study, diagnosis=DIAGNOSIS, proposals=proposals)


def remedy_text(study: Study, width: int = 100) -> str:
    stream = io.StringIO()
    pen = pen_for(stream, width)
    pen.write(remedy_screen(study, pen))
    return stream.getvalue()


def test_what_is_not_predicted_is_bounded_where_it_can_be(study: Study) -> None:
    bounded_proposal = replace(UNKNOWN, at_most=Estimate(1.5, 1.8, 2.1))
    text = remedy_text(replace(study, proposals=(bounded_proposal,)))
    assert "at most 2.1×: try it" in text


def test_causes_and_what_would_help(study: Study) -> None:
    assert remedy_text(study) == snapshot("""\
what costs time, and what a step without it is worth
  G101 loader-in-training-process train.py:41: 4.60× [4.10 … 5.00]
       The training process makes each batch itself, 80.0 ms of a step of 100.0 ms
       as seen
what would help                                                    is worth
  1  more-workers: num_workers 0 → 12     train.py:41  equivalent  4.60× [4.10 … 5.00]
  2  pin-memory: pin_memory False → True  train.py:41  same        +3 % after 1
  3  compile: torch.compile                            equivalent  not predicted: try it
  ×  bf16: refused: it is the CPU
  –  read-back train.py:70: harmless here: worth at most 0.2 %
  –  odd train.py:70: not surely worth it: 1.10× [1.00 … 1.20]
  –  new train.py:70: seen; not predicted: why
intervals are uncalibrated: fewer than 20 measured cases of their kind stand behind them
prove it: gapless try     why: gapless explain G101
""")


def test_on_a_narrow_terminal_columns_go_and_nothing_is_cut_off(study: Study) -> None:
    assert remedy_text(study, 60) == snapshot("""\
what costs time, and what a step without it is worth
  G101 loader-in-training-process train.py:41: 4.60× [4.10 …
  5.00]
       The training process makes each batch itself, 80.0 ms
       of a step of 100.0 ms
       as seen
what would help                is worth
  1  more-workers  equivalent  4.60× [4.10 … 5.00]
     num_workers 0 → 12
  2  pin-memory    same        +3 % after 1
     pin_memory False → True
  3  compile       equivalent  not predicted: try it
     torch.compile
  ×  bf16: refused: it is the CPU
  –  read-back train.py:70: harmless here: worth at most
     0.2 %
  –  odd train.py:70: not surely worth it: 1.10× [1.00 …
     1.20]
  –  new train.py:70: seen; not predicted: why
intervals are uncalibrated: fewer than 20 measured cases of
their kind stand behind them
prove it: gapless try     why: gapless explain G101
""")
    for width in range(40, 130, 7):
        assert all(cell_len(line) <= width for line in remedy_text(study, width).splitlines()), (
            width
        )


WHY = StepVerdict("72 % of each step the GPU waits for data", "data", 0.72, named=True)


def test_the_verdict_is_the_first_thing_that_is_said(study: Study) -> None:
    diagnosis = Diagnosis(outlook="72 % of each step; no cause was found", verdict=WHY)
    healthy = replace(study, diagnosis=diagnosis, proposals=())
    assert remedy_text(healthy) == ""  # of a run it is the first line of all
    assert remedy_text(replace(healthy, recorded=None)) == f"{WHY.sentence}.\n"
    assert list(first_lines(diagnosis)) == [f"{WHY.sentence}."]
    assert list(first_lines(replace(diagnosis, verdict=None))) == [diagnosis.outlook]
    assert remedy_text(replace(study, diagnosis=None)) == ""


def test_what_is_seen_has_a_title_where_nothing_would_help(study: Study) -> None:
    assert "also seen\n  –  read-back" in remedy_text(replace(study, proposals=()))
    slower = Prediction(Estimate(0.8, 0.9, 1.0), "feed")
    wide = Prediction(Estimate(0.9, 1.01, 1.3), "host")
    hardly = Prediction(Estimate(0.98, 1.01, 1.04), "host")
    present = tuple(Finding(READ, prediction, None) for prediction in (slower, wide, hardly))
    lines = remedy_text(replace(study, diagnosis=Diagnosis(present=present), proposals=()))
    assert lines == (
        "what was seen\n"
        "  –  read-back train.py:70: harmless here: worth nothing\n"
        "  –  read-back train.py:70: not surely worth it: 1.01× [0.90 … 1.30]\n"
        "  –  read-back train.py:70: likely harmless here: worth at most 4.0 %\n"
    )


@pytest.mark.parametrize(
    ("worth", "text"),
    [
        (Estimate(0.9, 1.01, 1.09), "not surely worth it: 1.01× [0.90 … 1.09]"),
        (Estimate(0.98, 1.005, 1.05), "likely harmless here: worth at most 5.0 %"),
        (Estimate(1.6, 1.7, 1.9), "explains the same time as a cause above: 1.70× [1.60 … 1.90]"),
    ],
)
def test_what_may_cost_something_is_not_harmless(worth: Estimate, text: str) -> None:
    diagnosis = Diagnosis(present=(Finding(READ, Prediction(worth, "host"), None),))
    assert list(harmless_lines(diagnosis)) == [f"read-back train.py:70: {text}"]


def test_the_first_lines_name_the_cause_its_line_and_its_worth() -> None:
    assert list(first_lines(replace(DIAGNOSIS, verdict=WHY))) == [
        "72 % of each step the GPU waits for data.",
        "cause: G101 loader-in-training-process, train.py:41; without it 4.60× [4.10 … 5.00]",
    ]
    diagnosis = replace(DIAGNOSIS, findings=DIAGNOSIS.findings * 3)
    assert list(first_lines(diagnosis))[-1].endswith(" · 2 more causes below")


FUSED = Remedy(FixRequest("fused"), (), Applicability.EQUIVALENT)
AT_STAKE = Finding(READ, Prediction(None, "sync", refused="no window"), None, 0.58, (FUSED,))


@pytest.mark.parametrize(
    ("finding", "words"),
    [
        (
            AT_STAKE,
            (
                "58 % of each step is at stake, at most 2.4×; the gain of the fix is not known "
                "before it is tried: gapless try --fix fused"
            ),
        ),
        (
            replace(AT_STAKE, share=0.97, remedies=()),
            (
                "97.0 % of each step is at stake; the gain of a change is not known before it is "
                "tried"
            ),
        ),
        (
            replace(AT_STAKE, prediction=Prediction(Estimate(0.9, 1.3, 1.9), "sync"), remedies=()),
            (
                "likely 1.30× [0.90 … 1.90]; 58 % of each step is at stake, at most 2.4×; the "
                "gain of a change is not known before it is tried"
            ),
        ),
    ],
)
def test_what_is_named_without_a_sure_price_does_not_sound_like_a_gain(
    finding: Finding, words: str
) -> None:
    assert worth(finding) == words
    (line,) = first_lines(Diagnosis(findings=(finding,)))
    assert line.endswith(words)
    assert "without it" not in line


def test_the_json_tells_what_is_at_stake_and_the_verdict(study: Study) -> None:
    diagnosis = Diagnosis(findings=(AT_STAKE,), verdict=WHY)
    page = json.loads(study_json(replace(study, diagnosis=diagnosis)))
    jsonschema.validate(page, msgspec.json.schema(StudyObject))
    (finding,) = page["findings"]
    assert (finding["share"], finding["fixes"], finding["speedup"]) == (0.58, ["fused"], None)
    assert page["verdict"]["owner"] == "data"
    assert f"**{WHY.sentence}.**" in markdown_page.run_page(
        replace(study, diagnosis=diagnosis), TableView()
    )


def test_the_checks_of_the_replay_are_shown() -> None:
    assert list(replay_lines(replace(DIAGNOSIS, provisional=True))) == [
        (
            "2 windows, replayed unchanged: 0.4 % off the trace · 1.8 % off un-profiled steps · "
            "the profiler costs 1.70 µs an event · unexplained waits 0.2 %"
        ),
        "fewer than 50 steps: findings are provisional",
        "not checked: G601 (reasons: --json)",
    ]
    refused_fidelity = ReplayFidelity(0, None, None, None, None, "it is too long", ("a note",))
    assert list(replay_lines(Diagnosis(fidelity=refused_fidelity))) == [
        "no window is replayed: it is too long",
        "a note",
    ]
    unlike = replace(refused_fidelity, imputed=0.001, unprofiled=0.34, notes=())
    assert list(replay_lines(Diagnosis(fidelity=unlike))) == [
        "no window is replayed: it is too long",
        "the window, replayed unchanged: 0.1 % off the trace · 34 % off un-profiled steps",
    ]
    assert list(replay_lines(None)) == []


def test_reports_of_runs_and_traces_have_them_as_text_and_as_markdown(study: Study) -> None:
    stream = io.StringIO()
    pen = pen_for(stream, 100)
    pen.write(run_screen(study, pen))
    foreign = replace(study, recorded=None)
    pen.write(terminal.study_screen(foreign, pen, TableView()))
    text = stream.getvalue()
    assert text.count("what costs time") == 2
    assert text.count("replay   2 windows, replayed unchanged") == 2
    assert text.splitlines()[3].startswith("cause: G101 loader-in-training-process, train.py:41;")
    for page in (
        markdown_page.run_page(study, TableView()),
        markdown.study_page(foreign, TableView()),
    ):
        assert "### What costs time" in page
        assert "### Harmless here, or not known" in page
        assert "| 1 | num\\_workers 0 → 12 | train.py:41 | equivalent |" in page
        assert "- read-back train.py:70: harmless here: worth at most 0.2 %" in page
        assert page.count("replayed unchanged") == 1


CANDIDATE = TrialCandidate(
    Finding(READ, Prediction(None, "sync", refused="no window was kept"), None),
    0.118,
    (Remedy(FixRequest("no-synchronize"), (), Applicability.RISKY),),
)
NO_PRICE = (
    "worth trying: G302 read-back train.py:70: 20 values are read back; 12 % of a step is at "
    "stake, the gain of a fix is not predicted (no window was kept): gapless try --fix "
    "no-synchronize --risky"
)


def test_what_is_worth_a_trial_without_a_price_stands_behind_all_that_have_one(
    study: Study,
) -> None:
    diagnosis = Diagnosis(findings=DIAGNOSIS.findings, to_try=(CANDIDATE,))
    candidate_study = replace(study, diagnosis=diagnosis)
    assert list(try_lines(diagnosis)) == [NO_PRICE]
    text = " ".join(remedy_text(candidate_study).split())
    assert text.index("what would help") < text.index("? worth trying: G302")
    assert "- worth trying: G302" in markdown_page.run_page(candidate_study, TableView())
    page = json.loads(study_json(candidate_study))
    jsonschema.validate(page, msgspec.json.schema(StudyObject))
    (candidate_row,) = page["to_try"]
    assert (candidate_row["code"], candidate_row["share"], candidate_row["fixes"]) == (
        "G302",
        0.118,
        ["no-synchronize"],
    )
    assert candidate_row["unpredicted"] == "no window was kept"
    assert page["present"] == []


def test_a_trial_that_asks_for_nothing_is_called_by_its_fix_alone() -> None:
    usual = replace(
        CANDIDATE, remedies=(replace(CANDIDATE.remedies[0], applicability=Applicability.IDENTICAL),)
    )
    (line,) = try_lines(Diagnosis(to_try=(usual,)))
    assert line.endswith("gapless try --fix no-synchronize")


def test_a_likely_cause_is_told_with_its_odds(study: Study) -> None:
    finding = DIAGNOSIS.findings[0]
    candidate = TrialCandidate(finding, 0.4, CANDIDATE.remedies, odds=0.92)
    diagnosis = Diagnosis(to_try=(candidate,), min_gain=0.05)
    (line,) = try_lines(diagnosis)
    assert "92.0 % likely to be worth 5.0 %: gapless try --fix no-synchronize --risky" in line
    (candidate_row,) = json.loads(study_json(replace(study, diagnosis=diagnosis)))["to_try"]
    assert (candidate_row["odds"], candidate_row["unpredicted"]) == (0.92, None)
    assert candidate_row["speedup"]["mid"] == 4.6


def test_the_json_has_all_of_it_and_fits_its_schema(study: Study) -> None:
    page = json.loads(study_json(study))
    jsonschema.validate(page, msgspec.json.schema(StudyObject))
    (finding,) = page["findings"]
    assert (finding["code"], finding["confidence"], finding["family"]) == (
        "G101",
        "measured",
        "feed",
    )
    assert finding["where"] == {"file": "train.py", "line": 41, "function": "main"}
    assert finding["evidence"] == [{"name": "workers", "value": 0, "unit": ""}]
    assert page["present"][2]["unpredicted"] == "why"
    assert page["to_try"] == []
    assert page["present"][0]["speedup"]["high"] == 1.002
    assert page["abstentions"][0]["missing"] == "ranks"
    assert page["rehearsal"]["alpha_ns"] == 1700.0
    assert [proposal["after"] for proposal in page["proposals"]][:2] == [[], ["more-workers"]]
    assert page["proposals"][1]["together"]["mid"] == 4.75
    assert json.loads(study_json(replace(study, diagnosis=None)))["findings"] is None


def test_where_nothing_is_replayed_it_is_said_what_prices_rest_on() -> None:
    refused_fidelity = ReplayFidelity(1, None, None, None, None, "it is too long")
    lines = list(replay_lines(replace(DIAGNOSIS, fidelity=refused_fidelity)))
    assert lines[0] == "no window is replayed: it is too long"
    assert lines[1].startswith("prices without a replay rest on the share of the account")
    unpriced = replace(DIAGNOSIS, fidelity=refused_fidelity, findings=())
    assert not any("prices without" in line for line in replay_lines(unpriced))
