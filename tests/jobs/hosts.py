"""Hosts of a job on this machine: network namespaces behind a switch, whose links can be slowed.

Needs root, ``ip`` and ``tc``; a delay ``/dev/net/tun``.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

ROOT: Final = Path(__file__).resolve().parents[2]
_CABLE: Final = Path(__file__).with_name("long_cable.py")
_MTU: Final = 9000  # bytes
_BURST: Final = "64kb"
_QUEUE: Final = "50ms"


class UnavailableError(Exception):
    """Namespaces are not allowed here, or what makes them is not installed."""


class Limit(Struct, frozen=True):
    """What a link is slowed to, in both directions unless it is only that of what is sent."""

    mbit: int
    delay_ms: float = 0.0  # each way
    only_sent: bool = False


def find_limits(options: Mapping[str, Any]) -> dict[int, Limit]:
    """Return the limits of a case's links, by host: of the last one, or of all."""
    if not options.get("link_mbit"):
        return {}
    limit = Limit(
        options["link_mbit"], options.get("link_delay_ms", 0.0), options.get("only_sent", False)
    )
    count = options["hosts"]
    return dict.fromkeys(range(count) if options.get("all_slow") else (count - 1,), limit)


class Hosts(Struct, frozen=True):
    """Some hosts: the names of their namespaces, and that of their switch."""

    names: tuple[str, ...]
    switch: str

    def slow(self, host: int, limit: Limit) -> None:
        """Slow the link of a host."""
        if limit.delay_ms:
            _command(f"ip -n {self.switch} link set port{host} master far{host}")
        rate = f"root tbf rate {limit.mbit}mbit burst {_BURST} latency {_QUEUE}"
        _command(f"tc -n {self.names[host]} qdisc replace dev eth0 {rate}")
        if not limit.only_sent:
            _command(f"tc -n {self.switch} qdisc replace dev port{host} {rate}")

    def free(self, host: int, _: Limit | None = None) -> None:
        """Let the link of a host be as fast as it can."""
        _command(f"ip -n {self.switch} link set port{host} master near")
        for namespace, link in ((self.names[host], "eth0"), (self.switch, f"port{host}")):
            _attempt(f"tc -n {namespace} qdisc del dev {link} root")

    @contextmanager
    def started(
        self, commands: Sequence[Sequence[str]]
    ) -> "Generator[list[subprocess.Popen[bytes]]]":
        """Start a command on each host, which takes it for a machine; end what is left of it."""
        nodes: list[subprocess.Popen[bytes]] = []
        try:
            for host, command in enumerate(commands):
                name = f'hostname box{host} && exec "$@"'
                inside = f"ip netns exec {self.names[host]} unshare --uts sh -c".split()
                nodes.append(
                    subprocess.Popen(
                        [*inside, name, "-", *command],
                        env={**os.environ, "GLOO_SOCKET_IFNAME": "eth0"},
                        cwd=ROOT,
                        start_new_session=True,
                    )
                )
            yield nodes
        finally:
            for node in nodes:
                if node.poll() is None:
                    os.killpg(node.pid, signal.SIGKILL)
                node.wait()

    def torchrun(self, host: int, *arguments: str) -> list[str]:
        """Return the command that starts one rank on a host, of a job on all of them."""
        nodes = f"--nnodes {len(self.names)} --nproc-per-node 1 --node-rank {host} --rdzv-id 7"
        # static: c10d looks up the host's name, which no server knows
        meeting = "--rdzv-backend static --master-addr 10.77.0.1 --master-port 29500"
        start = [sys.executable, "-m", "torch.distributed.run"]
        return [*start, *nodes.split(), *meeting.split(), *arguments]


@contextmanager
def open_hosts(count: int, limits: Mapping[int, Limit] | None = None) -> Generator[Hosts]:
    """Make hosts with fast links, but for some. Raises ``UnavailableError``."""
    limits = limits or {}
    tag = f"gl{os.getpid()}"
    hosts = Hosts(tuple(f"{tag}-{host}" for host in range(count)), f"{tag}-switch")
    if shutil.which("ip") is None or shutil.which("tc") is None:
        raise UnavailableError("there is no ip, or no tc, here")
    cables: list[subprocess.Popen[bytes]] = []
    try:
        _make_switch(hosts)
        for host in range(count):
            _connect(hosts, host)
        for host, limit in limits.items():
            if limit.delay_ms:
                cables.append(_lay_cable(hosts, host, limit.delay_ms))
            hosts.slow(host, limit)
        yield hosts
    finally:
        for cable in cables:
            cable.kill()
            cable.wait()
        for name in (*hosts.names, hosts.switch):
            _attempt(f"ip netns del {name}")


def _make_switch(hosts: Hosts) -> None:
    try:
        for name in (*hosts.names, hosts.switch):
            _command(f"ip netns add {name}")
        _command(f"ip -n {hosts.switch} link add near type bridge")
    except subprocess.CalledProcessError as error:
        raise UnavailableError(
            f"namespaces are not allowed here: {error.stderr.strip()}"
        ) from error
    _command(f"ip -n {hosts.switch} link set near up")


def _connect(hosts: Hosts, host: int) -> None:
    name, switch = hosts.names[host], hosts.switch
    _command(
        f"ip -n {switch} link add port{host} mtu {_MTU} type veth "
        f"peer name eth0 mtu {_MTU} netns {name}"
    )
    _command(f"ip -n {switch} link set port{host} master near up")
    _command(f"ip -n {name} addr add 10.77.0.{host + 1}/24 dev eth0")
    _command(f"ip -n {name} link set eth0 up")
    _command(f"ip -n {name} link set lo up")


def _lay_cable(hosts: Hosts, host: int, delay_ms: float) -> "subprocess.Popen[bytes]":
    """Make a second switch, between which and the first frames take their time."""
    switch = hosts.switch
    _command(f"ip -n {switch} link add far{host} type bridge")
    _command(f"ip -n {switch} link set far{host} up")
    words = f"ip netns exec {switch} {sys.executable} {_CABLE} in{host} out{host} {delay_ms}"
    cable = subprocess.Popen(words.split(), stdout=subprocess.PIPE)
    if cable.stdout is None or not cable.stdout.readline():
        raise UnavailableError("there is no /dev/net/tun here")
    for end, bridge in ((f"in{host}", f"far{host}"), (f"out{host}", "near")):
        _command(f"ip -n {switch} link set {end} mtu {_MTU} master {bridge} up")
    return cable


def _command(words: str) -> None:
    subprocess.run(words.split(), check=True, capture_output=True, text=True)


def _attempt(words: str) -> None:
    subprocess.run(words.split(), check=False, capture_output=True)
