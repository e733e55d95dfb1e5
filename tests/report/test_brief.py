"""The first screen: verdict, groups, three causes, the next command; and parts by name."""

import io
from argparse import Namespace
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace
from rich.cells import cell_len

from gapless.catalogue.examples.evidence import evidence_of, with_steps
from gapless.catalogue.examples.example_facts import gpu, loader
from gapless.catalogue.examples.parts import example_use
from gapless.errors import UsageError
from gapless.model.change import Prediction
from gapless.model.edit import Applicability, FixRequest, Location
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Diagnosis, Finding, Remedy, StepVerdict, TrialCandidate
from gapless.model.run import CpuContention
from gapless.model.study import Study
from gapless.model.trial import Side, Trial
from gapless.model.trial import TrialVerdict as Shown
from gapless.report.brief import brief_screen, whole_clauses
from gapless.report.forms import write_ended_run
from gapless.report.run.notable import notable_lines
from gapless.report.sections.causes import harmless_lines
from gapless.report.sections.next_command import cause_rows, next_step, proven_lines
from gapless.report.sections_asked import section_screen
from gapless.report.terminal import TableView
from gapless.report.text.console import pen_for
from gapless.study import Options, open_study
from tests.report.test_causes import DATA, DIAGNOSIS, PINNED, READ, REFUSED, WORKERS
from tests.study import writing

N_FIRST_LINES = 15  # lines
WHY = StepVerdict(
    "80 % of each step the GPU waits for data, which the training process loads itself "
    "(train.py:41); 20 % is computing",
    "data",
    0.8,
    named=True,
    ceilings=("cached-batch",),
)
FUSED = Remedy(FixRequest("fused"), (), Applicability.EQUIVALENT)
COMPILED = Remedy(FixRequest("compile"), (), Applicability.RISKY)
AT_STAKE = Finding(READ, Prediction(None, "sync", refused="no window"), None, 0.58, (FUSED,))
RUN = evidence_of(
    gpu(loader()), {"busy.math": 18, "idle.data.decode": 80, "idle.gc": 1, "idle.sync": 1}
)


@pytest.fixture
def study() -> Study:
    diagnosis = replace(DIAGNOSIS, verdict=WHY, findings=(*DIAGNOSIS.findings, AT_STAKE))
    proposals = (WORKERS, PINNED, REFUSED)
    return replace(RUN.study, diagnosis=diagnosis, proposals=proposals)


def screen_text(study: Study, width: int = 90, *, has_ended: bool = False) -> str:
    stream = io.StringIO()
    pen = pen_for(stream, width)
    pen.write(brief_screen(study, pen, has_ended=has_ended))
    return stream.getvalue()


def test_the_first_screen_answers_why_where_and_what_next(study: Study) -> None:
    assert screen_text(study) == snapshot("""\
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
    lines = screen_text(study, width).splitlines()
    (index,) = (index for index, line in enumerate(lines) if line.startswith("next: "))
    assert index < N_FIRST_LINES
    assert all(cell_len(line) <= width for line in lines)


@pytest.mark.parametrize("width", range(40, 130, 9))
def test_a_fix_is_never_cut(study: Study, width: int) -> None:
    text = screen_text(study, width)
    assert all(cell_len(line) <= width for line in text.splitlines())
    assert "--fix more-workers" in " ".join(text.split())
    assert "…" not in text.partition("--fix")[2].partition("\n")[0]


def test_shares_of_the_account_are_those_of_the_whole(study: Study) -> None:
    account = screen_text(study).partition("where a step goes")[2].partition("what costs")[0]
    lines = [line for line in account.splitlines() if " % " in f"{line} "]
    shares = [float(line.partition(" %")[0].split()[-1]) for line in lines]
    assert len(shares) == 3
    assert sum(shares) == pytest.approx(100)
    assert max(shares) <= 100


def test_of_a_run_that_has_just_ended_the_next_command_is_the_last_line(study: Study) -> None:
    assert (
        screen_text(study, has_ended=True)
        .splitlines()[-1]
        .startswith("next: gapless try --fix more-w")
    )
    stream = io.StringIO()
    write_ended_run(study, Namespace(section=None, full=False), stream)
    assert "next: gapless try" in stream.getvalue().splitlines()[-1]
    full_stream = io.StringIO()
    write_ended_run(study, Namespace(section=None, full=True), full_stream)
    assert "what costs time, and what a step without it is worth" in full_stream.getvalue()
    assert full_stream.getvalue().splitlines()[-1].startswith("next: gapless try")


def test_without_a_cause_the_screen_says_so_and_what_to_look_at(study: Study) -> None:
    outlook = f"{WHY.sentence}; nothing was found that could be changed about it"
    causeless = replace(study, diagnosis=Diagnosis(outlook=outlook, verdict=WHY), proposals=())
    text = " ".join(screen_text(causeless).split())
    assert outlook in text
    assert "next: gapless report --section loaders" not in text  # a trial tells more


# ── Rows ────────────────────────────────────────────────────────────────────────────────────────


def rows(study: Study, *findings: Finding) -> list[tuple[str, str]]:
    diagnosis = Diagnosis(findings=findings, verdict=WHY)
    return [(row.gain, row.way) for row in cause_rows(replace(study, diagnosis=diagnosis))]


def test_a_row_gives_what_its_fix_gives_and_else_what_all_of_it_is_worth(study: Study) -> None:
    finding = DIAGNOSIS.findings[0]
    assert rows(study, finding) == [("4.60× [4.10 … 5.00]", "--fix more-workers")]
    bare = replace(study, proposals=())
    assert rows(bare, finding) == [("4.60× [4.10 … 5.00]", "by hand")]
    assert rows(bare, AT_STAKE) == [("at most 2.4×", "--fix fused")]
    assert rows(bare, replace(AT_STAKE, share=0.96)) == [("96.0 % at stake", "--fix fused")]
    risky = replace(AT_STAKE, remedies=(COMPILED,))
    assert rows(bare, risky) == [("at most 2.4×", "--fix compile --risky")]
    worse = replace(study, proposals=(replace(WORKERS, speedup=Estimate(0.5, 0.8, 1.1)),))
    assert rows(worse, finding) == [("4.60× [4.10 … 5.00]", "by hand")]


def test_a_fix_stands_beside_a_second_cause_only_if_nothing_else_helps_there(study: Study) -> None:
    finding = DIAGNOSIS.findings[0]
    other_finding = replace(finding, detection=replace(DATA, code="G104"))
    shared_fix = replace(WORKERS, remedies=("G101", "G104"))
    deeper = replace(WORKERS, fix="prefetch", remedies=("G104",), speedup=Estimate(1.4, 1.5, 1.6))
    shared_study, two_fix_study = (
        replace(study, proposals=proposals) for proposals in ((shared_fix,), (shared_fix, deeper))
    )
    assert rows(shared_study, finding, other_finding) == 2 * [
        ("4.60× [4.10 … 5.00]", "--fix more-workers")
    ]
    assert rows(two_fix_study, finding, other_finding)[1] == (
        "1.50× [1.40 … 1.60]",
        "--fix prefetch",
    )


def test_a_fix_at_several_places_gives_no_less_than_the_one_that_gives_most(study: Study) -> None:
    finding = DIAGNOSIS.findings[0]
    there = Location("train.py", 42, "main")
    lesser = replace(WORKERS, location=there, speedup=Estimate(1.0, 1.1, 1.2))
    two_places = replace(study, proposals=(lesser, WORKERS))
    assert rows(two_places, finding) == [("4.60× [4.10 … 5.00]", "--fix more-workers")]


def test_values_are_typed_as_the_rule_asks_for_them(study: Study) -> None:
    detection = replace(DATA, helps=(FixRequest("more-workers", "12"),))
    named_finding = replace(DIAGNOSIS.findings[0], detection=detection)
    assert rows(study, named_finding)[0][1] == "--fix more-workers=12"


def test_likely_causes_stand_behind_the_named_ones(study: Study) -> None:
    likely = TrialCandidate(DIAGNOSIS.findings[0], 0.4, (FUSED,), odds=0.8)
    unlikely = replace(likely, odds=None)
    diagnosis = Diagnosis(findings=(AT_STAKE,), to_try=(likely, unlikely), verdict=WHY)
    causes = cause_rows(replace(study, diagnosis=diagnosis))
    assert [row.gain for row in causes] == ["at most 2.4×", "4.60× [4.10 … 5.00], likely"]


# ── What next ───────────────────────────────────────────────────────────────────────────────────

SIDE = Side(
    "B",
    ("more-workers",),
    "",
    (),
    Applicability.EQUIVALENT,
    Shown.CONFIRMED,
    Estimate(2, 3, 4),
    None,
)
CEILING = replace(SIDE, fixes=("cached-batch",), applicability=Applicability.ABLATION)


def add_trial(study: Study, *sides: Side) -> Study:
    trial = Trial("01", ("python", "train.py"), None, (), "AB", sides, 0.01, 1, None, "warm", 1.0)
    return replace(study, trials=(trial,))


def test_the_biggest_bar_gets_the_advice_where_no_cause_is_about_it(study: Study) -> None:
    diagnosis = Diagnosis(findings=(AT_STAKE,), verdict=replace(WHY, named=False))
    bare_study = replace(study, diagnosis=diagnosis)
    assert next_step(bare_study)[0] == "gapless try --ceilings"
    assert next_step(add_trial(bare_study, CEILING))[0] == "gapless try --fix fused"
    assert next_step(replace(study, diagnosis=replace(diagnosis, findings=())))[0].endswith(
        "ceilings"
    )


def test_after_a_trial_the_screen_says_what_was_proven(study: Study) -> None:
    assert list(proven_lines(add_trial(study, SIDE, CEILING))) == [
        "proven: more-workers 3.00× [2.00 … 4.00]",
        "measured: if it were removed altogether, at most: cached-batch 3.00× [2.00 … 4.00]",
    ]
    undecided_side = replace(SIDE, verdict=Shown.UNDECIDED)
    (line,) = proven_lines(add_trial(study, undecided_side))
    assert line == "tried, and not proven to help: more-workers 3.00× [2.00 … 4.00] (undecided)"
    assert next_step(add_trial(study, SIDE))[0] == "gapless try --fix fused"
    assert "proven: more-workers" in screen_text(add_trial(study, SIDE)).partition("where")[0]


def test_a_cause_by_hand_is_explained_though_a_lesser_one_has_a_fix(study: Study) -> None:
    by_hand = Diagnosis(findings=(*DIAGNOSIS.findings, AT_STAKE), verdict=WHY)
    bare = replace(study, proposals=(), diagnosis=by_hand)
    assert next_step(bare)[0] == "gapless explain G101"


def test_a_stage_by_hand_is_measured_on_the_data_of_the_run(study: Study) -> None:
    decoding = replace(DIAGNOSIS.findings[0], detection=replace(DATA, code="G107"))
    bare = replace(study, proposals=(), diagnosis=Diagnosis(findings=(decoding,), verdict=WHY))
    assert bare.recorded is not None
    use = example_use(loader(), {"decode": 80})
    for settings, command in (
        (use.settings, "gapless data"),
        ({**use.settings, "stands_in": "Feed"}, "gapless explain G107"),
    ):
        recorded = replace(bare.recorded, loaders=(replace(use, settings=settings),))
        assert next_step(replace(bare, recorded=recorded))[0] == command


def test_what_to_look_at_of_traces_can_be_typed_as_it_is(tmp_path: Path) -> None:
    path = writing.write(tmp_path / "a trace.json", writing.training())
    study = replace(open_study([path], Options(cache=False)), diagnosis=None)
    assert next_step(study)[0].startswith(f"gapless open '{path}' --leaf idle.")
    ranks = tuple(f"{folder}/rank{rank}.json" for folder in ("a", "b") for rank in range(4))
    many_ranks = replace(study, run=replace(study.run, paths=ranks))
    assert next_step(many_ranks)[0].startswith("gapless open a b --leaf idle.")


def test_a_trace_has_a_screen_of_its_own(tmp_path: Path) -> None:
    path = writing.write(tmp_path / "trace.json", writing.training())
    study = open_study([path], Options(cache=False))
    text = screen_text(study)
    assert text.splitlines()[1].startswith("72 % of each step the GPU waits for the training")
    assert "\nnext: gapless " in text
    assert "more: gapless open … --full or --section kernels" in text


# ── Parts by name ───────────────────────────────────────────────────────────────────────────────


def section_text(study: Study, *names: str) -> str:
    stream = io.StringIO()
    pen = pen_for(stream, 90)
    pen.write(section_screen(study, pen, TableView(), names))
    return stream.getvalue()


def test_parts_of_a_report_are_printed_by_name(study: Study) -> None:
    assert section_text(study, "account").startswith("where a step goes\n")
    text = section_text(study, "replay", "causes")
    assert text.index("replayed unchanged") < text.index("what costs time")
    assert section_text(study, "kernels") == "kernels: nothing was recorded of it\n"
    with pytest.raises(UsageError, match="no section 'gpus'; it has: account, causes, steps"):
        section_text(study, "gpus")


# ── Steps that vary ─────────────────────────────────────────────────────────────────────────────


def notable_text(run: Evidence, **fields: object) -> str:
    recorded = run.study.recorded
    assert recorded is not None
    return " ".join(notable_lines(replace(run.study, recorded=replace(recorded, **fields))))  # pyright: ignore[reportArgumentType]


def test_fewer_threads_are_tried_where_others_leave_too_few_processors(study: Study) -> None:
    request = FixRequest("intra-op-threads", "1")
    taken = replace(AT_STAKE.detection, name="taken-processors", helps=(request,))
    diagnosis = Diagnosis(
        present=(replace(AT_STAKE, detection=taken),), verdict=replace(WHY, ceilings=())
    )
    assert study.recorded is not None
    recorded = replace(study.recorded, contention=CpuContention(1.5, 0.0, 2))
    shared = replace(study, diagnosis=diagnosis, proposals=(), recorded=recorded)
    command = "gapless try --fix intra-op-threads=1"
    assert next_step(shared)[0] == command
    assert f"slower here than with fewer threads: {command}" in " ".join(notable_lines(shared))
    tried = add_trial(shared, replace(SIDE, fixes=("intra-op-threads",)))
    assert command not in (next_step(tried)[0], *notable_lines(tried))
    assert command not in " ".join(harmless_lines(diagnosis))  # not known there to be tried


def test_steps_that_vary_by_themselves_are_told_from_a_machine_that_others_use() -> None:
    plain = evidence_of(gpu(loader()), {"busy.math": 90, "idle.gc": 10})
    varied = with_steps(plain, noise=0.42, p10_ns=2_000_000, p90_ns=70_000_000)
    alone = notable_text(varied, contention=CpuContention(0.0, 0.0, 8))
    assert "nothing else used the machine: they differ by themselves (lengths of" in alone
    shared = notable_text(varied, contention=CpuContention(4.0, 0.0, 8))
    assert "others used the machine, too" in shared
    assert "by themselves" not in shared
    assert "was not recorded" in notable_text(varied, contention=None)
    steady = with_steps(plain, noise=0.02, p10_ns=60_000_000, p90_ns=70_000_000)
    assert "steps take" not in notable_text(steady, contention=CpuContention(0.0, 0.0, 8))
    waits = with_steps(RUN, noise=0.42, p10_ns=2_000_000, p90_ns=70_000_000)
    assert "by how long they wait for data" in notable_text(
        waits, contention=CpuContention(0.0, 0.0, 8)
    )


def test_a_step_that_is_one_pass_is_said_to_be() -> None:
    plain = evidence_of(gpu(loader()), {"busy.math": 100})
    passes = with_steps(plain, passes=40, mean_ns=100_000_000, update_ns=600_000_000)
    text = notable_text(passes)
    assert "40 of them make a step of the optimizer" in text
    assert "its own call takes 600 ms of it (15 %)" in text
    assert "backward pass" not in notable_text(plain)


def test_what_is_left_out_of_advice_begins_after_a_whole_clause() -> None:
    sorted_text = "sort rows by length (a sampler that sorts some rows and shuffles)"
    assert whole_clauses(f"{sorted_text}, or pack them (nested") == f"{sorted_text}, or pack them"
    assert whole_clauses(f"{sorted_text}, or pack") == sorted_text
    assert whole_clauses("one clause that is not at its") == "one clause that is not at its"
    compiled_text = "compile each of the modules that a step calls"
    assert whole_clauses(f"{compiled_text}; or larger: while the") == compiled_text
    assert whole_clauses("sort them, e.g. by their") == "sort them, e.g. by their"
    assert whole_clauses("short; the other clause is most of it") == (
        "short; the other clause is most of it"
    )


def test_of_two_values_of_a_fix_the_one_that_was_priced_is_typed(study: Study) -> None:
    finding = DIAGNOSIS.findings[0]
    requests = (FixRequest("more-workers", "2"), FixRequest("more-workers", "1"))
    both = replace(finding, detection=replace(finding.detection, helps=requests))
    priced = replace(study, proposals=(replace(WORKERS, value="1"),))
    assert rows(priced, both) == [("4.60× [4.10 … 5.00]", "--fix more-workers=1")]


def test_where_a_fix_asks_for_a_permission_one_that_gives_more_freely_is_next(study: Study) -> None:
    first, second = DIAGNOSIS.findings[0], AT_STAKE
    codes = (first.detection.code,), (second.detection.code,)
    risky = replace(WORKERS, remedies=codes[0], applicability=Applicability.RISKY)
    free = replace(WORKERS, fix="fused", remedies=codes[1], speedup=Estimate(4.9, 5.0, 5.1))
    named = replace(study.diagnosis or DIAGNOSIS, findings=(first, second), to_try=())
    shown = replace(study, diagnosis=named, proposals=(risky, free))
    assert next_step(shown)[0] == "gapless try --fix fused"
    lesser = replace(free, speedup=Estimate(1.1, 1.2, 1.3))
    asked = next_step(replace(shown, proposals=(risky, lesser)))[0]
    assert asked == "gapless try --fix more-workers --risky"
