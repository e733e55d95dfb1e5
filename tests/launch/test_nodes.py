"""Jobs on several machines: network namespaces of this one, each with a gapless run of its own."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest
from msgspec import Struct

from gapless.model.run import RecordedRun
from gapless.model.study import Study
from gapless.store.run.jobs import find_job_runs
from gapless.study import Options, open_job
from tests.launch import starting

pytestmark = pytest.mark.slow
TRAINING: Final = str(Path(__file__).with_name("across_nodes.py"))
_PORT: Final = 29_611
_DELAY: Final = "2ms"  # of packets, by the kernel, where it can
_TIMEOUT_S: Final = 300


class Network(Struct, frozen=True):
    """Namespaces on one bridge: their names, and the file that names their addresses."""

    names: tuple[str, ...]
    hosts: Path


def _ip(*words: str) -> None:
    tool = shutil.which("ip") or pytest.skip("there is no ip here")
    subprocess.run([tool, *words], check=True, capture_output=True, timeout=30)


@contextmanager
def network(count: int, folder: Path) -> Generator[Network]:
    """Make machines that reach one another through the first of them, and remove them again."""
    names = tuple(f"gl{os.getpid() % 100_000}-{number}" for number in range(count))
    try:
        for name in names:
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", names[0], "link", "add", "bridge", "type", "bridge")
        _ip("-n", names[0], "addr", "add", "10.99.8.10/24", "dev", "bridge")
        _ip("-n", names[0], "link", "set", "bridge", "up")
        for number, name in enumerate(names[1:], 1):
            _ip("link", "add", f"up{number}", "netns", names[0], "type", "veth", "peer", "name",
                "bridge", "netns", name)  # fmt: skip
            _ip("-n", names[0], "link", "set", f"up{number}", "master", "bridge", "up")
            _ip("-n", name, "addr", "add", f"10.99.8.{10 + number}/24", "dev", "bridge")
            _ip("-n", name, "link", "set", "bridge", "up")
            _delay(name)
        lines = [f"10.99.8.{10 + number} node{number}" for number in range(count)]
        hosts = folder / "hosts"
        hosts.write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
        yield Network(names, hosts)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespaces here: {error.stderr.decode()}")
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)  # noqa: S607


def _delay(name: str) -> None:
    """Delay what a machine sends, where the kernel can."""
    command = ["tc", "-n", name, "qdisc", "add", "dev", "bridge", "root", "netem", "delay", _DELAY]
    subprocess.run(command, check=False, capture_output=True)


def start_node(machines: Network, number: int, home: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start a torchrun below gapless on a machine; all write into one folder."""
    folder = home / f"node{number}"
    folder.mkdir(parents=True)
    nodes = len(machines.names)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", str(nodes),
                "--nproc-per-node", "1", "--rdzv-id", "job7", "--rdzv-backend", "c10d",
                "--rdzv-endpoint", f"node0:{_PORT}", "--local-addr", f"node{number}",
                "--max-restarts", "1", TRAINING, *words]  # fmt: skip
    run = [*starting.GAPLESS, "run", "--quiet", "--out", str(home / "runs"), *torchrun]
    enter = f'mount --bind {machines.hosts} /etc/hosts; hostname node{number}; exec "$@"'
    return subprocess.Popen(
        ["ip", "netns", "exec", machines.names[number], "unshare", "--uts", "--mount", "sh", "-c",  # noqa: S607
         enter, "sh", *run],
        cwd=folder, env={**os.environ, "GLOO_SOCKET_IFNAME": "bridge", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL, stderr=(folder / "errors").open("wb"), process_group=0,
    )  # fmt: skip


def kill_machine(name: str) -> None:
    """End all processes of a machine at once, those in sessions of their own, too."""
    command = ["ip", "netns", "pids", name]
    pids = subprocess.run(command, check=True, capture_output=True, timeout=30).stdout.split()
    for pid in map(int, pids):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def open_last_job(home: Path) -> tuple[Study, RecordedRun]:
    runs = find_job_runs(next(iter(sorted((home / "runs").iterdir()))))
    study = open_job(runs, Options(cache=False))
    assert study.recorded is not None
    return study, study.recorded


def errors(home: Path, number: int) -> str:
    return (home / f"node{number}" / "errors").read_text()[-2000:]


@pytest.mark.parametrize("count", [2, 4])
def test_machines_of_a_job_are_one_report(count: int, tmp_path: Path) -> None:
    with network(count, tmp_path) as machines:
        commands = [start_node(machines, number, tmp_path, "120", "-1") for number in range(count)]
        for number, command in enumerate(commands):
            assert command.wait(_TIMEOUT_S) == 0, errors(tmp_path, number)
    study, recorded = open_last_job(tmp_path)
    assert study.run.ranks == tuple(range(count))
    assert sorted(node.host for node in recorded.nodes) == [f"node{n}" for n in range(count)]
    assert {node.status for node in recorded.nodes} == {"finished"}
    assert study.stragglers[0].rank == 1
    for node in recorded.nodes[1:]:  # their clock is in truth the same
        assert node.clock_source in {"collectives", "steps"}
        assert node.clock_error_ns is not None
        assert abs(node.clock_offset_ns) <= node.clock_error_ns
    assert not any("of rank" in unseen.why for unseen in recorded.unobserved)


def test_a_node_that_is_killed_is_there_as_far_as_it_was_recorded(tmp_path: Path) -> None:
    with network(2, tmp_path) as machines:
        commands = [start_node(machines, number, tmp_path, "100000", "-1") for number in (0, 1)]
        starting.wait_until(lambda: len(list(tmp_path.glob("runs/*/windows/*.gz"))) >= 2)
        kill_machine(machines.names[1])
        commands[0].wait(_TIMEOUT_S)  # its peer is gone
        commands[1].wait(_TIMEOUT_S)
    _, recorded = open_last_job(tmp_path)
    states = {node.host: node.status for node in recorded.nodes}
    assert states == {"node0": "failed", "node1": "killed"}
    assert recorded.life.status == "killed"
    assert {node.ranks for node in recorded.nodes} == {(0,), (1,)}


def test_ranks_that_were_started_anew_are_counted(tmp_path: Path) -> None:
    with network(2, tmp_path) as machines:
        commands = [start_node(machines, number, tmp_path, "120", "30") for number in (0, 1)]
        for number, command in enumerate(commands):
            assert command.wait(_TIMEOUT_S) == 0, errors(tmp_path, number)
    study, recorded = open_last_job(tmp_path)
    assert study.run.ranks == (0, 1)
    assert [node.restarts for node in recorded.nodes] == [1, 1]
    spans = [
        (process.rank, process.steps) for process in recorded.timeline.processes if process.followed
    ]
    assert spans == [(0, 120), (1, 120)]
    assert all(one[0] != another[0] for one, another in pairwise(spans))
