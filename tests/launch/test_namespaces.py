"""Two machines of one job, as network namespaces of this one with a host name and a delay each."""

import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from gapless.store.run import jobs, runs
from gapless.study import Options, open_job

NODES = (0, 1)
DELAY = "2ms"
TRAINING = """
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
torch.set_num_threads(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.randn(300 * 8, 64))
for (batch,) in torch.utils.data.DataLoader(data, batch_size=8):
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
"""


def command(words: str) -> None:
    subprocess.run(words.split(), check=True, capture_output=True, text=True)


@pytest.fixture
def namespaces() -> Generator[list[str]]:
    """Make two namespaces with a link between them: names, by node."""
    names = [f"gapless{os.getpid()}-{node}" for node in NODES]
    links = [f"gl{os.getpid()}{node}" for node in NODES]
    if shutil.which("ip") is None:
        pytest.skip("there is no ip here")
    try:
        for name in names:
            command(f"ip netns add {name}")
        command(f"ip link add {links[0]} type veth peer name {links[1]}")
    except subprocess.CalledProcessError as error:
        _remove(names)
        pytest.skip(f"namespaces are not allowed here: {error.stderr.strip()}")
    try:
        for node, (name, link) in enumerate(zip(names, links, strict=True)):
            command(f"ip link set {link} netns {name}")
            command(f"ip -n {name} link set {link} name eth0")
            command(f"ip -n {name} addr add 10.77.0.{node + 1}/24 dev eth0")
            command(f"ip -n {name} link set eth0 up")
            command(f"ip -n {name} link set lo up")
            subprocess.run(  # a kernel without netem has no delay, and the test holds without it
                f"ip netns exec {name} tc qdisc add dev eth0 root netem delay {DELAY}".split(),
                check=False,
                capture_output=True,
            )
        yield names
    finally:
        _remove(names)


def _remove(names: list[str]) -> None:
    for name in names:
        subprocess.run(f"ip netns del {name}".split(), check=False, capture_output=True)


@pytest.mark.slow
def test_nodes_are_joined_and_their_clocks_agree_within_the_error(
    namespaces: list[str], tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    processes = [start_node(node, name, script) for node, name in enumerate(namespaces)]
    assert [process.wait(240) for process in processes] == [0, 0]
    folders = [jobs.find_job_runs(runs.find(tmp_path / f"runs{node}", runs.LAST_RUN))[0]
               for node in NODES]  # fmt: skip
    recorded = open_job(folders, Options(cache=False)).recorded
    assert recorded is not None
    assert [(node.host, node.ranks) for node in recorded.nodes] == [("box0", (0,)), ("box1", (1,))]
    second = recorded.nodes[1]
    assert second.clock_source in {"collectives", "steps"}
    assert second.clock_error_ns is not None
    assert abs(second.clock_offset_ns) <= second.clock_error_ns  # it is one clock


def start_node(node: int, name: str, script: Path) -> "subprocess.Popen[bytes]":
    """Start a node of the job as its user does, in a namespace."""
    torchrun = (  # static: c10d looks up the host's name, which no server knows
        f"torchrun --nnodes 2 --nproc-per-node 1 --node-rank {node} --rdzv-id 7"
        f" --rdzv-backend static --master-addr 10.77.0.1 --master-port 29500 {script}"
    )
    runs_folder = script.parent / f"runs{node}"
    gapless = f"{sys.executable} -m gapless run --quiet --out {runs_folder} {torchrun}"
    return subprocess.Popen(
        [*f"ip netns exec {name} unshare --uts sh -c".split(),
         f"hostname box{node} && exec {gapless}"],
        env={**os.environ, "GLOO_SOCKET_IFNAME": "eth0"},
        cwd=script.parent,
    )  # fmt: skip
