"""A job on several hosts: recorded on each, and measured with its slow link and without, in turns.

Hosts are network namespaces of this machine (``tests/jobs/hosts.py``): the ranks share its
processors, as those of one host do.
"""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from benchmarks import machine
from benchmarks.menus.blocks import BASE, Block, gain, noise
from benchmarks.menus.recording import RecordingError
from tests.jobs.hosts import find_limits, open_hosts
from tests.zoo.case import Case

if TYPE_CHECKING:
    from subprocess import Popen

_BLOCK_STEPS: Final = 12
_PATIENCE_S: Final = 240.0
_POLL_S: Final = 0.02
_SCRIPT: Final = "tests/jobs/run.py"


def record_on_hosts(case: Case, out: Path, recorder_options: Sequence[str]) -> list[Path]:
    """Record a job on its hosts; give the run folder of each. Raises ``RecordingError``."""
    count = case.options["hosts"]
    with open_hosts(count, find_limits(case.options)) as hosts:
        training = [_SCRIPT, case.name, "--steps", str(case.steps)]
        recorder = [sys.executable, "-m", "gapless", "run", "--quiet", *recorder_options]
        commands = [
            [*recorder, "--out", str(out / f"host{host}"), "--", *hosts.torchrun(host, *training)]
            for host in range(count)
        ]
        with hosts.started(commands) as nodes:
            codes = [node.wait(_PATIENCE_S) for node in nodes]
    if any(codes):
        raise RecordingError(f"{case.name}: exit codes {codes}")
    return [next((out / f"host{host}").glob("*/run.json")).parent for host in range(count)]


def measure_on_hosts(case: Case, folder: Path, scratch: Path, rounds: int) -> str:
    """Measure a job with its links slowed and free, in turns; keep it as ``menu.json``."""
    if case.group == "sound":
        return "nothing to measure"
    limits, (choice,) = find_limits(case.options), case.menu
    blocks: list[Block] = []
    count = case.options["hosts"]
    training = [_SCRIPT, case.name, "--steps", str(_BLOCK_STEPS), "--turns", str(scratch)]
    with open_hosts(count, limits) as hosts:
        commands = [hosts.torchrun(host, *training) for host in range(count)]
        with hosts.started(commands) as nodes:
            for number in range(2 * rounds + 1):  # the first and the last are slow
                blocks.append(_await_block(scratch, nodes, choice.name if number % 2 else BASE))
                change = hosts.free if number % 2 == 0 else hosts.slow
                for host, limit in limits.items():
                    change(host, limit)
                if number == 2 * rounds:
                    (scratch / "stop").touch()
                (scratch / "block").unlink()
            for node in nodes:
                node.wait(_PATIENCE_S)
    document = _menu_document(case, blocks)
    (folder / "menu.json").write_text(json.dumps(document) + "\n")
    return f"{document['step_ns'] / 1e6:.1f} ms, {document['menu'][0]['speedup']}"


def _await_block(scratch: Path, nodes: Sequence["Popen[bytes]"], side: str) -> Block:
    path, began_s = scratch / "block", time.monotonic()
    while not path.exists():
        if any(node.poll() is not None for node in nodes):
            raise RecordingError("a rank ended")
        if time.monotonic() - began_s > _PATIENCE_S:
            raise RecordingError("no block ended")
        time.sleep(_POLL_S)
    wall_ns = round(float(path.read_text()) * 1e9 * _BLOCK_STEPS)
    return Block(side, time.monotonic(), _BLOCK_STEPS, wall_ns, None, {})


def _menu_document(case: Case, blocks: Sequence[Block]) -> dict[str, Any]:
    (choice,) = case.menu
    speedup = gain(blocks, choice.name)
    base = [block.step_ns for block in blocks if block.side == BASE]
    return {
        "version": 1,
        "case": case.name,
        "family": case.family,
        "size": case.size,
        "kind": case.kind,
        "planted": case.planted,
        "options": case.options,
        "ranks": case.ranks,
        "machine": machine.machine(),
        "step_ns": round(median(base)),
        "noise": noise(blocks),
        "menu": [
            {
                "name": choice.name,
                "role": choice.role,
                "fix": None,
                "variant": choice.variant,
                "edits": [],
                "speedup": None if speedup is None else structs.asdict(speedup),
            }
        ],
        "blocks": [asdict(block) for block in blocks],
    }
