"""The page, the Markdown and the JSON of a recorded run."""

import io
import json
from argparse import Namespace

import pytest
from msgspec.structs import replace

from gapless.model.recording import StackCount, Unobserved
from gapless.model.study import Study
from gapless.report.documents.document import study_json
from gapless.report.forms import write_study
from gapless.report.run.markdown_page import run_page
from gapless.report.run.page import early_line, print_run, run_screen
from gapless.report.terminal import TableView
from gapless.report.text.console import ASCII, UNICODE, pen_for, spark
from gapless.report.text.numbers import span
from gapless.study import Options, study_recording
from tests.study.recording import MS, Log, recording


def in_process_study(**options: float) -> Study:
    """Return a run of 60 steps of 100 ms that waits 80 ms for data that it makes itself."""
    log = Log(start=0, end=7000)
    log.add_fact("loader", 0, ("src/train.py", 41), batch_size=8, num_workers=0)
    log.add_fact("optimizer", 0, ("src/train.py", 50), **{"class": "SGD"})
    for start in range(500, 6500, 100):
        log.add_mark("next", start, start + 80, value=(start - 500) // 100)
        log.add_fetch(
            start, start + 79, samples=8, decode=60, collate=19, cpu=70 * MS, run_queue=MS
        )
        log.add_steps(start + 100)
    series = {
        "gpu0.sm": ([0.0, 3500.0, 7000.0], [0.0, 20.0, 10.0]),
        "gpu0.power": ([0.0, 3500.0, 7000.0], [100.0, 100.0, 100.0]),
    }
    log_recording = recording(log, ended_ms=7000, series=series)
    return study_recording(log_recording, Options(price=options.get("price")))


def page_text(study: Study) -> str:
    stream = io.StringIO()
    print_run(study, stream)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("counts", "rank", "peers"), [((40, 30, 10), None, 2), ((40, 10), None, 0), ((40, 30), 0, 0)]
)
def test_the_headline_counts_processes_without_ranks_that_step(
    counts: tuple[int, ...], rank: int | None, peers: int
) -> None:
    logs = [
        Log(pid=pid, rank=None if rank is None else rank + pid, start=0, end=6000)
        for pid in range(len(counts))
    ]
    for log, steps in zip(logs, counts, strict=True):
        log.add_steps(*(100 * step for step in range(1, steps + 1)))
    head = page_text(study_recording(recording(*logs, ended_ms=6000))).splitlines()[0]
    assert head.startswith("gapless · 40 steps of 100.0 ms")
    assert ("processes that step" in head) is bool(peers)
    assert head.endswith(f"one of {peers} processes that step") is bool(peers)


def test_the_page_says_where_a_step_goes_and_its_parts_sum() -> None:
    text = page_text(in_process_study())
    head, command, folder, why, _, title, *account_lines = text.splitlines()
    assert head == "gapless · 60 steps of 100.0 ms · 80 samples/s"
    assert command == "python train.py · finished, exit code 0 after 7.00 s"
    assert folder == "run"
    assert why.startswith("80 % of each step goes to loading data, which the training")
    assert title == "where a step goes"
    assert account_lines[0].startswith("  waiting for data    80.0 ms  80.0 %")
    assert "decode 60.0" in account_lines[1]
    assert "(in the training process itself: num_workers=0)" in text
    assert "the step itself     20.0 ms  20.0 %" in text
    assert "100.0 ms 100.0 %   (sums exactly; the mean of 59 un-profiled steps)" in text


def test_the_page_names_the_anchor_the_loader_and_what_it_could_not_see() -> None:
    text = " ".join(page_text(in_process_study()).split())
    assert "a step ends with SGD.step, train.py:50 (60 steps, rule: optimizer)" in text
    assert "train.py:41 DataLoader(batch_size=8, num_workers=0)" in text
    assert "60 batches waited for 4.80 s (80 % of the time of steps)" in text
    assert "a sample: 8.75 ms CPU" in text
    assert "no window of torch.profiler" in text


def test_energy_and_cost_name_the_part_in_which_nothing_worked() -> None:
    text = " ".join(page_text(in_process_study(price=3600)).split())
    assert "energy 700 J (sampled power), 612 J of it (88 %) while no kernel ran" in text
    assert "cost 7 (1 GPU at 3600 an hour), 6.12 of it (88 %) while no GPU worked" in text


def test_one_line_for_the_impatient() -> None:
    assert early_line(in_process_study()) == (
        "gapless · 60 steps of 100.0 ms · 80 samples/s · so far a step is mostly waiting for data: "
        "80.0 %"
    )


def test_a_run_that_never_stepped_says_so_and_judges_nothing() -> None:
    log = Log(start=0, end=None)
    log.add_fact("loader", 0, ("train.py", 41), num_workers=2)
    log.add_mark("iter", 1000, 9000)
    study = study_recording(
        recording(log, ended_ms=115_000, status="killed", exit_code=None), Options()
    )
    text = page_text(study)
    assert text.startswith("gapless · no step was recorded in 115 s\n")
    assert "where a step goes" not in text
    assert "set-up 1.00 s · epoch turns 8.00 s · unknown 106 s" in text
    assert "train.py:41 DataLoader(num_workers=2)" in text
    assert early_line(study) == "gapless · no step was recorded in 115 s"


def test_a_run_of_which_nothing_was_recorded_still_has_a_page() -> None:
    text = page_text(study_recording(recording(status="failed", exit_code=3), Options()))
    assert text.startswith("gapless · no process of this run stepped or loaded data\n")
    assert "failed, exit code 3" in text


def test_a_run_without_a_loader_gets_an_account_all_the_same() -> None:
    log = Log(end=1000)
    log.add_steps(*range(100, 1000, 100))
    text = page_text(study_recording(recording(log), Options()))
    assert "9 steps of 100.0 ms" in text
    assert "no DataLoader was used" in text
    assert "8 steps are fewer than 50" in text


def test_ranks_stand_side_by_side() -> None:
    logs = [Log(rank=rank, pid=10 + rank, world=2, end=1000) for rank in (0, 1)]
    for rank, log in enumerate(logs):
        for start in range(100, 900, 100):
            log.add_mark("next", start, start + 20 + 40 * rank, value=start // 100)
            log.add_steps(start + 100)
    text = " ".join(page_text(study_recording(recording(*logs), Options())).split())
    assert "rank 0: 8 steps of 100.0 ms · waiting for data 20 %" in text
    assert "rank 1: 8 steps of 100.0 ms · waiting for data 60 %" in text
    assert "but rank 1 waits 60 % of the time for data and rank 0 20 %" in text
    rank_study = study_recording(recording(*logs), Options(rank="1"))
    assert rank_study.run.ranks == (1,)


def test_json_has_the_keys_of_the_interface_and_exact_sums() -> None:
    document = json.loads(study_json(in_process_study()))
    assert document["run"]["id"] == "2026-11-21T10-15-03-3f9a"
    assert document["run"]["status"] == "finished"
    assert document["step"]["count"] == 60
    assert document["step"]["rule"] == "optimizer"
    assert document["step"]["samples_per_s"] == pytest.approx(80)
    assert (
        sum(document["timeline"]["leaves"].values()) == document["timeline"]["wall_ns"] == 7000 * MS
    )
    account = document["step_account"]
    assert sum(account["leaves"].values()) == account["wall_ns"] == 5900 * MS
    assert sum(account["groups"].values()) == account["wall_ns"]
    assert document["loaders"][0]["workers"]["processes"] == 0
    assert document["machine"][0]["name"] == "gpu0.sm"


def test_markdown_tells_the_same() -> None:
    text = run_page(in_process_study(), TableView())
    assert text.startswith("**gapless · 60 steps of 100.0 ms · 80 samples/s**\n")
    assert "| waiting for data | 80.0 | 80.0 |" in text
    assert "### Loaders" in text


@pytest.mark.parametrize("form", ["json", "markdown", "terminal"])
def test_every_form_writes_to_standard_output(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"json": form == "json", "markdown": form == "markdown", "csv": None, "width": 100}
    write_study(in_process_study(), Namespace(**options, top=10, sort=None))
    assert "2026-11-21" in (out := capsys.readouterr().out) or "60 steps" in out


def test_a_narrow_page_keeps_within_its_width() -> None:
    pen = pen_for(io.StringIO(), 60)
    assert max(len(line.plain) for line in run_screen(in_process_study(), pen)) <= 60


def test_sparks_show_heights_and_gaps() -> None:
    assert spark([0, None, 50, 100], 100, 10, UNICODE) == "▁ ▅█"
    assert spark([0, 100, 100, 100], 100, 2, ASCII) == "=#"


def text_of_log(log: Log, stopped_by: str | None = None) -> str:
    study = study_recording(recording(log, stopped_by=stopped_by), Options())
    return " ".join(page_text(study).split())


def test_a_check_that_was_ended_as_asked_is_no_failure() -> None:
    log = Log(end=1000)
    log.add_steps(100, 200, 300)
    assert "ended by gapless check, as asked after 1.00 s" in text_of_log(log, stopped_by="check")


def test_one_step_is_no_account() -> None:
    log = Log(end=1000)
    log.add_steps(100)
    text = text_of_log(log)
    assert text.startswith("gapless · one step in 1.00 s: there is nothing between two steps")


def test_what_could_not_be_observed_is_said_once() -> None:
    log = Log(end=1000)
    log.add_steps(100, 200, 300)
    log.unobserved += [
        Unobserved("schedstat", "no such file", 2),
        Unobserved("schedstat", "no such file"),
    ]
    assert "schedstat: no such file (3 times)" in text_of_log(log)


def test_why_no_process_was_seen_stands_in_the_headline() -> None:
    unobserved_run = replace(
        recording(), unobserved=(Unobserved("training", "no Python process was seen"),)
    )
    text = page_text(study_recording(unobserved_run, Options()))
    assert text.startswith(
        "gapless · no process of this run stepped or loaded data: no Python process was seen\n"
    )


def test_lines_in_which_stacks_stood_are_named() -> None:
    log = Log(end=1000)
    log.add_steps(100, 200, 300)
    log.stacks.append(StackCount("training", (("/a/b/train.py", 60, "main"),), 30))
    log.stacks.append(StackCount("training", (("/x/site-packages/torch/a.py", 1, "f"),), 10))
    assert "the training thread, by sampled stacks: train.py:60 main 75 %" in text_of_log(log)


def test_steps_that_were_all_profiled_are_counted_and_said_to_be() -> None:
    log = Log(end=1000)
    log.add_steps(100, 200, 300)
    log.add_mark("user-profiler", 50, 400)
    assert "the mean of 2 steps, all under a profiler" in text_of_log(log)


def test_many_ranks_are_summed_up() -> None:
    logs = [Log(rank=rank, pid=10 + rank, end=5000) for rank in range(12)]
    for rank, log in enumerate(logs):
        log.add_steps(*(100 + index * (100 + 10 * rank) for index in range(5)))
    text = " ".join(page_text(study_recording(recording(*logs), Options())).split())
    assert "12 ranks: a step takes 155.0 ms (median; p10 111.0, p90 199.0), longest" in text
    assert "longest 210.0 on rank 11" in text
    assert "rank 5:" not in text


def test_a_price_without_a_gpu_says_nothing() -> None:
    log = Log(end=1000)
    log.add_steps(100, 200, 300)
    text = page_text(study_recording(recording(log), Options(price=3)))
    assert "no GPU was seen, so its price does not apply" in text


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (999, "1.00 µs"),
        (123_456_789, "123 ms"),
        (12_345_678_901, "12.3 s"),
        (6_000_000_000_000, "1 h 40 min"),
    ],
)
def test_spans_of_a_run_have_three_digits(ns: int, text: str) -> None:
    assert span(ns) == text


def test_json_without_steps_has_no_account_of_one() -> None:
    document = json.loads(study_json(study_recording(recording(Log(end=1000)), Options())))
    assert document["step"] is document["step_account"] is None
    assert document["timeline"]["leaves"] == {"set-up": 1000 * MS}
    assert document["account"]["wall_ns"] == 0


def test_loaders_beyond_the_fourth_are_counted() -> None:
    log = Log(end=3000)
    log.add_steps(100, 2000)
    for number in range(6):
        log.add_mark("next", 200 + 20 * number, 201 + 21 * number, subject=number, value=0)
    text = text_of_log(log)
    assert "2 more loaders, which were waited for less" in text
    assert text.count("DataLoader(") == 4
