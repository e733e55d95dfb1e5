"""Run other tools on one training beside gapless, and keep what each shows first and what it costs.

``PYTHONPATH=src python -m benchmarks.beside --tools SITE OUT.json``: SITE is a site-packages folder
with py-spy, pyinstrument and scalene (``pip install --target SITE py-spy pyinstrument scalene``).
The training is that of ``gapless demo``: it decodes JPEG files in the training process. Each tool
runs it as its documentation says, in turns with the plain command. What it costs is said in seconds
of processors, of all processes together: those depend less than durations on what else the machine
does, but threads that wait for one another spin.
"""

import argparse
import ctypes
import datetime as dt
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import machine, write_result

TRAINING: Final = Path(__file__).parents[1] / "src/gapless/demo/train.py"
_PR_SET_CHILD_SUBREAPER: Final = 36
_SHOWN: Final = 5  # rows of an answer that are kept
_MAX_LINE: Final = 30  # characters of a line of source
_PROFILED: Final = """
import runpy, sys, torch
sys.argv = sys.argv[1:]
with torch.profiler.profile(with_stack=False) as profile:
    runpy.run_path(sys.argv[0], run_name="__main__")
for row in sorted(profile.key_averages(), key=lambda row: -row.self_cpu_time_total):
    print("ROW", row.key, row.self_cpu_time_total)
"""
_CPROFILE: Final = """
import pstats, sys
stats = pstats.Stats(sys.argv[1]).stats
for (file, line, name), (_, _, own, _, _) in stats.items():
    print("ROW", f"{file.rpartition('/')[2]}:{line}({name})".replace(" ", "_"), own)
"""
_ROW: Final = re.compile(r"^ROW (.+) ([\d.]+)$", re.MULTILINE)


def rank(times: Mapping[str, float]) -> list[str]:
    """Return the largest of some times, each with its share of all."""
    total = sum(times.values()) or 1.0
    largest = sorted(times.items(), key=lambda item: -item[1])[:_SHOWN]
    return [f"{name} {value / total:.0%}" for name, value in largest]


def read_rows(text: str) -> list[str]:
    """Return the largest of the rows that a script of ours has printed."""
    return rank({name: float(value) for name, value in _ROW.findall(text)})


def read_folded(text: str) -> list[str]:
    """Return the functions with the most samples of their own, of folded stacks."""
    leaves: Counter[str] = Counter()
    for line in text.splitlines():
        stack, _, samples = line.rpartition(" ")
        frame = re.sub(r"[^\s(]*/", "", stack.rpartition(";")[2]).strip()
        leaves[frame or "(no frame)"] += int(samples)
    return rank(leaves)


def read_tree(text: str) -> list[str]:
    """Return the calls with the most time of their own, of pyinstrument's tree as JSON."""
    own: Counter[str] = Counter()

    def visit(frame: Mapping[str, Any]) -> None:
        within = sum(child["time"] for child in frame["children"])
        name = Path(frame["file_path_short"] or "").name
        own[f"{frame['function']} ({name})"] += frame["time"] - within
        for child in frame["children"]:
            visit(child)

    visit(json.loads(text)["root_frame"])
    return rank(own)


def read_lines(text: str) -> list[str]:
    """Return the lines with the most time, of scalene's profile: its three columns of time added.

    They are per cent of the whole command; lines of files that it leaves out have none.
    """
    shares = {
        f"{Path(file).name}:{line['lineno']} {line['line'].strip()[:_MAX_LINE]}": (
            line["n_cpu_percent_python"] + line["n_cpu_percent_c"] + line["n_sys_percent"]
        )
        for file, content in json.loads(text)["files"].items()
        for line in content["lines"]
    }
    largest = sorted(shares.items(), key=lambda item: -item[1])[:_SHOWN]
    return [f"{name} {share:.0f}%" for name, share in largest]


def read_report(text: str) -> list[str]:
    """Return the verdict and the first fix of gapless's report as JSON."""
    report = json.loads(text)
    verdict = (report.get("verdict") or {}).get("sentence") or report.get("outlook") or ""
    fixes = [
        f"{fix['fix']}: {fix['summary']}, predicted {fix['speedup']['mid']:.2f}× "
        f"[{fix['speedup']['low']:.2f} … {fix['speedup']['high']:.2f}]"
        for fix in report.get("proposals") or ()
        if fix.get("speedup") and not fix.get("refused")
    ]
    return [verdict, *fixes[:1]]


class Tool:
    """A tool: how it runs the training, and how its answer is read."""

    def __init__(
        self,
        name: str,
        command: list[str],
        answer: list[str] | str,  # a command that prints it, or a file
        read: Callable[[str], list[str]],
    ) -> None:
        self.name, self.command, self.answer, self.read = name, command, answer, read


def list_tools(training: list[str]) -> list[Tool]:
    """Return the tools, each as its documentation says that a script is profiled."""
    python = sys.executable
    return [
        Tool("plain", [python, *training], "", lambda _: []),
        Tool(
            "gapless",
            [python, "-m", "gapless", "run", "--out", "runs", python, *training],
            [python, "-m", "gapless", "report", "--in", "runs", "--json"],
            read_report,
        ),
        Tool(
            "py-spy",
            ["py-spy", "record", "--format", "raw", "-o", "spy", "--", python, *training],
            "spy",
            read_folded,
        ),
        Tool(
            "pyinstrument",
            [python, "-m", "pyinstrument", "-r", "json", "-o", "tree", *training],
            "tree",
            read_tree,
        ),
        Tool(
            "scalene",
            [python, "-m", "scalene", "run", "--cpu-only", "-o", "lines.json", *training],
            "lines.json",
            read_lines,
        ),
        Tool(
            "cProfile",
            [python, "-m", "cProfile", "-o", "calls", *training],
            [python, "-c", _CPROFILE, "calls"],
            read_rows,
        ),
        Tool("torch.profiler", [python, "-c", _PROFILED, *training], "log", read_rows),
    ]


def adopt_orphans() -> None:
    """Have processes whose parents ended become ours: a tool may not wait for the training."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def wait_for_orphans() -> None:
    """Wait for what a tool has left behind, so that its time is counted."""
    with suppress(ChildProcessError):
        while True:
            os.wait()


def run_tool(tool: Tool, environment: Mapping[str, str], folder: Path) -> dict[str, Any]:
    """Run a tool once, and return what it cost and what it shows first."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with (folder / "log").open("w") as log:
        code = subprocess.run(
            tool.command, cwd=folder, env=environment, stdout=log, stderr=log, check=False
        ).returncode
    wait_for_orphans()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    cpu_s = round(spent_s, 2)
    if code:
        last = (folder / "log").read_text().strip().splitlines()[-1:]
        return {"cpu_s": cpu_s, "failed": " ".join(last)[:200]}
    if isinstance(tool.answer, str):
        answer = folder / tool.answer
        if not answer.exists():
            return {"cpu_s": cpu_s, "failed": "it wrote no profile where it was told to"}
        text = answer.read_text() if tool.answer else ""
    else:
        text = subprocess.run(
            tool.answer, cwd=folder, env=environment, capture_output=True, check=True, text=True
        ).stdout
    return {"cpu_s": cpu_s, "shows": tool.read(text)}


def _compare_costs(costs_s: Sequence[float], plain_s: Sequence[float]) -> float:
    """Return the median ratio; below 1 where the training's threads spun less than without."""
    ratios = [cost / plain for cost, plain in zip(costs_s, plain_s, strict=True)]
    return round(statistics.median(ratios), 2)


def main() -> None:
    """Run all tools in turns, and write what each took and showed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tools", type=Path, required=True, help="a site-packages folder")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args()
    site = options.tools.resolve()
    binaries = [str(site / "bin"), str(site.parents[2] / "bin"), os.environ["PATH"]]
    environment = {
        **os.environ,
        "PATH": os.pathsep.join(binaries),
        "PYTHONPATH": os.pathsep.join([str(TRAINING.parents[2]), str(site)]),
    }
    adopt_orphans()
    results: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as name:
        training = [str(TRAINING), "--epochs", str(options.epochs), "--pictures", "128"]
        training += ["--data", f"{name}/pictures"]
        tools = list_tools(training)
        run_tool(tools[0], environment, Path(name))  # writes the pictures, warms the caches
        for _ in range(options.rounds):
            for tool in tools:
                results.setdefault(tool.name, []).append(run_tool(tool, environment, Path(name)))
                print(tool.name, results[tool.name][-1], flush=True)
    plain_cpu_s = [run["cpu_s"] for run in results["plain"]]
    packages = subprocess.run(
        [sys.executable, "-m", "pip", "list", "--format", "json", "--path", str(site)],
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    versions = {row["name"]: row["version"] for row in json.loads(packages)}
    result = {
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "machine": machine(),
        "epochs": options.epochs,
        "load": [round(load, 1) for load in os.getloadavg()],
        "plain_cpu_s": plain_cpu_s,
        "tools": {
            name: {
                "version": versions.get(name),
                "cpu_s": [run["cpu_s"] for run in runs],
                "ratio": _compare_costs([run["cpu_s"] for run in runs], plain_cpu_s),
                "shows": runs[-1].get("shows"),
                "failed": runs[-1].get("failed"),
            }
            for name, runs in results.items()
            if name != "plain"
        },
    }
    write_result(result, options.out)


if __name__ == "__main__":
    main()
