"""Record the small GPU traces that the tests read: one process a case, one tar for all.

``python3 -m benchmarks.record_traces --out FOLDER`` needs torch and nothing else; ``--cpu`` is a
dry run.
"""

import argparse
import gzip
import json
import os
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.recording.cases import CASES, Case, Step
from benchmarks.recording.window import LEAD, WAIT, open_group, pace, window

MAX_BYTES = 1_000_000  # bytes of a compressed trace
MAX_ACTIVE = 8
WARM_UP = 20
N_PACED = 40
PATIENCE_S = 120  # for one case, compilation included
BUDGET_S = 420  # for all of them


def log(text: str) -> None:
    """Write a line at once, so that a run cut short still tells how far it came."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def strip_machine(raw: bytes, name: str) -> tuple[bytes, int]:
    """Return the trace without this machine's name and folders, and how many folders there were."""
    raw = re.sub(rb'"host_name": "[^"]*"', b'"host_name": "host"', raw)
    raw = re.sub(rb'"traceName": "[^"]*"', b'"traceName": "' + name.encode() + b'"', raw)
    count = 0
    for folder in sorted(
        {str(Path.cwd()), sys.prefix, sys.base_prefix, str(Path.home())}, key=len, reverse=True
    ):
        if folder != "/":
            prefix = folder.rstrip("/").encode() + b"/"
            count += raw.count(prefix)
            raw = raw.replace(prefix, b"")
    return raw, count


def driver() -> str | None:
    """Return the version of the NVIDIA driver, or None where there is none."""
    try:
        process = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],  # noqa: S607
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return process.stdout.split()[0]


def machine_facts(device: torch.device) -> dict[str, str | None]:
    """Return what a reader of the fixture may want to know of where it was made."""
    cuda = device.type == "cuda"
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cuda": torch.version.cuda,
        "driver": driver() if cuda else None,
        "device": torch.cuda.get_device_name(device) if cuda else None,
        "recorded": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def device_for(rank: int, *, cpu: bool) -> torch.device:
    """Return this rank's device, made the current one."""
    if cpu:
        torch.set_num_threads(1)  # spinning threads make a dry run on a shared machine endless
        return torch.device("cpu")
    torch.cuda.set_device(rank)
    return torch.device("cuda", rank)


def record_fitting(case: Case, step: Step, device: torch.device, name: str) -> dict[str, Any]:
    """Profile as many steps as fit into a fixture; give ``raw``, ``compressed``, ``steps``."""
    active = MAX_ACTIVE
    while True:
        raw, folders = strip_machine(window(case, step, device, active), f"{name}.json")
        compressed = gzip.compress(raw, 9, mtime=0)
        # Ranks must agree on their steps, so they are not halved.
        if len(compressed) <= MAX_BYTES or case.ranks > 1 or active == 1:
            return {
                "compressed": compressed,
                "steps": active,
                "folders_removed": folders,
                "bytes": len(raw),
                "compressed_bytes": len(compressed),
            }
        log(f"{name}: {len(compressed):,} bytes with {active} steps; halving")
        active //= 2


def record_in_process(options: argparse.Namespace) -> None:
    """Record one case in this process: warm up, pace it un-profiled, then profile it."""
    case = next(case for case in CASES if case.name == options.case)
    rank = int(os.environ.get("RANK", "0"))
    device = device_for(rank, cpu=options.cpu)
    torch.manual_seed(rank)
    if case.ranks > 1:
        open_group(device, rank, case.ranks, options.meeting)
    step = case.make(device)
    for index in range(WARM_UP):
        step(index)
    pace_figures = pace(step, device, N_PACED)
    name = f"{case.name}.rank{rank}" if case.ranks > 1 else case.name
    recorded = record_fitting(case, step, device, name)
    compressed = recorded.pop("compressed")
    facts = {
        "case": case.name,
        "about": case.about,
        "first_index": WAIT + LEAD if case.scheduled else 0,  # of the profiled steps
        "rank": rank,
        "ranks": case.ranks,
        "scheduled": case.scheduled,
        "stacks": case.stacks,
        "unprofiled": pace_figures,
        **recorded,
        **machine_facts(device),
    }
    (options.out / f"{name}.json.gz").write_bytes(compressed)
    (options.out / f"{name}.facts.json").write_text(json.dumps(facts, indent=1) + "\n")
    log(f"{name}: {recorded}, un-profiled {pace_figures}")
    os._exit(0)  # neither workers, graphs nor process groups are worth a tidy end here


def start_process(
    name: str, rank: int, meeting: Path, options: argparse.Namespace
) -> subprocess.Popen[bytes]:
    """Start a process that records one case (one rank of it)."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.record_traces",
        "--out",
        str(options.out),
        "--case",
        name,
    ]
    command += ["--meeting", str(meeting), *(["--cpu"] if options.cpu else [])]
    return subprocess.Popen(command, env={**os.environ, "RANK": str(rank)})


def record_case(name: str, ranks: int, options: argparse.Namespace) -> bool:
    """Record one case in processes of its own; give whether all of them ended well."""
    with tempfile.TemporaryDirectory() as folder:
        children = [
            start_process(name, rank, Path(folder) / "meeting", options) for rank in range(ranks)
        ]
        deadline = min(time.monotonic() + PATIENCE_S, options.deadline)
        codes: list[int | str] = []
        for child in children:
            try:
                codes.append(child.wait(max(0.1, deadline - time.monotonic())))
            except subprocess.TimeoutExpired:
                child.kill()
                codes.append("timed out")
    if any(codes):
        log(f"{name}: FAILED {codes}")
    return not any(codes)


def pack(folder: Path) -> None:
    """Put what was recorded into ``fixtures.tar`` and remove the single files."""
    with tarfile.open(folder / "fixtures.tar", "w") as tar:
        for file in sorted([*folder.glob("*.json.gz"), *folder.glob("*.facts.json")]):
            tar.add(file, arcname=file.name)
            file.unlink()


def record_all(options: argparse.Namespace) -> int:
    """Record every chosen case that this machine can run."""
    devices = 2 if options.cpu else torch.cuda.device_count()
    failed: list[str] = []
    options.deadline = time.monotonic() + BUDGET_S
    for case in CASES:
        if options.only and case.name not in options.only:
            continue
        if case.ranks > devices or (case.needs_cuda and options.cpu):
            log(f"{case.name}: skipped, this machine has {devices} devices")
            continue
        start_s = time.monotonic()
        if not record_case(case.name, case.ranks, options):
            failed.append(case.name)
        log(f"{case.name}: {time.monotonic() - start_s:.1f} s")
    pack(options.out)
    log(f"failed: {failed}")
    return 1 if failed else 0


def main() -> int:
    """Record all cases, or (``--case``, used by the script itself) one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cpu", action="store_true", help="a dry run on the processor")
    parser.add_argument("--only", nargs="*", default=[], help="names of cases")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--meeting", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.case:
        record_in_process(options)
    return record_all(options)


if __name__ == "__main__":
    sys.exit(main())
