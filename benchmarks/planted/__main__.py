"""Plant faults in trainings of others, measure what they cost, and ask gapless.

    python -m benchmarks.planted smoke --out DIR                 # which scripts run here
    python -m benchmarks.planted run --half both --out DIR       # truths and recordings, resumable
    python -m benchmarks.planted same --only NAME --out DIR      # a script against itself: 1.00
    python -m benchmarks.planted ask --half both --out DIR       # what gapless says of them
    python -m benchmarks.planted prove --half both --out DIR     # tries what sound cases were named
    python -m benchmarks.planted judge --half unseen --out DIR   # benchmarks/results/planted.json
    python -m benchmarks.planted carry --half both --sources CLONES --out DIR  # files of scripts

``--sources DIR`` reads the scripts from clones (``DIR/owner/name`` or git directories
``DIR/owner+name/repo``) where there is no network. Of the unseen half only counts are printed.

``run --total-seconds N`` is done after about N seconds: no case is begun that would not be done by
then. Cases of both halves take turns, and in each half faults, pairs, decoys and controls do, so
that whatever is done by then is a fair sample; the same command goes on where it ended, and with
``--occasions 2`` measures what it ended with once more.
"""

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import machine, write_result
from benchmarks.planted import judging
from benchmarks.planted.asking import ask
from benchmarks.planted.cases import HALVES, KINDS, Case, Half, case_of_name, cases, put_sound_off
from benchmarks.planted.proving import prove_named
from benchmarks.planted.running import Lane, RunError, whole_cores
from benchmarks.planted.scripts import FetchError, Script, carry, scripts
from benchmarks.planted.working import (
    PlantOptions,
    alternate,
    compare_with_itself,
    run_in_lanes,
    smoke_script,
    work_case,
)

_WRITING = threading.Lock()  # by several lanes
RESULT = Path(__file__).parents[1] / "results" / "planted.json"


def main() -> int:
    """Do one of the seven."""
    options = _options()
    halves: tuple[Half, ...] = HALVES if options.half == "both" else (options.half,)
    if options.act == "carry":
        print(carry(_scripts_to_carry(options, halves), options.sources, options.out), "files")
    elif options.act == "smoke":
        _smoke(options)
    elif options.act == "same":
        _compare_same(options)
    elif options.act == "run":
        _run(options, halves)
    elif options.act == "ask":
        _ask(options, halves)
    elif options.act == "prove":
        _prove(options, halves)
    else:
        write_result(judging.result(options.out, halves, options.result, machine()), options.result)
        if "open" in halves:
            print("\n".join(judging.listing(options.out, "open")))
        print(options.result.read_text() if options.half == "open" else "written")
    return 0


def _scripts_to_carry(options: argparse.Namespace, halves: tuple[Half, ...]) -> list[Script]:
    """Return the scripts of all halves asked for: of ``--names`` alone where it is given."""
    owners = [script for script in scripts().values() if _half_of(script) in halves]
    if options.names is not None:
        names = options.names.read_text(encoding="utf-8").split()
        named = {case_of_name(name, "open").script for name in names}
        owners = [script for script in owners if script.name in named]
    return [script for script in owners if options.only in script.name]


def _half_of(script: Script) -> Half:
    return "unseen" if script.sealed else "open"


_THREADS: Final = (
    "of a tensor operation (default: as many as a lane has processors); one fewer leaves others\n"
    "a processor where a machine is shared: one that takes a thread's makes all of them wait"
)
_CORES: Final = (
    "(default: 2), and behind how many lanes one is left to nobody (default: behind none)"
)
_GPU_LANES: Final = (
    "of both devices, the lanes that are the GPU's (default: 1); they measure by turns,\n"
    "and record so, each alone on the GPU while the next one starts"
)


_STARTS: Final = (
    "of both sides in a truth, a second number on a GPU (default: 2): only more of them average\n"
    "out how far two starts differ"
)


_SECONDS: Final = (
    ("seconds", 3.0, "of counted steps, to see whether it runs"),
    ("limit-seconds", 60.0, "of the truth of one case"),
    ("gpu-limit-seconds", 60.0, "the same on a GPU"),
    ("check-seconds", 15.0, "of a recording"),
    ("gpu-check-seconds", 28.0, "the same on a GPU, where starting takes longer"),
    ("total-seconds", 1e9, "by which cases are done"),
)
_AGAIN: Final = "is done anew; a wide truth (of --half-width) goes on instead"
_HALF_WIDTH: Final = (
    "of a gain's interval, such as 0.04: more turns, and starts beyond four, are\n"
    "measured until it is reached (default: until the verdict is clear)"
)

_OCCASIONS: Final = (
    "of a truth (default: 1): kept ones of fewer are measured again, by turns with other cases,\n"
    "both sides started anew; a call adds one"
)
_SOUND_SHARE: Final = "of controls and decoys until all faults are done (default: as they come)"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("act", choices=("smoke", "same", "run", "ask", "prove", "judge", "carry"))
    add("--half", choices=("open", "unseen", "both"), default="open")
    add("--device", choices=("cpu", "cuda", "both"), default="cpu")
    add("--lanes", type=int, default=1, help="cases at a time")
    add("--gpu-lanes", type=int, default=1, help=_GPU_LANES)
    add("--gpus", type=int, default=1, help="among which the GPU's lanes are divided")
    add("--cores-per-lane", type=int, nargs="+", default=[2], help=_CORES)
    add("--threads", type=int, default=0, help=_THREADS)
    add("--sources", type=Path, help="clones to read the scripts from")
    add("--out", type=Path, required=True)
    add("--work", type=Path, help="where scripts are laid out (a temporary folder)")
    for name, default, text in _SECONDS:
        add(f"--{name}", type=float, default=default, help=text)
    add("--pairs", type=int, default=40, help="of turns, at most")
    add("--starts", type=int, nargs="+", default=[2], help=_STARTS)
    add("--half-width", type=float, default=float("inf"), help=_HALF_WIDTH)
    add("--trial-seconds", type=float, default=80, help="of each proof, beside starting")
    add("--remedies", type=Path, help="of causes that no edit is for, for prove: see proving.py")
    add("--again", nargs="*", default=[], choices=("failed", "undecided", "wide"), help=_AGAIN)
    add("--occasions", type=int, default=1, help=_OCCASIONS)
    add("--sound-share", type=float, default=1.0, help=_SOUND_SHARE)
    add("--only", default="", help="cases or scripts whose name holds this")
    add("--names", type=Path, help="a file of names of open cases, one a line: these and no others")
    add("--kinds", nargs="*", default=KINDS, choices=KINDS, help="of cases (default: all)")
    add("--result", type=Path, default=RESULT, help="of judge")
    add("--count", type=int, default=200, help="cases of a half on a device")
    options = parser.parse_args()
    options.work = options.work or Path(tempfile.mkdtemp(prefix="gapless-planted-"))
    options.end = time.monotonic() + options.total_seconds
    return options


def _plant_options(options: argparse.Namespace) -> PlantOptions:
    return PlantOptions(
        sources=options.sources and options.sources.resolve(),
        out=options.out.resolve(),
        seconds=options.seconds,
        limit_s=options.limit_seconds,
        gpu_limit_s=options.gpu_limit_seconds,
        check_s=options.check_seconds,
        gpu_check_s=options.gpu_check_seconds,
        pairs=max(4, options.pairs),
        starts=options.starts[0],
        gpu_starts=options.starts[-1],
        half_width=options.half_width,
        trial_s=options.trial_seconds,
        remedies=options.remedies,
        end=options.end,
        redo=frozenset(options.again),
        occasions=options.occasions,
    )


def _lanes(options: argparse.Namespace) -> list[Lane]:
    cores = whole_cores(os.sched_getaffinity(0))
    n_cores, *groups = options.cores_per_lane
    gpu_lanes = {"cpu": 0, "both": options.gpu_lanes, "cuda": options.lanes}[options.device]
    gpu_locks = [threading.Lock() for _ in range(options.gpus)]
    lanes: list[Lane] = []
    for number in range(options.lanes):
        first = number * n_cores + sum(number // size for size in groups)
        lane_cores = tuple(cores[first : first + n_cores])
        device = "cuda" if number < gpu_lanes else "cpu"
        folder = options.work.resolve() / f"lane{number}"
        folder.mkdir(parents=True, exist_ok=True)
        gpu = number % options.gpus if device == "cuda" else None
        exclusive = nullcontext() if gpu is None else gpu_locks[gpu]
        lanes.append(Lane(number, lane_cores, device, folder, options.threads, exclusive, gpu))
    return lanes


def _devices(options: argparse.Namespace) -> tuple[str, ...]:
    return ("cuda", "cpu") if options.device == "both" else (options.device,)


def _smoke(options: argparse.Namespace) -> None:
    plant_options, smoke_rows = _plant_options(options), _read(options.out)

    def act(script: Script, device: str) -> Callable[[Lane], str]:
        def smoke_in_lane(lane: Lane) -> str:
            smoke_rows[f"{script.name} {device}"] = row = smoke_script(script, lane, plant_options)
            _write(options.out, smoke_rows)
            outcome = row.get("failed") or f"{1e3 * row['step_s']:.2f} ms, {row['kind']}"
            return f"{script.name}: {outcome}"

        return smoke_in_lane

    run_in_lanes(_lanes(options), _each_script(options, act), options.end)
    print(sum("step_s" in row for row in smoke_rows.values()), "of", len(smoke_rows), "run")


def _each_script(
    options: argparse.Namespace, act: Callable[[Script, str], Callable[[Lane], str]]
) -> list[tuple[str, Callable[[Lane], str]]]:
    return [
        (device, act(script, device))
        for script in scripts().values()
        for device in _devices(options)
        if device in script.devices and options.only in script.name
    ]


def _compare_same(options: argparse.Namespace) -> None:
    """Measure scripts against themselves: what is far from 1.00 is a fault of the measurement."""
    plant_options = _plant_options(options)

    def act(script: Script, _: str) -> Callable[[Lane], str]:
        def compare_in_lane(lane: Lane) -> str:
            try:
                truth = compare_with_itself(script, lane, plant_options)
            except (RunError, FetchError, OSError) as error:
                return f"{script.name}: {str(error)[-300:]}"
            return f"{script.name}: {_figures(truth.plain())}"

        return compare_in_lane

    run_in_lanes(_lanes(options), _each_script(options, act), options.end)


def _read(out: Path) -> dict[str, dict[str, Any]]:
    path = out / "smoke.json"
    return json.loads(path.read_text()) if path.exists() else {}


def _write(out: Path, smoke_rows: dict[str, dict[str, Any]]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    partial = out / "smoke.json.part"
    with _WRITING:
        partial.write_text(json.dumps(dict(smoke_rows), indent=1) + "\n")
        partial.replace(out / "smoke.json")


def _run(options: argparse.Namespace, halves: tuple[Half, ...]) -> None:
    plant_options, smoke_rows = _plant_options(options), _read(options.out)

    def act(case: Case) -> Callable[[Lane], str]:
        def work_in_lane(lane: Lane) -> str:
            if not plant_options.may_begin(case.kind, case.device):
                return ""
            healthy = smoke_rows.get(f"{case.script} {case.device}") or smoke_script(
                scripts()[case.script], lane, plant_options
            )
            smoke_rows[f"{case.script} {case.device}"] = healthy
            _write(options.out, smoke_rows)
            if "failed" in healthy:
                return ""
            case_record = work_case(case, lane, plant_options, healthy["step_s"])
            return _describe_case(case, case_record)

        return work_in_lane

    tasks = [
        (device, act(case))
        for device in _devices(options)
        for case in alternate(_interleave_cases(options, halves, device), plant_options)
    ]
    run_in_lanes(_lanes(options), tasks, options.end)


def _prove(options: argparse.Namespace, halves: tuple[Half, ...]) -> None:
    plant_options = _plant_options(options)

    def act(case: Case) -> Callable[[Lane], str]:
        def prove_in_lane(lane: Lane) -> str:
            outcome = prove_named(case, lane, plant_options)
            return (
                f"an unseen case is {outcome.partition(':')[0]}"
                if outcome and case.half == "unseen"
                else outcome
            )

        return prove_in_lane

    tasks = [
        (device, act(case))
        for device in _devices(options)
        for case in _interleave_cases(options, halves, device)
    ]
    run_in_lanes(_lanes(options), tasks, options.end)


def _interleave_cases(
    options: argparse.Namespace, halves: tuple[Half, ...], device: str
) -> list[Case]:
    """Return the cases of all halves asked for, in turns."""
    if options.names is not None:
        names = options.names.read_text(encoding="utf-8").split()
        return [case_of_name(name, "open") for name in names if name.endswith(f"--{device}")]
    sources = options.sources and options.sources.resolve()
    rows = [cases(side, device, sources, options.count) for side in halves]
    longest = max(map(len, rows))
    mixed = [row[index] for index in range(longest) for row in rows if index < len(row)]
    order = [case for case in mixed if options.only in case.name and case.kind in options.kinds]
    return put_sound_off(order, options.sound_share)


def _describe_case(case: Case, case_record: dict[str, Any]) -> str:
    """Tell of a case; of an unseen one no more than that it is done."""
    if case.half == "unseen":
        return f"an unseen case {'failed' if 'failed' in case_record else 'is done'}"
    if "failed" in case_record:
        return f"{case.name}: {case_record['failed'][-300:]}"
    truth = case_record.get("truth")
    return f"{case.name}: {'recorded' if truth is None else _figures(truth)}"


def _figures(truth: dict[str, Any]) -> str:
    return (
        f"{truth['mid']:.3f}× [{truth['low']:.3f}, {truth['high']:.3f}] {truth['verdict']}, "
        f"{len(truth['healthy_s'])} pairs of {truth.get('steps', '?')} steps"
    )


def _ask(options: argparse.Namespace, halves: tuple[Half, ...]) -> None:
    counts: Counter[str] = Counter()

    def act(recording: Path) -> str:
        if time.monotonic() > options.end:
            return "left for want of time"
        path = _answers(recording)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(ask(recording), indent=1) + "\n", encoding="utf-8")
        return f"{recording.parents[1].name} answered"

    with ThreadPoolExecutor(options.lanes) as pool:
        for side in halves:
            recordings = (options.out / side / "recordings").glob("*.tar.zst")
            selected = [recording for recording in recordings if options.only in recording.name]
            counts.update(
                pool.map(
                    act,
                    sorted(
                        selected, key=lambda recording: (_last_asked(recording), recording.name)
                    ),
                )
            )
    print(", ".join(f"{number} {outcome}" for outcome, number in counts.items()) or "none")


def _answers(recording: Path) -> Path:
    return recording.parents[1] / "answers" / f"{recording.name.removesuffix('.tar.zst')}.json"


def _last_asked(recording: Path) -> float:
    """Return when a recording was asked about last: what has waited longest comes first."""
    path = _answers(recording)
    return path.stat().st_mtime if path.exists() else 0.0


if __name__ == "__main__":
    sys.exit(main())
