"""The first screen: verdict, groups, three causes, the next command; and parts by name."""

import io
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from rich.cells import cell_len

from gapless.catalogue.examples import gpu, loader
from gapless.catalogue.seen_examples import seen, stepped
from gapless.errors import UsageError
from gapless.model.change import Predicted
from gapless.model.edit import Applicability
from gapless.model.finding import Diagnosis, Finding, Remedy, ToTry, Verdict
from gapless.model.interval import Interval
from gapless.model.run import Others
from gapless.model.seen import Seen
from gapless.model.study import Study
from gapless.model.trial import Side, Trial
from gapless.model.trial import Verdict as Shown
from gapless.report.brief import brief_screen
from gapless.report.chosen import chosen_screen
from gapless.report.forms import tell_run
from gapless.report.onward import next_step, proven_lines, rows_of
from gapless.report.pen import pen_for
from gapless.report.run_notable import notable_lines
from gapless.report.terminal import Wanted
from gapless.study import Options, open_study
from tests.report.test_causes import DATA, DIAGNOSIS, PINNED, READ, REFUSED, WORKERS
from tests.study import writing

FIRST = 15  # lines
WHY = Verdict(
    "80 % of each step the GPU waits for data, which the training process loads itself "
    "(train.py:41); 20 % is computing",
    "data",
    0.8,
    named=True,
    ceilings=("cached-batch",),
)
FUSED = Remedy("fused", "fused", (), Applicability.EQUIVALENT)
COMPILED = Remedy("compile", "compile", (), Applicability.RISKY)
AT_STAKE = Finding(READ, Predicted(None, "sync", refused="no window"), None, 0.58, (FUSED,))
RUN = seen(gpu(loader()), {"busy.math": 18, "idle.data.decode": 80, "idle.gc": 1, "idle.sync": 1})


@pytest.fixture
def study() -> Study:
    found = replace(DIAGNOSIS, verdict=WHY, findings=(*DIAGNOSIS.findings, AT_STAKE))
    proposals = (WORKERS, PINNED, REFUSED)
    return replace(RUN.study, diagnosis=found, proposals=proposals)


def printed(study: Study, width: int = 90, *, ended: bool = False) -> str:
    stream = io.StringIO()
    pen = pen_for(stream, width)
    pen.write(brief_screen(study, pen, ended=ended))
    return stream.getvalue()


def test_the_first_screen_answers_why_where_and_what_next(study: Study) -> None:
    assert printed(study) == snapshot("""\
gapless · 100 steps of 100.0 ms on one NVIDIA H200
80 % of each step the GPU waits for data, which the training process loads itself
(train.py:41); 20 % is computing.
where a step goes (mean of 100 steps)
  waiting for data    80.0 ms  80.0 %  ██████████████████████▍
  compute             18.0 ms  18.0 %  █████
  all else             2.0 ms   2.0 %
what costs time
  1  G101 loader-in-training-process train.py:41
     4.60× [4.10 … 5.00]  --fix more-workers
     The training process makes each batch itself, 80.0 ms of a step of 100.0 ms
  2  G302 read-back train.py:70
     at most 2.4×  --fix fused
next: gapless try --fix more-workers   runs it with and without, in turns
python train.py · finished, exit code 0 · run
more: gapless report --full or --section loaders | steps | machine | replay
""")


@pytest.mark.parametrize("width", [80, 90, 100, 120])
def test_all_that_matters_stands_in_the_first_lines(study: Study, width: int) -> None:
    lines = printed(study, width).splitlines()
    (at,) = (at for at, line in enumerate(lines) if line.startswith("next: "))
    assert at < FIRST
    assert all(cell_len(line) <= width for line in lines)


@pytest.mark.parametrize("width", range(40, 130, 9))
def test_a_fix_is_never_cut(study: Study, width: int) -> None:
    text = printed(study, width)
    assert all(cell_len(line) <= width for line in text.splitlines())
    assert "--fix more-workers" in " ".join(text.split())
    assert "…" not in text.partition("--fix")[2].partition("\n")[0]


def test_shares_of_the_account_are_those_of_the_whole(study: Study) -> None:
    account = printed(study).partition("where a step goes")[2].partition("what costs")[0]
    lines = [line for line in account.splitlines() if " % " in f"{line} "]
    shares = [float(line.partition(" %")[0].split()[-1]) for line in lines]
    assert len(shares) == 3
    assert sum(shares) == pytest.approx(100)
    assert max(shares) <= 100


def test_of_a_run_that_has_just_ended_the_next_command_is_the_last_line(study: Study) -> None:
    assert printed(study, ended=True).splitlines()[-1].startswith("next: gapless try --fix more-w")
    stream = io.StringIO()
    tell_run(study, Namespace(section=None, full=False), stream)
    assert "next: gapless try" in stream.getvalue().splitlines()[-1]
    whole = io.StringIO()
    tell_run(study, Namespace(section=None, full=True), whole)
    assert "what costs time, and what a step without it is worth" in whole.getvalue()
    assert whole.getvalue().splitlines()[-1].startswith("next: gapless try")


def test_without_a_cause_the_screen_says_so_and_what_to_look_at(study: Study) -> None:
    outlook = f"{WHY.sentence}; what could be changed about it was not found"
    none = replace(study, diagnosis=Diagnosis(outlook=outlook, verdict=WHY), proposals=())
    text = " ".join(printed(none).split())
    assert outlook in text
    assert "next: gapless report --section loaders" not in text  # a trial tells more


# ── Rows ────────────────────────────────────────────────────────────────────────────────────────


def rows(study: Study, *findings: Finding) -> list[tuple[str, str]]:
    found = Diagnosis(findings=findings, verdict=WHY)
    return [(one.gain, one.way) for one in rows_of(replace(study, diagnosis=found))]


def test_a_row_gives_what_its_fix_gives_and_else_what_all_of_it_is_worth(study: Study) -> None:
    first = DIAGNOSIS.findings[0]
    assert rows(study, first) == [("4.60× [4.10 … 5.00]", "--fix more-workers")]
    bare = replace(study, proposals=())
    assert rows(bare, first) == [("4.60× [4.10 … 5.00]", "by hand")]
    assert rows(bare, AT_STAKE) == [("at most 2.4×", "--fix fused")]
    assert rows(bare, replace(AT_STAKE, share=0.96)) == [("96.0 % at stake", "--fix fused")]
    risky = replace(AT_STAKE, remedies=(COMPILED,))
    assert rows(bare, risky) == [("at most 2.4×", "--fix compile --risky")]
    worse = replace(study, proposals=(replace(WORKERS, speedup=Interval(0.5, 0.8, 1.1)),))
    assert rows(worse, first) == [("4.60× [4.10 … 5.00]", "by hand")]


def test_a_fix_stands_beside_a_second_cause_only_if_nothing_else_helps_there(study: Study) -> None:
    first = DIAGNOSIS.findings[0]
    second = replace(first, loss=replace(DATA, code="G104"))
    both = replace(WORKERS, remedies=("G101", "G104"))
    deeper = replace(WORKERS, fix="prefetch", remedies=("G104",), speedup=Interval(1.4, 1.5, 1.6))
    alike, several = (replace(study, proposals=made) for made in ((both,), (both, deeper)))
    assert rows(alike, first, second) == 2 * [("4.60× [4.10 … 5.00]", "--fix more-workers")]
    assert rows(several, first, second)[1] == ("1.50× [1.40 … 1.60]", "--fix prefetch")


def test_values_are_typed_as_the_rule_asks_for_them(study: Study) -> None:
    loss = replace(DATA, helps=("more-workers=12",))
    named = replace(DIAGNOSIS.findings[0], loss=loss)
    assert rows(study, named)[0][1] == "--fix more-workers=12"


def test_likely_causes_stand_behind_the_named_ones(study: Study) -> None:
    likely = ToTry(DIAGNOSIS.findings[0], 0.4, (FUSED,), odds=0.8)
    unlikely = replace(likely, odds=None)
    found = Diagnosis(findings=(AT_STAKE,), to_try=(likely, unlikely), verdict=WHY)
    told = rows_of(replace(study, diagnosis=found))
    assert [one.gain for one in told] == ["at most 2.4×", "4.60× [4.10 … 5.00], likely"]


# ── What next ───────────────────────────────────────────────────────────────────────────────────

SIDE = Side(
    "B",
    ("more-workers",),
    "",
    (),
    Applicability.EQUIVALENT,
    Shown.CONFIRMED,
    Interval(2, 3, 4),
    None,
)
CEILING = replace(SIDE, fixes=("cached-batch",), applicability=Applicability.TRIAL)


def tried(study: Study, *sides: Side) -> Study:
    trial = Trial("01", ("python", "train.py"), None, (), "AB", sides, 0.01, 1, None, "warm", 1.0)
    return replace(study, trials=(trial,))


def test_the_biggest_bar_gets_the_advice_where_no_cause_is_about_it(study: Study) -> None:
    found = Diagnosis(findings=(AT_STAKE,), verdict=replace(WHY, named=False))
    open_ = replace(study, diagnosis=found)
    assert next_step(open_)[0] == "gapless try --ceilings"
    assert next_step(tried(open_, CEILING))[0] == "gapless try --fix fused"
    assert next_step(replace(study, diagnosis=replace(found, findings=())))[0].endswith("ceilings")


def test_after_a_trial_the_screen_says_what_was_proven(study: Study) -> None:
    assert list(proven_lines(tried(study, SIDE, CEILING))) == [
        "proven: more-workers 3.00× [2.00 … 4.00]",
        "measured: if it went altogether, at most: cached-batch 3.00× [2.00 … 4.00]",
    ]
    lost = replace(SIDE, verdict=Shown.UNDECIDED)
    (line,) = proven_lines(tried(study, lost))
    assert line == "tried, and not proven to help: more-workers 3.00× [2.00 … 4.00] (undecided)"
    assert next_step(tried(study, SIDE))[0] == "gapless try --fix fused"
    assert "proven: more-workers" in printed(tried(study, SIDE)).partition("where")[0]


def test_a_cause_by_hand_is_explained_though_a_lesser_one_has_a_fix(study: Study) -> None:
    by_hand = Diagnosis(findings=(*DIAGNOSIS.findings, AT_STAKE), verdict=WHY)
    bare = replace(study, proposals=(), diagnosis=by_hand)
    assert next_step(bare)[0] == "gapless explain G101"


def test_what_to_look_at_of_traces_can_be_typed_as_it_is(tmp_path: Path) -> None:
    path = writing.write(tmp_path / "a trace.json", writing.training())
    study = replace(open_study([path], Options(cache=False)), diagnosis=None)
    assert next_step(study)[0].startswith(f"gapless open '{path}' --leaf idle.")
    ranks = tuple(f"{folder}/rank{at}.json" for folder in ("a", "b") for at in range(4))
    many = replace(study, run=replace(study.run, paths=ranks))
    assert next_step(many)[0].startswith("gapless open a b --leaf idle.")


def test_a_trace_has_a_screen_of_its_own(tmp_path: Path) -> None:
    path = writing.write(tmp_path / "trace.json", writing.training())
    study = open_study([path], Options(cache=False))
    text = printed(study)
    assert text.splitlines()[1].startswith("72 % of each step the GPU waits for the training")
    assert "\nnext: gapless " in text
    assert "more: gapless open … --full or --section kernels" in text


# ── Parts by name ───────────────────────────────────────────────────────────────────────────────


def part(study: Study, *names: str) -> str:
    stream = io.StringIO()
    pen = pen_for(stream, 90)
    pen.write(chosen_screen(study, pen, Wanted(), names))
    return stream.getvalue()


def test_parts_of_a_report_are_printed_by_name(study: Study) -> None:
    assert part(study, "account").startswith("where a step goes\n")
    both = part(study, "replay", "causes")
    assert both.index("replayed unchanged") < both.index("what costs time")
    assert part(study, "kernels") == "kernels: nothing was recorded of it\n"
    with pytest.raises(UsageError, match="no section 'gpus'; it has: account, causes, steps"):
        part(study, "gpus")


# ── Steps that vary ─────────────────────────────────────────────────────────────────────────────


def noted(run: Seen, **others: object) -> str:
    recorded = run.study.recorded
    assert recorded is not None
    return " ".join(notable_lines(replace(recorded, **others)))  # pyright: ignore[reportArgumentType]


def test_steps_that_vary_by_themselves_are_told_from_a_machine_that_others_use() -> None:
    plain = seen(gpu(loader()), {"busy.math": 90, "idle.gc": 10})
    varied = stepped(plain, noise=0.42, p10_ns=2_000_000, p90_ns=70_000_000)
    alone = noted(varied, others=Others(0.0, 0.0, 8))
    assert "nothing else used the machine: they differ by themselves (lengths of" in alone
    shared = noted(varied, others=Others(4.0, 0.0, 8))
    assert "the machine was not theirs alone" in shared
    assert "by themselves" not in shared
    assert "was not recorded" in noted(varied, others=None)
    steady = stepped(plain, noise=0.02, p10_ns=60_000_000, p90_ns=70_000_000)
    assert "steps take" not in noted(steady, others=Others(0.0, 0.0, 8))
    waits = stepped(RUN, noise=0.42, p10_ns=2_000_000, p90_ns=70_000_000)
    assert "by how long they wait for data" in noted(waits, others=Others(0.0, 0.0, 8))
