"""One case: recorded, its menu resolved and measured, both kept."""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from msgspec import structs

from benchmarks import machine
from benchmarks.menus.blocks import BASE, Block, gain, noise, smallest_seen
from benchmarks.menus.recording import (
    ROOT,
    RecordingError,
    command,
    hide_machine,
    keep,
    record,
    remove,
)
from benchmarks.menus.resolve import UNEDITED, ResolvedLine, resolve_menu
from benchmarks.menus.sources import ZOO
from gapless.model.estimate import Estimate
from gapless.model.facts import Facts
from gapless.recorded.facts import facts
from gapless.store.run.recordings import load
from tests.zoo.cases import Case
from tests.zoo.menus import CEILING

VERSION: Final = 1
MIN_GAIN: Final = 0.02  # a gain that counts
MIN_STEPS: Final = 20  # steps of a recorded run
IN_WORKERS: Final = frozenset({"worker-threads"})  # parts whose effect is counted there
MIN_ROUNDS: Final = 3  # rounds that make a menu
_START_S: Final = 90.0  # a process that measures may take so long until it begins, and to end
Progress = Callable[[str], None]


class MeasuringError(Exception):
    """A case could not be measured."""


@dataclass(frozen=True)
class MeasureOptions:
    """How the cases are measured, and where the records go."""

    device: str
    out: Path
    work_folder: Path  # for what is in the making
    rounds: int
    block_s: float
    limit_s: float
    recorded_s: float
    source: str = ZOO  # of the cases


def measure_case(case: Case, options: MeasureOptions, report_progress: Progress) -> str:
    """Record and measure a case; give a line that tells its result. Raises ``MeasuringError``."""
    work_folder = options.work_folder / case.name
    work_folder.mkdir(parents=True)
    report_progress("recording")
    try:
        run = record(case, options.device, options.recorded_s, work_folder, options.source)
    except (RecordingError, subprocess.TimeoutExpired) as error:
        raise MeasuringError(str(error)) from error
    run_facts = facts(load(run))
    if run_facts.world.steps < MIN_STEPS:
        raise MeasuringError(f"{run_facts.world.steps} steps were recorded: too few")
    menu = resolve_menu(case, run_facts)
    measurements = _measure_in_process(case, options, menu, work_folder, report_progress)
    folder = options.out / case.name
    folder.mkdir(parents=True, exist_ok=True)
    left_out = keep(run, folder / "run.tar.zst")
    summary = _write_menu(_menu_document(case, options, menu, measurements, left_out), folder)
    remove(work_folder)
    return summary


def measure_menu(
    case: Case, options: MeasureOptions, run_facts: Facts, report_progress: Progress
) -> str:
    """Measure a case that was recorded before; give a line that tells its result.

    Raises ``MeasuringError``.
    """
    work_folder = options.work_folder / case.name
    work_folder.mkdir(parents=True)
    menu = resolve_menu(case, run_facts)
    measurements = _measure_in_process(case, options, menu, work_folder, report_progress)
    summary = _write_menu(
        _menu_document(case, options, menu, measurements, ()), options.out / case.name
    )
    remove(work_folder)
    return summary


def _write_menu(document: dict[str, Any], folder: Path) -> str:
    """Write a menu; with it, the case is done."""
    unfinished = folder / "menu.json.part"
    unfinished.write_bytes(hide_machine(json.dumps(document).encode()) + b"\n")
    unfinished.rename(folder / "menu.json")
    return _summarize(document)


def _measure_in_process(
    case: Case,
    options: MeasureOptions,
    menu: tuple[ResolvedLine, ...],
    work_folder: Path,
    report_progress: Progress,
) -> dict[str, Any]:
    """Let a process of its own measure the menu, passing on what it says."""
    plan = {
        "case": case.name,
        "source": options.source,
        "device": options.device,
        "sides": [UNEDITED, *(line.side() for line in menu)],
        "rounds": options.rounds,
        "most_rounds": options.rounds + 1,
        "block_s": options.block_s,
        "limit_s": options.limit_s,
    }
    text = json.dumps(plan).replace('"/project/', f'"{ROOT}/')  # of a run that is kept already
    (work_folder / "plan.json").write_text(text)
    start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(case.ranks)]
    measure = [
        "-m",
        "benchmarks.menus.measure",
        str(work_folder / "plan.json"),
        str(work_folder / "out.json"),
    ]
    line = [sys.executable, *(start if case.ranks > 1 else []), *measure]
    with (
        (work_folder / "errors").open("w+") as errors,
        subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True) as child,
    ):
        end = time.monotonic() + options.limit_s + _START_S
        for text in _lines_until(child, end):
            report_progress(text)
        child.terminate()
    if not (work_folder / "out.json").exists():
        raise MeasuringError((work_folder / "errors").read_text()[-3000:])
    measurements = json.loads((work_folder / "out.json").read_text())
    rounds = sum(block["side"] == BASE for block in measurements["blocks"]) - 1
    if rounds < MIN_ROUNDS:
        raise MeasuringError(f"{rounds} rounds within {options.limit_s:g} s: too few")
    return measurements


def _lines_until(child: "subprocess.Popen[str]", end: float) -> Iterator[str]:
    """Return the lines that a process prints, until it ends or its time is over."""
    if child.stdout is None:
        return
    os.set_blocking(child.stdout.fileno(), False)
    while child.poll() is None and time.monotonic() < end:
        yield from (text.rstrip() for text in child.stdout)
        time.sleep(0.2)


def _menu_document(
    case: Case,
    options: MeasureOptions,
    menu: tuple[ResolvedLine, ...],
    measurements: Mapping[str, Any],
    left_out: tuple[str, ...],
) -> dict[str, Any]:
    """Put a case and what was measured of it into the form that is kept."""
    blocks = [Block(**block) for block in measurements["blocks"]]
    base = [block.step_ns for block in blocks if block.side == BASE]
    menu_lines = [_line(line, blocks, measurements) for line in menu]
    has_one_rank = case.ranks == 1
    return {
        "version": VERSION,
        "case": case.name,
        "family": case.family,
        "size": case.size,
        "kind": case.kind,
        "planted": list(case.planted),
        "truth": menu_truth(menu_lines),
        "options": dict(case.options),
        "ranks": case.ranks,
        "seed": 0,
        "command": [
            "python",
            *command(case, options.device, options.recorded_s, options.source)[1:],
        ],
        "run": "run.tar.zst",
        "windows_left_out": list(left_out),
        "machine": {
            **machine.machine(),
            "torch": measurements["torch"],
            "threads": measurements["threads"],
            "device": measurements["device"],
            "host_kind": platform.machine() if has_one_rank else f"{platform.machine()}, one host",
        },
        "measured_unix_s": round(time.time()),
        "spent_s": measurements["spent_s"],
        "block_s": options.block_s,
        "step_ns": round(median(base)),
        "noise": noise(blocks),
        "menu": menu_lines,
        "blocks": [asdict(block) for block in blocks],
        "repeated": [],
    }


def _line(
    line: ResolvedLine, blocks: list[Block], measurements: Mapping[str, Any]
) -> dict[str, Any]:
    name = line.choice.name
    failed = measurements["failed"].get(name) or _no_effect_reason(
        line, measurements["effects"].get(name)
    )
    speedup = None if failed else gain(blocks, name)
    times = [block.step_ns for block in blocks if block.side == name]
    return {
        "name": name,
        "role": line.choice.role,
        "fix": line.choice.fix,
        "variant": line.choice.variant,
        "edits": list(line.edits),
        "summary": line.summary,
        "refused": line.refused,
        "speedup": None if speedup is None else structs.asdict(speedup),
        "smallest_seen": None if speedup is None else round(smallest_seen(speedup), 4),
        "step_ns": round(median(times)) if times else None,
        "took_effect": measurements["effects"].get(name),
        "failed": failed,
    }


def _no_effect_reason(line: ResolvedLine, effects: list[int] | None) -> str | None:
    """Say that edits changed nothing, where that would have been counted: not in workers."""
    in_workers = any(edit.get("part") in IN_WORKERS for edit in line.edits)
    if not line.edits or not effects or in_workers or any(effects):
        return None
    return "its edits took no effect"


def menu_truth(menu: list[dict[str, Any]]) -> str:
    """Say what a menu has shown: "faulty" if something on it is worth 2 %, "sound" if nothing is.

    Ceilings are no remedies. Where an interval leaves it open: "undecided".
    """
    estimates = [
        Estimate(**line["speedup"])
        for line in menu
        if line["role"] != CEILING and line["speedup"] is not None
    ]
    if any(estimate.low > 1 + MIN_GAIN for estimate in estimates):
        return "faulty"
    if estimates and all(estimate.high < 1 + MIN_GAIN for estimate in estimates):
        return "sound"
    return "undecided"


def _summarize(document: Mapping[str, Any]) -> str:
    """Return the result of a case in a line."""
    parts = [f"{document['truth']}, {document['step_ns'] / 1e6:.2f} ms a step"]
    for line in document["menu"]:
        speedup = line["speedup"]
        if speedup is None:
            parts.append(f"{line['name']} {line['failed'] or 'not measured'}")
        else:
            half = (speedup["high"] - speedup["low"]) / 2
            parts.append(f"{line['name']} ×{speedup['mid']:.3f} ±{half:.3f}")
    return ", ".join(parts)
