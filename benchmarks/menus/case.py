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

from benchmarks import machine
from benchmarks.menus.blocks import BASE, Block, gain, noise, smallest_seen
from benchmarks.menus.recording import ROOT, RecordingError, command, hidden, keep, record, remove
from benchmarks.menus.resolve import UNEDITED, Line, lines
from benchmarks.menus.sources import ZOO
from gapless.model.facts import Facts
from gapless.model.interval import Interval
from gapless.store.recordings import load
from gapless.study.recorded.facts import facts
from tests.zoo.cases import Case
from tests.zoo.menus import CEILING

VERSION: Final = 1
WORTH: Final = 0.02  # a gain that counts
FEWEST: Final = 20  # steps of a recorded run
IN_WORKERS: Final = frozenset({"worker-threads"})  # parts whose effect is counted there
LEAST: Final = 3  # rounds that make a menu
_START_S: Final = 90.0  # a process that measures may take so long until it begins, and to end
Say = Callable[[str], None]


class MeasuringError(Exception):
    """A case could not be measured."""


@dataclass(frozen=True)
class Asked:
    """How the cases are measured, and where the records go."""

    device: str
    out: Path
    place: Path  # for what is in the making
    rounds: int
    block_s: float
    limit_s: float
    recorded_s: float
    source: str = ZOO  # of the cases


def measure_case(case: Case, asked: Asked, say: Say) -> str:
    """Record and measure a case; give a line that tells its result. Raises ``MeasuringError``."""
    place = asked.place / case.name
    place.mkdir(parents=True)
    say("recording")
    try:
        run = record(case, asked.device, asked.recorded_s, place, asked.source)
    except (RecordingError, subprocess.TimeoutExpired) as error:
        raise MeasuringError(str(error)) from error
    known = facts(load(run))
    if known.world.steps < FEWEST:
        raise MeasuringError(f"{known.world.steps} steps were recorded: too few")
    menu = lines(case, known)
    found = _measured(case, asked, menu, place, say)
    folder = asked.out / case.name
    folder.mkdir(parents=True, exist_ok=True)
    left_out = keep(run, folder / "run.tar.zst")
    told = _kept(_told(case, asked, menu, found, left_out), folder)
    remove(place)
    return told


def measure_menu(case: Case, asked: Asked, known: Facts, say: Say) -> str:
    """Measure a case that was recorded before; give a line that tells its result.

    Raises ``MeasuringError``.
    """
    place = asked.place / case.name
    place.mkdir(parents=True)
    menu = lines(case, known)
    found = _measured(case, asked, menu, place, say)
    told = _kept(_told(case, asked, menu, found, ()), asked.out / case.name)
    remove(place)
    return told


def _kept(told: dict[str, Any], folder: Path) -> str:
    """Write a menu; with it, the case is done."""
    unfinished = folder / "menu.json.part"
    unfinished.write_bytes(hidden(json.dumps(told, indent=1).encode()) + b"\n")
    unfinished.rename(folder / "menu.json")
    return _in_short(told)


def _measured(
    case: Case, asked: Asked, menu: tuple[Line, ...], place: Path, say: Say
) -> dict[str, Any]:
    """Let a process of its own measure the menu, passing on what it says."""
    plan = {
        "case": case.name,
        "source": asked.source,
        "device": asked.device,
        "sides": [UNEDITED, *(line.side() for line in menu)],
        "rounds": asked.rounds,
        "most_rounds": asked.rounds + 1,
        "block_s": asked.block_s,
        "limit_s": asked.limit_s,
    }
    text = json.dumps(plan).replace('"/project/', f'"{ROOT}/')  # of a run that is kept already
    (place / "plan.json").write_text(text)
    start = ["-m", "torch.distributed.run", "--nproc-per-node", str(case.ranks)]
    measure = ["-m", "benchmarks.menus.measure", str(place / "plan.json"), str(place / "out.json")]
    line = [sys.executable, *(start if case.ranks > 1 else []), *measure]
    with (
        (place / "errors").open("w+") as errors,
        subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True) as child,
    ):
        end = time.monotonic() + asked.limit_s + _START_S
        for text in _until(child, end):
            say(text)
        child.terminate()
    if not (place / "out.json").exists():
        raise MeasuringError((place / "errors").read_text()[-3000:])
    told = json.loads((place / "out.json").read_text())
    rounds = sum(block["side"] == BASE for block in told["blocks"]) - 1
    if rounds < LEAST:
        raise MeasuringError(f"{rounds} rounds within {asked.limit_s:g} s: too few")
    return told


def _until(child: "subprocess.Popen[str]", end: float) -> Iterator[str]:
    """Give the lines that a process prints, until it ends or its time is over."""
    if child.stdout is None:
        return
    os.set_blocking(child.stdout.fileno(), False)
    while child.poll() is None and time.monotonic() < end:
        yield from (text.rstrip() for text in child.stdout)
        time.sleep(0.2)


def _told(
    case: Case,
    asked: Asked,
    menu: tuple[Line, ...],
    found: Mapping[str, Any],
    left_out: tuple[str, ...],
) -> dict[str, Any]:
    """Put a case and what was measured of it into the form that is kept."""
    blocks = [Block(**one) for one in found["blocks"]]
    base = [block.step_ns for block in blocks if block.side == BASE]
    told = [_line(line, blocks, found) for line in menu]
    first = case.ranks == 1
    return {
        "version": VERSION,
        "case": case.name,
        "family": case.family,
        "size": case.size,
        "kind": case.kind,
        "planted": list(case.planted),
        "truth": truth(told),
        "options": dict(case.options),
        "ranks": case.ranks,
        "seed": 0,
        "command": ["python", *command(case, asked.device, asked.recorded_s, asked.source)[1:]],
        "run": "run.tar.zst",
        "windows_left_out": list(left_out),
        "machine": {
            **machine.machine(),
            "torch": found["torch"],
            "threads": found["threads"],
            "device": found["device"],
            "host_kind": platform.machine() if first else f"{platform.machine()}, one host",
        },
        "measured_unix_s": round(time.time()),
        "spent_s": found["spent_s"],
        "block_s": asked.block_s,
        "step_ns": round(median(base)),
        "noise": noise(blocks),
        "menu": told,
        "blocks": [asdict(block) for block in blocks],
        "repeated": [],
    }


def _line(line: Line, blocks: list[Block], found: Mapping[str, Any]) -> dict[str, Any]:
    name = line.choice.name
    failed = found["failed"].get(name) or _without_effect(line, found["effects"].get(name))
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
        "speedup": None if speedup is None else asdict(speedup),
        "smallest_seen": None if speedup is None else round(smallest_seen(speedup), 4),
        "step_ns": round(median(times)) if times else None,
        "took_effect": found["effects"].get(name),
        "failed": failed,
    }


def _without_effect(line: Line, effects: list[int] | None) -> str | None:
    """Say that edits changed nothing, where that would have been counted: not in workers."""
    elsewhere = any(edit.get("part") in IN_WORKERS for edit in line.edits)
    if not line.edits or not effects or elsewhere or any(effects):
        return None
    return "its edits took no effect"


def truth(menu: list[dict[str, Any]]) -> str:
    """Say what a menu has shown: "faulty" if something on it is worth 2 %, "sound" if nothing is.

    Ceilings are no remedies. Where an interval leaves it open: "undecided".
    """
    found = [
        Interval(**line["speedup"])
        for line in menu
        if line["role"] != CEILING and line["speedup"] is not None
    ]
    if any(one.low > 1 + WORTH for one in found):
        return "faulty"
    if found and all(one.high < 1 + WORTH for one in found):
        return "sound"
    return "undecided"


def _in_short(told: Mapping[str, Any]) -> str:
    """Give the result of a case in a line."""
    parts = [f"{told['truth']}, {told['step_ns'] / 1e6:.2f} ms a step"]
    for line in told["menu"]:
        found = line["speedup"]
        if found is None:
            parts.append(f"{line['name']} {line['failed'] or 'not measured'}")
        else:
            half = (found["high"] - found["low"]) / 2
            parts.append(f"{line['name']} ×{found['mid']:.3f} ±{half:.3f}")
    return ", ".join(parts)
