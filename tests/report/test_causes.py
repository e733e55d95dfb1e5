"""Causes in print: what costs time, what would help, what is harmless, in any width and form."""

import io
import json
from dataclasses import replace

import jsonschema
import pytest
from inline_snapshot import snapshot
from rich.cells import cell_len

from gapless.catalogue.examples import LOADER_LINE, gpu, loader
from gapless.catalogue.seen_examples import seen
from gapless.model.change import Feed, Omit, Predicted
from gapless.model.edit import Applicability, Proposal, Where
from gapless.model.finding import (
    Abstention,
    Diagnosis,
    Finding,
    Loss,
    Measure,
    Rehearsal,
    Remedy,
    ToTry,
    Verdict,
)
from gapless.model.interval import Interval
from gapless.model.study import Study
from gapless.report import markdown, run_markdown, terminal
from gapless.report.causes import first_lines, harmless_lines, replay_lines, told, try_lines
from gapless.report.document import StudyObject, schema, study_json
from gapless.report.pen import pen_for
from gapless.report.remedies import remedy_screen
from gapless.report.run import run_screen
from gapless.report.terminal import Wanted

DATA = Loss(
    "G101",
    "loader-in-training-process",
    "The training process makes each batch itself, 80.0 ms of a step of 100.0 ms.",
    (Feed(0, wait=False),),
    LOADER_LINE,
    (Measure("workers", 0, ""),),
    ("more-workers",),
)
READ = Loss(
    "G302",
    "read-back",
    "20 values are read back.",
    (Omit(("aten::item",)),),
    Where("/a/train.py", 70),
)
DIAGNOSIS = Diagnosis(
    findings=(Finding(DATA, Predicted(Interval(4.1, 4.6, 5.0), "feed", notes=("as seen",)), 78),),
    present=(
        Finding(READ, Predicted(Interval(1.0, 1.001, 1.002), "sync"), 0),
        Finding(
            replace(READ, code="G303", name="odd"), Predicted(Interval(1.0, 1.1, 1.2), "sync"), 9
        ),
        Finding(replace(READ, code="G5", name="new"), Predicted(None, "host", refused="why"), None),
    ),
    abstentions=(Abstention("G601", "straggler", "ranks", "there is one"),),
    rehearsal=Rehearsal(2, -0.004, 0.018, 1700.0, 0.002),
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
    Interval(4.1, 4.6, 5.0),
)
PINNED = replace(
    WORKERS,
    fix="pin-memory",
    summary="pin_memory False → True at train.py:41",
    applicability=Applicability.SAME,
    speedup=Interval(1.01, 1.02, 1.03),
    after=("more-workers",),
    together=Interval(4.2, 4.75, 5.2),
)
NOTHING_MORE = replace(PINNED, fix="prefetch", together=Interval(4.1, 4.61, 5.0))
UNKNOWN = replace(
    WORKERS, fix="compile", summary="torch.compile", where=None, speedup=None, unpredicted="try"
)
REFUSED = replace(WORKERS, fix="bf16", refused="it is the CPU")


@pytest.fixture
def study() -> Study:
    known = seen(gpu(loader()), {"busy.math": 20, "idle.data.decode": 80}).study
    proposals = (WORKERS, PINNED, NOTHING_MORE, UNKNOWN, REFUSED)
    return replace(known, diagnosis=DIAGNOSIS, proposals=proposals)


def printed(study: Study, width: int = 100) -> str:
    stream = io.StringIO()
    pen = pen_for(stream, width)
    pen.write(remedy_screen(study, pen))
    return stream.getvalue()


def test_causes_and_what_would_help(study: Study) -> None:
    assert printed(study) == snapshot("""\
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
    assert printed(study, 60) == snapshot("""\
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
        assert all(cell_len(line) <= width for line in printed(study, width).splitlines()), width


WHY = Verdict("72 % of each step the GPU waits for data", "data", 0.72, named=True)


def test_the_verdict_is_the_first_thing_that_is_said(study: Study) -> None:
    none = Diagnosis(outlook="72 % of each step; no cause was found", verdict=WHY)
    healthy = replace(study, diagnosis=none, proposals=())
    assert printed(healthy) == ""  # of a run it is the first line of all
    assert printed(replace(healthy, recorded=None)) == f"{WHY.sentence}.\n"
    assert list(first_lines(none)) == [f"{WHY.sentence}."]
    assert list(first_lines(replace(none, verdict=None))) == [none.outlook]
    assert printed(replace(study, diagnosis=None)) == ""


def test_what_is_seen_has_a_title_where_nothing_would_help(study: Study) -> None:
    assert "also seen\n  –  read-back" in printed(replace(study, proposals=()))
    less = Predicted(Interval(0.8, 0.9, 1.0), "feed")
    wide = Predicted(Interval(0.9, 1.01, 1.3), "host")
    hardly = Predicted(Interval(0.98, 1.01, 1.04), "host")
    present = tuple(Finding(READ, one, None) for one in (less, wide, hardly))
    lines = printed(replace(study, diagnosis=Diagnosis(present=present), proposals=()))
    assert lines == (
        "what was seen\n"
        "  –  read-back train.py:70: harmless here: worth nothing\n"
        "  –  read-back train.py:70: not surely worth it: 1.01× [0.90 … 1.30]\n"
        "  –  read-back train.py:70: likely harmless here: worth at most 4.0 %\n"
    )


@pytest.mark.parametrize(
    ("worth", "said"),
    [
        (Interval(0.9, 1.01, 1.09), "not surely worth it: 1.01× [0.90 … 1.09]"),
        (Interval(0.98, 1.005, 1.05), "likely harmless here: worth at most 5.0 %"),
    ],
)
def test_what_may_cost_something_is_not_harmless(worth: Interval, said: str) -> None:
    found = Diagnosis(present=(Finding(READ, Predicted(worth, "host"), None),))
    assert list(harmless_lines(found)) == [f"read-back train.py:70: {said}"]


def test_the_first_lines_name_the_cause_its_line_and_its_worth() -> None:
    assert list(first_lines(replace(DIAGNOSIS, verdict=WHY))) == [
        "72 % of each step the GPU waits for data.",
        "cause: G101 loader-in-training-process, train.py:41; without it 4.60× [4.10 … 5.00]",
    ]
    both = replace(DIAGNOSIS, findings=DIAGNOSIS.findings * 3)
    assert list(first_lines(both))[-1].endswith(" · 2 more causes below")


FUSED = Remedy("fused", "fused", (), Applicability.EQUIVALENT)
AT_STAKE = Finding(READ, Predicted(None, "sync", refused="no window"), None, 0.58, (FUSED,))


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (
            AT_STAKE,
            (
                "58 % of each step is at stake, at most 2.4×; what the fix gives is not known "
                "before it is tried: gapless try --fix fused"
            ),
        ),
        (
            replace(AT_STAKE, share=0.97, remedies=()),
            (
                "97.0 % of each step is at stake; what changing it gives is not known before it is "
                "tried"
            ),
        ),
        (
            replace(AT_STAKE, predicted=Predicted(Interval(0.9, 1.3, 1.9), "sync"), remedies=()),
            (
                "likely 1.30× [0.90 … 1.90]; 58 % of each step is at stake, at most 2.4×; what "
                "changing it gives is not known before it is tried"
            ),
        ),
    ],
)
def test_what_is_named_without_a_sure_price_does_not_sound_like_a_gain(
    one: Finding, words: str
) -> None:
    assert told(one) == words
    (line,) = first_lines(Diagnosis(findings=(one,)))
    assert line.endswith(words)
    assert "without it" not in line


def test_the_json_tells_what_is_at_stake_and_the_verdict(study: Study) -> None:
    found = Diagnosis(findings=(AT_STAKE,), verdict=WHY)
    page = json.loads(study_json(replace(study, diagnosis=found)))
    jsonschema.validate(page, schema(StudyObject))
    (one,) = page["findings"]
    assert (one["share"], one["fixes"], one["speedup"]) == (0.58, ["fused"], None)
    assert page["verdict"]["owner"] == "data"
    assert f"**{WHY.sentence}.**" in run_markdown.page(replace(study, diagnosis=found), Wanted())


def test_the_checks_of_the_replay_are_shown() -> None:
    assert list(replay_lines(replace(DIAGNOSIS, provisional=True))) == [
        (
            "2 windows, replayed unchanged: 0.4 % off the trace · 1.8 % off un-profiled steps · "
            "the profiler costs 1.70 µs an event · waits without a reason 0.2 %"
        ),
        "fewer than 50 steps: what is found is provisional",
        "not checked: G601 (reasons: --json)",
    ]
    refused = Rehearsal(0, None, None, None, None, "it is too long", ("a note",))
    assert list(replay_lines(Diagnosis(rehearsal=refused))) == [
        "no window is replayed: it is too long",
        "a note",
    ]
    unlike = replace(refused, imputed=0.001, unprofiled=0.34, notes=())
    assert list(replay_lines(Diagnosis(rehearsal=unlike))) == [
        "no window is replayed: it is too long",
        "the window, replayed unchanged: 0.1 % off the trace · 34 % off un-profiled steps",
    ]
    assert list(replay_lines(None)) == []


def test_reports_of_runs_and_traces_have_them_as_text_and_as_markdown(study: Study) -> None:
    stream = io.StringIO()
    pen = pen_for(stream, 100)
    pen.write(run_screen(study, pen))
    foreign = replace(study, recorded=None)
    pen.write(terminal.screen(foreign, pen, Wanted()))
    text = stream.getvalue()
    assert text.count("what costs time") == 2
    assert text.count("replay   2 windows, replayed unchanged") == 2
    assert text.splitlines()[3].startswith("cause: G101 loader-in-training-process, train.py:41;")
    for page in (run_markdown.page(study, Wanted()), markdown.page(foreign, Wanted())):
        assert "### What costs time" in page
        assert "| 1 | num\\_workers 0 → 12 | train.py:41 | equivalent |" in page
        assert "- read-back train.py:70: harmless here: worth at most 0.2 %" in page
        assert page.count("replayed unchanged") == 1


TRIED = ToTry(
    Finding(READ, Predicted(None, "sync", refused="no window was kept"), None),
    0.118,
    (Remedy("no-synchronize", "no-synchronize", (), Applicability.RISKY),),
)
NO_PRICE = (
    "worth trying: G302 read-back train.py:70: 20 values are read back; 12 % of a step is at "
    "stake, what a fix gives of it is not predicted (no window was kept): gapless try --fix "
    "no-synchronize --risky"
)


def test_what_is_worth_a_trial_without_a_price_stands_behind_all_that_have_one(
    study: Study,
) -> None:
    found = Diagnosis(findings=DIAGNOSIS.findings, to_try=(TRIED,))
    told = replace(study, diagnosis=found)
    assert list(try_lines(found)) == [NO_PRICE]
    text = " ".join(printed(told).split())
    assert text.index("what would help") < text.index("? worth trying: G302")
    assert "- worth trying: G302" in run_markdown.page(told, Wanted())
    one = json.loads(study_json(told))
    jsonschema.validate(one, schema(StudyObject))
    (tried,) = one["to_try"]
    assert (tried["code"], tried["share"], tried["fixes"]) == ("G302", 0.118, ["no-synchronize"])
    assert tried["unpredicted"] == "no window was kept"
    assert one["present"] == []


def test_a_trial_that_asks_for_nothing_is_called_by_its_fix_alone() -> None:
    usual = replace(TRIED, remedies=(replace(TRIED.remedies[0], applicability=Applicability.SAME),))
    (line,) = try_lines(Diagnosis(to_try=(usual,)))
    assert line.endswith("gapless try --fix no-synchronize")


def test_a_likely_cause_is_told_with_its_odds(study: Study) -> None:
    finding = DIAGNOSIS.findings[0]
    one = ToTry(finding, 0.4, TRIED.remedies, odds=0.92)
    found = Diagnosis(to_try=(one,), least=0.05)
    (line,) = try_lines(found)
    assert "92.0 % likely to be worth 5.0 %: gapless try --fix no-synchronize --risky" in line
    (tried,) = json.loads(study_json(replace(study, diagnosis=found)))["to_try"]
    assert (tried["odds"], tried["unpredicted"]) == (0.92, None)
    assert tried["speedup"]["mid"] == 4.6


def test_the_json_has_all_of_it_and_fits_its_schema(study: Study) -> None:
    told = json.loads(study_json(study))
    jsonschema.validate(told, schema(StudyObject))
    (finding,) = told["findings"]
    assert (finding["code"], finding["confidence"], finding["family"]) == (
        "G101",
        "measured",
        "feed",
    )
    assert finding["where"] == {"file": "train.py", "line": 41, "function": "main"}
    assert finding["evidence"] == [{"name": "workers", "value": 0, "unit": ""}]
    assert told["present"][2]["unpredicted"] == "why"
    assert told["to_try"] == []
    assert told["present"][0]["speedup"]["high"] == 1.002
    assert told["abstentions"][0]["missing"] == "ranks"
    assert told["rehearsal"]["alpha_ns"] == 1700.0
    assert [one["after"] for one in told["proposals"]][:2] == [[], ["more-workers"]]
    assert told["proposals"][1]["together"]["mid"] == 4.75
    assert json.loads(study_json(replace(study, diagnosis=None)))["findings"] is None


def test_where_nothing_is_replayed_it_is_said_what_prices_rest_on() -> None:
    refused = Rehearsal(1, None, None, None, None, "it is too long")
    said = list(replay_lines(replace(DIAGNOSIS, rehearsal=refused)))
    assert said[0] == "no window is replayed: it is too long"
    assert said[1].startswith(
        "what has a price without a replay has it by its share of the account"
    )
    unpriced = replace(DIAGNOSIS, rehearsal=refused, findings=())
    assert not any("has a price" in one for one in replay_lines(unpriced))
