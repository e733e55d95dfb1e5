"""Keep what gapless doctor measures of a machine beside what its cards are known to reach.

``PYTHONPATH=src python -m benchmarks.doctor OUT.json`` reads and measures the machine as ``gapless
doctor`` does, and writes the verdicts, each measured figure of each GPU with the peak of its data
sheet, and what ``gapless doctor --fast`` took. Below 40 s with one GPU; without one it keeps the
figures of the processors alone. Paths, the machine's name and other processes are left out.
"""

import argparse
import json
import platform
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.machine import machine, write_result
from gapless.doctor.checkup import CheckupRequest, judge_machine, read_machine
from gapless.doctor.gpus import GpuReading
from gapless.doctor.interpreter import choose_interpreter
from gapless.doctor.measured.peaks import LANE_RATES, LOOKED_UP, find_peaks
from gapless.doctor.subject import CheckSubject, GpuMeasurement
from gapless.model.machine import Constants

FAST_AIM_S: Final = 5.0
# A path that the kernel does not give to every machine; "GB/s" is none.
_PATH: Final = re.compile(r"(?<![\w/.])/(?!(?:dev|proc|sys)/)[^\s,;:()'\"]+")
_PROCESS: Final = re.compile(r"[^\s,;:]+ \(\d+\)(?= \d+%)")  # its name and number, and its share
_NUMBERS: Final = re.compile(r"(?<=-p )\d+(?:,\d+)*")  # of processes, as ps takes them


def known_peaks(gpu: GpuReading) -> dict[str, float | None]:
    """Return what a card reaches at most, by the constant that it bounds; nothing if not listed."""
    peaks: dict[str, float | None] = {}
    card = find_peaks(gpu.name if gpu.mig is not True else None)
    if card is not None:
        peaks |= {"gemm.bf16": card.half, "gemm.fp16": card.half}
        peaks |= {"gemm.tf32": card.tf32, "gemm.fp32": card.fp32}
        peaks |= {"memory.triad": card.memory, "memory.copy": card.memory}
    if gpu.max_link is not None and gpu.max_link[0] in LANE_RATES:
        generation, lanes = gpu.max_link
        link = LANE_RATES[generation] * lanes
        peaks |= {"copy.h2d.pinned.bandwidth": link, "copy.d2h.pinned.bandwidth": link}
    return peaks


def rows(constants: Constants, peaks: dict[str, float | None]) -> list[dict[str, Any]]:
    """Return each constant with its peak, and its share of that."""
    constant_rows: list[dict[str, Any]] = []
    for constant in constants.values:
        peak = peaks.get(constant.name)
        share = None if peak is None or constant.value is None else constant.value / peak
        compared = {"peak": peak, "share": None if share is None else round(share, 3)}
        constant_rows.append({**msgspec.to_builtins(constant), **compared})
    return constant_rows


def describe_gpu(subject: CheckSubject, measurement: GpuMeasurement) -> dict[str, Any]:
    """Return a GPU: what NVML shows of it, and what was measured."""
    gpu = next(gpu for gpu in subject.survey.gpus if gpu.number == measurement.number)
    figures = rows(measurement.constants, known_peaks(gpu))
    reading = msgspec.to_builtins(gpu)
    del reading["uuid"], reading["bus"]
    card = find_peaks(gpu.name if gpu.mig is not True else None)
    peaks_from = None if card is None else f"{card.source}; looked up on {LOOKED_UP}"
    return {
        "reading": reading,
        "figures": figures,
        "peaks_from": peaks_from,
        "why": measurement.constants.why,
    }


def leave_out_names(value: Any, host: str, release: str) -> Any:  # noqa: ANN401 - JSON
    """Return a value without what tells one machine from another of its kind, in all its texts."""
    if isinstance(value, dict):
        items: dict[str, Any] = value
        return {key: leave_out_names(item, host, release) for key, item in items.items()}
    if isinstance(value, list):
        return [leave_out_names(item, host, release) for item in value]
    if not isinstance(value, str):
        return value
    text = value.replace(release, release.partition("-")[0]) if release else value
    for pattern, word in ((_PATH, "PATH"), (_PROCESS, "PROCESS"), (_NUMBERS, "PIDS")):
        text = pattern.sub(word, text)
    return re.sub(rf"(?<![\w-]){re.escape(host)}(?![\w-])", "HOST", text) if host else text


def measure_fast() -> dict[str, object]:
    """Return what the fast checkup takes, as a command, and how it ended."""
    began_s = time.monotonic()
    command = [sys.executable, "-m", "gapless", "doctor", "--fast", "--json"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    took_s = time.monotonic() - began_s
    checks = json.loads(process.stdout)["checks"] if process.stdout else []
    return {"took_s": round(took_s, 2), "exit_code": process.returncode, "checks": len(checks)}


def main() -> None:
    """Measure the machine, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    fast = measure_fast()
    request = CheckupRequest(choose_interpreter(sys.executable, None, None), time.monotonic())
    subject = read_machine(request, lambda words: print(words, flush=True))
    checkup = judge_machine(request, subject)
    host = subject.host_constants
    result = {
        "machine": machine(),
        "driver": subject.survey.driver,
        "fast": fast,
        "took_s": round(checkup.took_s, 2),
        "checks": [msgspec.to_builtins(check) for check in checkup.results],
        "host": None if host is None else rows(host, {}),
        "gpus": [describe_gpu(subject, measured) for measured in subject.gpu_measurements],
    }
    plain = json.loads(json.dumps(result, default=str))
    write_result(leave_out_names(plain, platform.node(), platform.release()), options.out)
    for check in checkup.results:
        print(f"{check.verdict:8} {check.name}: {check.evidence}")
    print(f"doctor {checkup.took_s:.1f} s; --fast {fast['took_s']} s (aim {FAST_AIM_S:.0f} s)")


if __name__ == "__main__":
    main()
