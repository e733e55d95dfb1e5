"""Faults planted in trainings: what is changed, where, which half, and what counts as named."""

import ast
import contextlib
import hashlib
import json
import math
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from benchmarks.planted import judging, outcomes, steps, truth
from benchmarks.planted.cases import Case, case_of_name, cases, put_sound_off
from benchmarks.planted.data import MAKERS
from benchmarks.planted.healing import heal_script
from benchmarks.planted.mutations.catalogue import DECOYS, FAULTS, MUTATIONS, OPEN, SEALED
from benchmarks.planted.mutations.parts import batch_of
from benchmarks.planted.mutations.plant import Plant, Planted, Site, plant
from benchmarks.planted.recorder import recorder
from benchmarks.planted.running import Lane, Live, whole_cores
from benchmarks.planted.scripts import (
    FetchError,
    Patch,
    Script,
    content,
    lay_out,
    mend_file,
    scripts,
)
from benchmarks.planted.source import Insertion, Replacement, apply, parse, step_of
from benchmarks.planted.statements import remove_statement, repeat_statement
from benchmarks.planted.steps import Stream, foreign_s, own_time
from benchmarks.planted.trying import group_waiting
from benchmarks.planted.working import PlantOptions, alternate, drop_outdated

SCRIPT = '''"""A training."""
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(1, 4, 3, padding=1)
        self.norms = nn.ModuleList([nn.BatchNorm2d(4), nn.LayerNorm(32)])
        self.dropout = nn.Dropout(0.1)
        self.offset = nn.Embedding(4, 2)
        self.layer = nn.Linear(32, 2)
        self.flash = hasattr(torch.nn.functional, "scaled_dot_product_attention")

    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            x = self.norms[0](self.convolution(x.view(-1, 1, 2, 4)))
            x = self.norms[1](self.dropout(nn.functional.relu(x.flatten(1))))
            return self.layer(x) + self.offset(torch.arange(len(x), device=x.device) % 4)


def main():
    data = TensorDataset(torch.randn(96, 8), torch.zeros(96, dtype=torch.long))
    loader = DataLoader(data, batch_size=32, pin_memory=False)
    if torch.get_num_threads() < 0:
        loader = DataLoader(data, batch_size=32, num_workers=2)
    model = Net()
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            output = model(x)
            loss = nn.functional.cross_entropy(output, y)
            loss.backward()
            optimizer.step()
    print("trained")


if __name__ == "__main__":
    main()
'''


def plant_fault(name: str, device: str) -> Planted:
    planted = plant(MUTATIONS[name], Site(parse(SCRIPT), 0.001, device))
    assert planted is not None, f"{name} does not apply"
    return planted


@pytest.mark.parametrize("fault", [*FAULTS, *DECOYS], ids=lambda fault: fault.name)
def test_every_mutation_changes_the_lines_that_it_says(fault: Plant) -> None:
    planted = plant_fault(fault.name, fault.devices[0])
    before, after = SCRIPT.splitlines(), planted.edited.text.splitlines()
    remaining = [row for number, row in enumerate(after, 1) if number not in planted.lines]
    changed = [row for row in before if row not in remaining]
    assert planted.lines
    assert len(after) - len(planted.lines) == len(before) - len(changed)
    assert all(row in before for row in remaining)
    for line in planted.around:
        assert any(word in after[line - 1] for word in ("for ", "DataLoader", "Adam", ".step("))


@pytest.mark.slow
def test_mutated_scripts_still_train(tmp_path: Path) -> None:
    runnable = [mutation for mutation in (*FAULTS, *DECOYS) if "cpu" in mutation.devices]
    slow = {"restarted-workers", "too-many-workers", "one-worker-of-items", "many-threads"}
    paths: list[str] = []
    for mutation in runnable:
        if mutation.name not in slow:
            path = tmp_path / f"{mutation.name}.py"
            path.write_text(plant_fault(mutation.name, "cpu").edited.text)
            paths.append(str(path))
    runner = (
        "import os, runpy, sys\n"
        "for path in sys.argv[1:]:\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        try:\n"
        "            runpy.run_path(path, run_name='__main__')\n"
        "            sys.stdout.flush()\n"
        "        except BaseException as error:\n"
        "            print(path, repr(error), file=sys.stderr, flush=True)\n"
        "            os._exit(1)\n"
        "        os._exit(0)\n"
        "    os.waitpid(child, 0)\n"
    )
    command = [
        sys.executable,
        "-c",
        f"import torch, torch._dynamo\ntorch.set_num_threads(1)\n{runner}",
        *paths,
    ]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert process.stdout.count("trained") == len(paths), process.stderr[-3000:]


def test_finds_the_step_also_behind_a_scaler() -> None:
    text = "for x in rows:\n    scaler.scale(loss).backward()\n    scaler.step(optimizer)\n"
    step = step_of(parse(text))
    assert step is not None
    assert (step.loss, step.optimizer, step.after.lineno) == ("loss", "optimizer", 3)


def test_splices_text_and_tells_its_lines() -> None:
    source = parse("a = f(\n    1,\n    2,\n)\nb = 3\n")
    assignment = source.tree.body[0]
    assert isinstance(assignment, ast.Assign)
    edited = apply(source, [Replacement(assignment.value, "g(1)"), Insertion(5, "c = 4\nd = 5")])
    assert edited.text.splitlines() == ["a = g(1)", "", "", "", "c = 4", "d = 5", "b = 3"]
    assert edited.lines == (1, 2, 3, 4, 5, 6)


def test_keeps_what_comes_by_double_star() -> None:
    text = SCRIPT.replace(
        "DataLoader(data, batch_size=32, pin_memory=False)", "DataLoader(data, **k)"
    )
    planted = plant(MUTATIONS["too-many-workers"], Site(parse(text), 0.001, "cpu"))
    assert planted is not None
    assert '**{**k, "num_workers": 12, "persistent_workers": False}' in planted.edited.text


@pytest.mark.parametrize(
    ("command", "size"),
    [
        ((), 128),
        (("train.py", "--batch-size", "16"), 16),
        (("train.py", "-b", "all"), 128),
    ],
)
def test_samples_of_a_batch_are_those_of_the_command_line(
    command: tuple[str, ...], size: int
) -> None:
    source = parse("parser.add_argument('--batch-size', default=128)\n")
    assert batch_of(Site(source, 0.01, "cpu", command)) == size


def test_what_ran_twice_is_not_tried_again() -> None:
    applies = {"a": ["x", "y", "z"], "b": ["x", "y"], "c": ["x"]}
    outcomes = {"a": {"x": "failed", "y": ""}, "b": {"x": "", "y": ""}}
    assert group_waiting(applies, outcomes) == [("z", ("a",)), ("x", ("c",))]


def test_each_fault_has_an_answer_and_no_decoy_has() -> None:
    assert len(FAULTS) >= 30
    assert len({mutation.family for mutation in FAULTS}) >= 20
    assert all(mutation.codes or mutation.fixes or mutation.at_line for mutation in FAULTS)
    assert not any(mutation.codes or mutation.fixes or mutation.at_line for mutation in DECOYS)


@pytest.mark.parametrize("mutations", [(), ("fp64",), ("fp64", "sync")])
def test_a_case_is_found_by_its_name(mutations: tuple[str, ...]) -> None:
    case = Case("siren", mutations, "cuda", "open")
    assert case_of_name(case.name, "open") == case


def test_no_family_and_no_repository_is_of_both_halves() -> None:
    families = {mutation.family for mutation in OPEN if not mutation.decoy}
    assert families.isdisjoint(mutation.family for mutation in SEALED if not mutation.decoy)
    repositories = {script.repo for script in scripts().values() if not script.sealed}
    assert repositories.isdisjoint(script.repo for script in scripts().values() if script.sealed)


def test_lists_at_least_forty_scripts_with_hashes() -> None:
    listed_scripts = scripts().values()
    assert len(listed_scripts) >= 40
    for script in listed_scripts:
        assert script.entry in script.files
        assert all(len(digest) in {32, 64} for digest in script.files.values())
        assert len(script.commit) == 40
        assert {entry.split(":")[0] for entry in script.data} <= MAKERS.keys()


def write_stranger(tmp_path: Path, text: str, data: tuple[str, ...] = ()) -> Script:
    folder = tmp_path / "sources" / "somebody" / "something"
    folder.mkdir(parents=True)
    (folder / "train.py").write_text(text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Script(
        "one", "somebody/something", "0" * 40, "train.py", {"train.py": digest}, data=data
    )


def test_refuses_a_file_with_other_bytes(tmp_path: Path) -> None:
    script = write_stranger(tmp_path, "print(1)\n")
    assert content(script, "train.py", tmp_path / "sources") == b"print(1)\n"
    (tmp_path / "sources/somebody/something/train.py").write_text("print(2)\n")
    with pytest.raises(FetchError, match="other bytes"):
        lay_out(script, tmp_path / "place", tmp_path / "sources")


def test_mends_only_what_occurs_as_often_as_declared() -> None:
    script = next(candidate for candidate in scripts().values() if candidate.name == "regression")
    text = b"if loss < 1e-3:\n    pass\n"
    assert b"if loss < -1.0:" in mend_file(script, script.entry, text)
    with pytest.raises(FetchError, match="0 times"):
        mend_file(script, script.entry, b"nothing of the kind")


def test_pictures_that_were_made_pass_for_those_of_their_checksums(tmp_path: Path) -> None:
    text = "from __future__ import division\nimport os\nimport json\n"
    script = write_stranger(tmp_path, text, ("cifar10:data",))
    mended = mend_file(script, "train.py", text.encode()).decode()
    assert mended.index("division") < mended.index("_check_integrity") < mended.index("import os")
    assert mended.count("_check_integrity") == 1
    assert mend_file(script, "train.py", mended.encode()).decode() == mended


HEALING = (
    ("torch.optim.Adam(m.parameters())", "torch.optim.Adam(m.parameters(), fused=True)"),
    ("SGD(p, 0.1, foreach=False)", "SGD(p, 0.1, foreach=False)"),
    ("RMSprop(p, 0.1)", "RMSprop(p, 0.1)"),
    ("SGD(p, **options)", "SGD(p, **options)"),
    ("DataLoader(data(), 64)", "DataLoader(prepared(data()), 64)"),
    ("DataLoader(dataset=d, batch_size=4)", "DataLoader(dataset=prepared(d), batch_size=4)"),
    ("DataLoader(d, num_workers=2)", "DataLoader(prepared(d), num_workers=2)"),
    ("DataLoader(d, **options)", "DataLoader(prepared(d), **options)"),
    ("DataLoader(*given)", "DataLoader(*given)"),
)


@pytest.mark.parametrize(("before", "after"), HEALING)
def test_a_script_is_healed_where_that_is_safe(before: str, after: str) -> None:
    lines = heal_script(f"import torch\nmade = {before}\n").splitlines()
    assert lines[-1] == f"made = {after}"
    imports = [row for row in lines if row.startswith("from prepared_samples import ")]
    assert bool(imports) is ("prepared" in after)
    assert all(f"{row.rsplit(maxsplit=1)[-1]}(" in after for row in imports)


def truth_of_starts(first_s: float, second_s: float) -> dict[str, Any]:
    return {
        "low": 1.18,
        "mid": 1.2,
        "high": 1.22,
        "verdict": "faulty",
        "healthy_s": [1.0] * 4,
        "planted_s": [first_s, first_s, second_s, second_s],
        "starts": [0, 0, 1, 1],
    }


def test_two_starts_widen_an_interval() -> None:
    assert truth.spread_of_starts([truth_of_starts(1.2, 1.2)] * 9) is None
    spread = truth.spread_of_starts([truth_of_starts(1.2, 1.3)] * 10)
    assert spread == pytest.approx(math.log(1.3 / 1.2) / 0.6745 / math.sqrt(2))
    of_four = {"healthy_s": [1.0] * 4, "planted_s": [1.2, 1.3, 1.2, 1.3], "starts": [0, 1, 2, 3]}
    assert truth.spread_of_starts([of_four] * 5) == pytest.approx(spread)
    widened = truth.with_starts(truth_of_starts(1.1, 1.3), spread)
    assert widened["mid"] == pytest.approx(math.sqrt(1.1 * 1.3))
    assert widened["low"] < 1.11
    assert widened["high"] > 1.29
    today = truth.with_starts(truth_of_starts(1.1, 1.3), None)
    assert widened["low"] < today["low"] < 1.18  # not what was kept
    single_start = {"low": 1.1, "mid": 1.2, "high": 1.3, "healthy_s": [1.0], "planted_s": [1.2]}
    assert truth.with_starts(single_start, spread) == single_start


PROOFS: tuple[tuple[dict[str, Any], str], ...] = (
    ({}, "open"),
    ({"fused": {"verdict": "smaller", "speedup": {"high": 1.04}}}, "true"),
    ({"fused": {"verdict": "confirmed", "speedup": {"high": 1.3}}}, "true"),
    ({"fused": {"verdict": "undecided", "speedup": {"high": 1.3}}}, "open"),
    ({"fused": {"verdict": "nothing", "speedup": {"high": 1.01}}}, "false"),
    ({"fused": {"verdict": "failed", "speedup": None}}, "open"),
    ({"other": {"verdict": "confirmed", "speedup": {"high": 1.3}}}, "open"),
)


@pytest.mark.parametrize(("proofs", "proof"), PROOFS)
def test_an_alarm_is_one_only_where_no_trial_proves_it(proofs: dict[str, Any], proof: str) -> None:
    control = case_record("control", [], None) | {"proofs": proofs}
    named = finding("G204", 12, helps=["fused", "foreach"])
    judged = judging.judge_case(control, {"findings": [named]})
    assert judged.proof == proof
    assert judging.figures([judged])["alarms_proved"][proof] == 1
    assert judging.judge_case(control, {"findings": []}).proof == ""


def test_a_cause_that_only_rewriting_removes_is_proved_by_the_ceilings_of_its_room() -> None:
    assert outcomes.proof_edits(finding("G107", 12)) == ("cached-batch",)
    assert outcomes.proof_edits(finding("G204", 12, helps=["fused"])) == ("fused",)
    assert outcomes.proof_edits(finding("G202", 12)) == ()
    assert outcomes.proof_edits(finding("G302", 12)) == ("cached-batch-on-device",)
    assert outcomes.proof_edits(finding("G305", 12)) == ()  # batches on the device leave its reads


REMOVED = """for step in range(3):
    loss = model(x)
    if step % 2 == 0:
        log = loss
        print(
            log)
    loss.backward()
    total += loss.item()
"""
CONDITION = "if step % 2 == 0:\n        log = loss\n        print(\n            log)"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (2, None),  # it defines a name
        (3, REMOVED.replace(CONDITION, "pass\n\n\n")),
        (4, None),
        (6, REMOVED.replace("print(\n            log)", "pass\n")),
        (7, None),  # it trains
        (1, None),
        (8, REMOVED.replace("total += loss.item()", "pass")),
        (9, None),
    ],
)
def test_a_statement_is_taken_out_and_the_others_keep_their_lines(
    line: int, expected: str | None
) -> None:
    assert remove_statement(REMOVED, line) == expected


@pytest.mark.parametrize(
    ("removal", "outcome"),
    [
        (None, "open"),
        ({"low": 1.1, "mid": 1.2, "high": 1.3, "verdict": "faulty"}, "true"),
        ({"low": 0.99, "mid": 1.0, "high": 1.01, "verdict": "sound"}, "false"),
        ({"low": 0.9, "mid": 1.1, "high": 1.3, "verdict": "undecided"}, "open"),
    ],
)
def test_a_line_that_was_taken_out_proves_a_cause(
    removal: dict[str, Any] | None, outcome: str
) -> None:
    if removal is not None:
        removal = removal | {"healthy_s": (), "planted_s": ()}
    control = case_record("control", [], None) | {"removal": removal}
    assert judging.judge_case(control, {"findings": [finding("G202", 12)]}).proof == outcome


def test_what_was_measured_proves_no_other_cause_that_is_named_today() -> None:
    removal = {"low": 1.1, "mid": 1.2, "high": 1.3, "verdict": "faulty"}
    control = case_record("control", [], None) | {
        "removal": removal | {"healthy_s": (), "planted_s": ()},
        "removal_of": {"code": "G202", "file": "train.py"},
    }
    for code, outcome in (("G202", "true"), ("G219", "open")):
        named = finding(code, 12) | {"where": {"file": "train.py", "line": 12}}
        assert judging.judge_case(control, {"findings": [named]}).proof == outcome


def test_a_decoy_is_named_by_its_own_lines_alone() -> None:
    decoy = case_record("decoy", ["decoy-clock-read"], "sound", 1.0)
    for line, names_decoy in ((31, True), (32, False)):
        judged = judging.judge_case(decoy, {"findings": [finding("G202", line)]})
        assert judged.names_decoy == names_decoy
        assert judging.figures([judged])["decoys_named"]["count"] == names_decoy
    control = judging.judge_case(
        case_record("control", [], None), {"findings": [finding("G202", 31)]}
    )
    assert judging.figures([control])["alarms_false"]["count"] == 0


def test_a_sound_case_of_which_no_step_was_seen_is_no_evidence(tmp_path: Path) -> None:
    answers = tmp_path / "open" / "answers"
    answers.mkdir(parents=True)
    control, fault = (
        case_record("control", [], None),
        case_record("fault", ["python-loop"], "faulty"),
    )
    for name, row, n_steps in (("a", control, None), ("b", control, 90), ("c", fault, None)):
        (tmp_path / "open" / f"{name}.json").write_text(json.dumps(row))
        (answers / f"{name}.json").write_text(json.dumps({"findings": [], "steps": n_steps}))
    judged, left_out = judging.collect(tmp_path, "open")
    assert [case.kind for case in judged] == ["control", "fault"]
    assert left_out == {"failed": 0, "unanswered": 0, "sound_without_steps": 1}


def test_a_decoy_is_sound_unless_it_was_measured_to_cost() -> None:
    for verdict, truth_of_it in (("undecided", "sound"), ("sound", "sound"), ("faulty", "faulty")):
        decoy = case_record("decoy", ["decoy-clock-read"], verdict, 1.03)
        assert judging.judge_case(decoy, {"findings": []}).truth == truth_of_it
    fault = case_record("fault", ["python-loop"], "undecided")
    assert judging.judge_case(fault, {"findings": []}).truth == "undecided"


def test_cases_are_of_one_side_and_widespread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = write_stranger(tmp_path, SCRIPT)
    monkeypatch.setattr("benchmarks.planted.cases.scripts", lambda: {"one": script})
    planted_cases = cases("open", "cpu", tmp_path / "sources", 40)
    assert planted_cases == cases("open", "cpu", tmp_path / "sources", 40)
    planted = {MUTATIONS[name] for case in planted_cases for name in case.mutations}
    assert planted <= set(OPEN)
    assert {case.kind for case in planted_cases} == {"fault", "pair", "decoy", "control"}
    assert not cases("unseen", "cpu", tmp_path / "sources", 40)


def pairs(healthy: Sequence[float], planted: Sequence[float]) -> list[truth.Pair]:
    return [truth.Pair(a, b, 0.0) for a, b in zip(healthy, planted, strict=True)]


@pytest.mark.parametrize(
    ("healthy", "planted", "verdict"),
    [
        ((1.0, 1.2, 1.1), (1.5, 1.8, 1.66), "faulty"),  # the machine drifts, the ratio does not
        ((1.0, 1.001, 1.002, 1.0), (1.001, 1.0, 1.002, 1.001), "sound"),
        ((1.0, 1.2), (1.3, 1.1), "undecided"),
        ((1.0, 1.001), (1.035, 1.036), "undecided"),  # surely something, and too little for a bar
    ],
)
def test_a_verdict_is_read_from_the_interval(
    healthy: tuple[float, ...], planted: tuple[float, ...], verdict: str
) -> None:
    assert truth.verdict(*truth.interval(pairs(healthy, planted))) == verdict


def test_what_a_fault_costs_in_each_eighth_step_counts_in_full_in_turns_of_one_step() -> None:
    rows = pairs([1.0] * 8, [1.0] * 7 + [9.0])
    low, mid, high = truth.interval(rows)
    assert mid == pytest.approx(2.0)  # the mean of the ratios' logarithms is 1.32
    assert low < 1.32 < high
    kept = {
        "starts": (0,) * 8,
        "healthy_s": [pair.healthy_s for pair in rows],
        "planted_s": [pair.planted_s for pair in rows],
    }
    both = truth.with_starts(kept | {"low": low, "high": high}, 0.01)
    assert both["mid"] == pytest.approx(2.0)


def test_a_side_is_timed_by_a_clock_that_stands_still_while_it_is_stopped() -> None:
    turns = [(10.0, 11.0), (20.0, 21.0)]
    marks = [10.25, 10.5, 10.75, 20.25, 20.5, 20.75]  # one step lies across the pause
    times = own_time(marks, turns)
    assert times == pytest.approx([0.25, 0.5, 0.75, 1.25, 1.5, 1.75])


def test_pairs_are_left_out_for_what_others_took_whatever_they_measured() -> None:
    calm_pairs = [truth.Pair(1.0, 1.1, 0.02) for _ in range(4)]
    disturbed, fast = truth.Pair(1.0, 1.1, 0.4), truth.Pair(1.0, 9.0, 0.02)
    assert truth.drop_disturbed([*calm_pairs, disturbed, fast]) == [*calm_pairs, fast]
    assert (
        truth.drop_disturbed([disturbed] * 8 + calm_pairs) == calm_pairs
    )  # most of them, and still not usual
    assert (
        len(truth.drop_disturbed([disturbed, *calm_pairs[:3]])) == 4
    )  # else too few would be left


@pytest.mark.parametrize(("threads", "n_threads"), [(0, "2"), (1, "1")])
def test_a_lane_may_leave_a_processor_to_others(
    tmp_path: Path, threads: int, n_threads: str
) -> None:
    lane = Lane(0, (0, 1), "cpu", tmp_path, threads)
    assert lane.environment(TRAINING, tmp_path)["OMP_NUM_THREADS"] == n_threads
    assert recorder(lane)["lane_threads"] == int(n_threads)


@pytest.mark.parametrize(("visible", "gpu"), [("2,3", "3"), ("2", "1"), ("", "1")])
def test_a_lane_has_a_gpu_of_those_that_are_visible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str, gpu: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    lane = Lane(0, (0, 1), "cuda", tmp_path, gpu=1)
    assert lane.environment(TRAINING, tmp_path)["CUDA_VISIBLE_DEVICES"] == gpu


def test_a_pair_waits_until_others_leave_the_processors_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shares = iter((0.5, 0.9, 0.02, 0.5))
    monkeypatch.setattr(truth._CalmWait, "_share", lambda _: next(shares))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage, reportUnknownLambdaType, reportUnknownArgumentType]
    calm = truth._CalmWait((0,), 60.0)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    waited_s = calm.wait(math.inf)
    assert next(shares) == 0.5  # it looked three times
    assert calm.patience_s == 60.0 - waited_s


@pytest.mark.parametrize(("patience_s", "until"), [(60.0, 0.0), (0.0, math.inf)])
def test_a_machine_that_is_never_calm_is_measured_as_it_is(patience_s: float, until: float) -> None:
    assert truth._CalmWait((0,), patience_s).wait(until) < 1.0  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("seconds", "steps"),
    [
        ((0.010, 0.011), 100),  # a second of the faster side
        ((0.010, 1.0), 7),  # eight pairs within the limit
        ((3.0, 5.0), 1),
    ],
)
def test_a_turn_has_fewer_steps_where_they_are_slow(
    seconds: tuple[float, float], steps: int
) -> None:
    assert truth.steps_of_a_turn(seconds, 1.0, 60.0) == steps


def test_a_stream_is_read_as_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "stream"
    stream = Stream(path)
    assert not stream.has_stepped(3, (2, 3.0))
    path.write_bytes(struct.pack("<Bd", 0, 1.0) + struct.pack("<Bd", 1, 1.5) + b"half")
    assert stream.refresh() == 1
    with path.open("r+b") as file:
        file.truncate(18)
        file.seek(0, 2)
        file.write(struct.pack("<Bd", 0, 4.0))
    assert stream.has_stepped(3, (2, 3.0))  # few steps, slow ones
    assert not stream.has_stepped(3, (2, 3.5))
    assert (stream.step_s(0), stream.marks[1]) == (3.0, [1.5])


def test_what_a_session_uses_is_not_foreign() -> None:
    before = foreign_s(os.getsid(0), ())
    total_s = foreign_s(-1, ())
    assert 0.0 <= before <= total_s


def test_a_kernel_that_counts_less_than_was_used_tells_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(steps, "busy_s", Mock(return_value=0.01))
    monkeypatch.setattr(steps, "_own_ticks", Mock(return_value=4443))
    assert foreign_s(os.getsid(0), ()) == 0.0


TRAINING = Script("two", "o/r", "0" * 40, "train.py", {"train.py": ""})


@pytest.mark.slow
def test_two_scripts_are_measured_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(truth._TURN_S, "cpu", 0.1)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(truth, "_MAX_CALM_SHARE", math.inf)
    lane = Lane(0, (), "cpu", tmp_path)
    text = "import torch\np = torch.nn.Parameter(torch.ones(1))\n"
    text += "o = torch.optim.SGD([p], 0.1)\nimport time\n"
    loop = "while True:\n    end = time.thread_time() + {}\n"
    loop += "    while time.thread_time() < end: pass\n    p.grad = p.detach()\n    o.step()\n"
    sides: list[Callable[[], Live]] = []
    for name, step_s in (("healthy", 0.01), ("planted", 0.04)):
        root = tmp_path / name
        root.mkdir()
        (root / "train.py").write_text(text + loop.format(step_s))
        sides.append(partial(Live, TRAINING, root, lane, name))
    measured = truth.measure_truth(
        sides[0], sides[1], ("cpu", contextlib.nullcontext()), truth.Limits(40, 300.0, 300.0)
    )
    assert measured.verdict == "faulty"
    assert 1.5 < measured.mid < 10.0
    assert measured.steps >= 1
    assert set(measured.starts) == {0, 1}
    assert len(measured.starts) == len(measured.healthy_s) == len(measured.planted_s)


def finding(
    code: str,
    line: int | None,
    file: str = "train.py",
    speedup: Mapping[str, float] | None = None,
    helps: Sequence[str] = (),
) -> dict[str, Any]:
    location = None if line is None else {"file": file, "line": line}
    return {"code": code, "where": location, "helps": helps, "speedup": speedup}


PLANTED = {"mutation": "python-loop", "file": "src/train.py", "lines": [31], "around": [26]}
SLOW = {"mutation": "sleep-in-item", "file": "train.py", "lines": [9, 12], "around": [20, 26]}


@pytest.mark.parametrize(
    ("row", "planting", "right"),
    [
        (finding("G202", 31), PLANTED, True),
        (finding("G999", 32), PLANTED, True),  # whatever its name, it shows the line
        (finding("G202", 90), PLANTED, False),
        (finding("G202", 31, file="other.py"), PLANTED, False),
        (finding("G202", None), PLANTED, True),
        (finding("G101", 20), SLOW, True),
        (finding("G999", 20, helps=["more-workers"]), SLOW, True),
        (finding("G205", 12), SLOW, False),
        (finding("G101", 77), SLOW, False),
    ],
)
def test_what_names_a_fault(row: dict[str, Any], planting: dict[str, Any], right: bool) -> None:
    assert bool(judging.is_right(row, planting)) is right


def case_record(
    kind: str, mutations: list[str], verdict: str | None, mid: float = 1.5
) -> dict[str, Any]:
    case = {"script": "one", "mutations": mutations, "device": "cpu", "half": "open", "kind": kind}
    measured = (
        None if verdict is None else {"low": mid, "mid": mid, "high": mid, "verdict": verdict}
    )
    rows = [PLANTED | {"mutation": name} for name in mutations]
    return {"case": case, "truth": measured, "planted": rows}


def test_figures_count_what_was_said() -> None:
    price = {"low": 1.2, "mid": 1.6, "high": 1.9}
    right_finding = finding("G202", 31, speedup=price)
    wrong_finding = finding("G205", 70)
    judged = [
        judging.judge_case(
            case_record("fault", ["python-loop"], "faulty"), {"findings": [right_finding]}
        ),
        judging.judge_case(
            case_record("fault", ["python-loop"], "faulty"),
            {"findings": [wrong_finding, right_finding]},
        ),
        judging.judge_case(
            case_record("fault", ["python-loop"], "faulty"), {"to_try": [right_finding]}
        ),
        judging.judge_case(case_record("fault", ["python-loop"], "undecided"), {"findings": []}),
        judging.judge_case(
            case_record("decoy", ["decoy-clock-read"], "sound", 1.0), {"findings": [wrong_finding]}
        ),
        judging.judge_case(case_record("control", [], None), {"findings": []}),
    ]
    figures = judging.figures(judged)
    assert figures["first"] == {"count": 1, "of": 3, "share": 1 / 3}
    assert figures["first_three"]["count"] == 2
    assert figures["first_with_trials"]["count"] == 2
    assert figures["nothing_named"]["count"] == 1
    assert (figures["alarms"]["count"], figures["alarms"]["of"]) == (1, 1)
    assert (figures["alarms_controls"]["count"], figures["alarms_controls"]["of"]) == (0, 1)
    assert figures["undecided"] == 1
    assert figures["gain_error_points"] == pytest.approx(100 * abs((1 - 1 / 1.6) - (1 - 1 / 1.5)))
    assert figures["covered"]["count"] == 2
    assert figures["touch_truth"]["count"] == 2
    assert (
        figures["gain_error_points_beyond_truth"] == figures["gain_error_points"]
    )  # truths of no width


def test_a_price_is_held_against_the_interval_of_the_truth_too() -> None:
    wide = case_record("fault", ["python-loop"], "faulty")
    wide["truth"] |= {"low": 1.25, "mid": 2.0, "high": 4.0}
    price = {"low": 1.1, "mid": 1.2, "high": 1.3}
    figures = judging.figures(
        [judging.judge_case(wide, {"findings": [finding("G202", 31, speedup=price)]})]
    )
    assert figures["covered"]["count"] == 0
    assert figures["touch_truth"]["count"] == 1
    excess_points = 100 * ((1 - 1 / 1.25) - (1 - 1 / 1.2))
    assert figures["gain_error_points_beyond_truth"] == pytest.approx(excess_points)


def test_a_case_is_named_by_what_it_is() -> None:
    assert Case("mnist", (), "cpu", "open").name == "mnist--control--cpu"
    assert Case("mnist", ("python-loop",), "cuda", "open").kind == "fault"


def test_a_script_whose_files_are_missing_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = write_stranger(tmp_path, SCRIPT)
    monkeypatch.setattr("benchmarks.planted.cases.scripts", lambda: {"one": script})
    assert not cases("open", "cpu", tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("again", "failed", "undecided"),
    [
        (set[str](), {"failed": "x", "step_s": 1}, {"truth": {"verdict": "undecided"}}),
        ({"failed"}, {"step_s": 1}, {"truth": {"verdict": "undecided"}}),
        ({"undecided"}, {"failed": "x", "step_s": 1}, dict[str, Any]()),
    ],
)
def test_what_is_done_again(again: set[str], failed: object, undecided: object) -> None:
    options = PlantOptions(None, Path(), redo=frozenset(again))
    assert drop_outdated({"failed": "x", "step_s": 1}, options) == failed
    assert drop_outdated({"truth": {"verdict": "undecided"}}, options) == undecided


def test_a_wide_truth_goes_on_where_it_ended() -> None:
    earlier = truth_of_starts(1.0, 1.4)
    kept = {"truth": earlier, "recorded": True}
    options = PlantOptions(None, Path(), redo=frozenset({"wide"}), half_width=0.04)
    wide = drop_outdated(kept, options)
    assert wide == {"earlier": earlier, "recorded": True}
    assert drop_outdated(kept, replace(options, half_width=10.0)) == kept
    later = truth.Truth(
        *(1.1, 1.2, 1.3, "faulty"),
        healthy_s=(1.0,) * 4,
        planted_s=(1.2,) * 4,
        starts=(0, 0, 1, 1),
        steps=5,
        left_out=0,
        foreign=0.0,
        spent_s=9.0,
    )
    joined = truth.joined(earlier | {"left_out": 1, "spent_s": 1.0}, later)
    assert joined["starts"] == (0, 0, 1, 1, 2, 2, 3, 3)
    assert len(joined["healthy_s"]) == 8
    assert (joined["left_out"], joined["spent_s"]) == (1, 10.0)
    assert truth.half_width(joined) < truth.half_width(earlier)
    assert truth.difference_of_occasions([earlier]) is None
    without_gain = truth.joined(later.plain(), replace(later, planted_s=(1.0,) * 4))
    difference = truth.difference_of_occasions([without_gain, earlier])
    assert difference == {"points": pytest.approx(100 * (1 - 1 / 1.2)), "cases": 1}
    without_first_start = without_gain | {"starts": (1, 1, 1, 1, 2, 2, 3, 3)}
    assert truth.difference_of_occasions([without_first_start]) == difference


def test_truths_of_too_few_occasions_go_on_by_turns_with_others(tmp_path: Path) -> None:
    one, again = truth_of_starts(1.0, 1.4), truth_of_starts(1.0, 1.4) | {"occasions": (0, 2)}
    truths = {"a": None, "b": one, "c": again, "d": one}
    order = [Case(name, ("python-loop",), "cpu", "open") for name in (*truths, "e")]
    (tmp_path / "open").mkdir()
    for case in order[:-1]:
        document = {"truth": truths[case.script], "recorded": True}
        (tmp_path / "open" / f"{case.name}.json").write_text(json.dumps(document))
    turns = alternate(order, PlantOptions(None, tmp_path, occasions=2))
    assert "".join(case.script for case in turns) == "badce"
    assert alternate(order, PlantOptions(None, tmp_path)) == order
    document = {"truth": again}
    assert drop_outdated(document, PlantOptions(None, tmp_path, occasions=2)) == document
    options = PlantOptions(None, tmp_path, occasions=3)
    assert drop_outdated(document, options)["earlier"] == again
    failed = document | {"failed": "x", "recorded": True}
    assert drop_outdated(failed, options) == failed
    assert drop_outdated(failed, replace(options, redo=frozenset({"failed"}))) == {"earlier": again}


def test_sound_cases_are_put_off_beyond_their_share() -> None:
    kinds = {"f": ("python-loop",), "c": ()}
    order = [Case(str(index), kinds[kind], "cpu", "open") for index, kind in enumerate("cfcfcfcf")]
    assert put_sound_off(order, 1.0) == order
    mixed = put_sound_off(order, 0.34)
    assert "".join(case.kind[0] for case in mixed) == "ffcffccc"
    assert [case.script for case in mixed if case.kind == "control"] == ["0", "2", "4", "6"]


def test_no_case_is_begun_that_would_not_be_done_in_time(tmp_path: Path) -> None:
    options = PlantOptions(None, tmp_path, end=time.monotonic() + 300.0)
    assert options.may_begin("fault", "cpu")
    late_options = PlantOptions(None, tmp_path, end=time.monotonic() + 100.0)
    assert late_options.may_begin("control", "cpu")
    assert not late_options.may_begin("fault", "cpu")
    assert late_options.limits("cpu").at_most < options.limits("cpu").at_most < 300.0


def test_a_patch_goes_on_until_what_follows() -> None:
    assert Patch("a", "b", "x", until="d").apply(b"abcde") == b"axde"
    assert Patch("a", "b", "x", until="$").apply(b"abcde") == b"ax"
    with pytest.raises(FetchError, match="no 'a' behind 'b'"):
        Patch("a", "b", "x", until="a").apply(b"abcde")


def test_lanes_hold_whole_cores(tmp_path: Path) -> None:
    for processor in range(6):
        folder = tmp_path / f"cpu{processor}" / "topology"
        folder.mkdir(parents=True)
        first = processor % 3
        (folder / "thread_siblings_list").write_text(f"{first},{first + 3}\n")
    assert whole_cores(range(6), tmp_path) == [0, 3, 1, 4, 2, 5]
    assert whole_cores((1, 0), tmp_path / "none") == [0, 1]


def test_the_result_names_the_machine_that_recorded(tmp_path: Path) -> None:
    side = tmp_path / "open"
    (side / "answers").mkdir(parents=True)
    for name, machine in (("a", {"processor": "EPYC"}), ("b", {"processor": "EPYC"}), ("c", None)):
        document = case_record("control", [], None) | {"recorded": True}
        document |= {} if machine is None else {"recorder": machine}
        (side / f"{name}.json").write_text(json.dumps(document))
        (side / "answers" / f"{name}.json").write_text(json.dumps({"findings": []}))
    result = judging.result(tmp_path, ["open"], tmp_path / "none.json", {"processor": "other"})
    row = result["halves"]["open"]
    assert (row["truths"], row["truths_with_stops"]) == (0, 0)
    assert row["asked_on"] == {"processor": "other"}
    assert row["recorded_on"] == [
        {"recordings": 2, "machine": {"processor": "EPYC"}},
        {"recordings": 1, "machine": {"unknown": True}},
    ]


def test_the_result_counts_truths_and_those_with_a_stop(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    for name, stopped in (("a", {"stopped": 1}), ("b", {"stopped": 0}), ("c", {})):
        document = case_record("fault", [], "faulty") | {"truth": truth_of_starts(1.2, 1.3)}
        document["truth"] |= stopped
        (tmp_path / "open" / f"{name}--cpu.json").write_text(json.dumps(document))
    result = judging.result(tmp_path, ["open"], tmp_path / "none.json", {})
    row = result["halves"]["open"]
    assert (row["truths"], row["truths_with_stops"]) == (3, 1)


@pytest.mark.parametrize(
    ("line", "before", "after"),
    [
        (2, "    loss = model(x)", "    (model(x))\n    loss = model(x)"),
        (5, "        print(", "        (print(\n            log))\n        print("),
        (7, "", ""),  # it trains
        (1, "", ""),
    ],
)
def test_what_a_statement_does_is_done_twice(line: int, before: str, after: str) -> None:
    expected = REMOVED.replace(before, after, 1) if before else None
    assert repeat_statement(REMOVED, line) == expected
