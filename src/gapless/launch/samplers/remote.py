"""Remote hosts: with which other machines the processes of the run have connections.

Looked at every second in ``/proc``: TCP connections to other machines, as far as they belong to a
process of the run. One that lives shorter than from look to look is not seen.
"""

import os
import re
import socket
import struct
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple

from msgspec import Struct, field

from gapless import wire
from gapless.launch.process_tree import Tree
from gapless.launch.unobserved import Journal

_PERIOD_S: Final = 1.0
# time between looks is at least so many times what one takes of a processor
_MIN_PAUSE_RATIO: Final = 500
_LISTENING: Final = b"0A"
_CONNECTED: Final = frozenset({b"01", b"04", b"05", b"08"})  # established, or being closed
_SOCKET: Final = re.compile(r"socket:\[(\d+)\]")
_MAX_LOOKS: Final = 3  # at a socket, which may be connected a moment after it was made
_MAX_HOSTS: Final = 1000  # hosts that are distinguished


class Peer(NamedTuple):
    """Another machine, by its address, and the port that was connected to."""

    address: str
    port: int


class ConnectionWatch(Struct):
    """What was seen so far of the connections of a run."""

    tree: Tree
    reported_peers: set[Peer] = field(default_factory=set[Peer])
    has_access: bool = False  # it could be seen at all what a process has open
    denied: str | None = None  # why that of some process could not
    _looks: dict[int, int] = field(default_factory=dict[int, int])  # by socket, of those open

    def find_new_hosts(self) -> list[tuple[Peer, str | None]]:
        """Return the hosts that are new since the last look, and the program that talks to each.

        The kernel takes 4 ms for a table of connections, however few there are: it is asked only
        while there are sockets that have not been looked up a few times.
        """
        owners = {
            inode: number
            for number in list(self.tree.members)
            for inode in self._find_open_sockets(number)
        }
        self._looks = {inode: self._looks.get(inode, 0) for inode in owners}
        new_owners = {inode: owners[inode] for inode in owners if self._looks[inode] < _MAX_LOOKS}
        new_hosts: list[tuple[Peer, str | None]] = []
        for inode, peer in self._connections(set(new_owners.values())):
            if (
                inode in new_owners
                and peer not in self.reported_peers
                and len(self.reported_peers) < _MAX_HOSTS
            ):
                self.reported_peers.add(peer)
                new_hosts.append((peer, self._program(owners[inode])))
        self._looks.update({inode: self._looks[inode] + 1 for inode in new_owners})
        return new_hosts

    def _find_open_sockets(self, number: int) -> set[int]:
        """Return the sockets that a process has open."""
        inodes: set[int] = set()
        with self._skip_forbidden(number):
            folder = f"{self.tree.proc}/{number}/fd/"
            for name in os.listdir(folder):  # noqa: PTH208 - pathlib takes four times as long
                with suppress(FileNotFoundError):  # closed since
                    match = _SOCKET.fullmatch(os.readlink(folder + name))  # noqa: PTH115
                    inodes |= {int(match[1])} if match else set()
            self.has_access = True
        return inodes

    def _connections(self, numbers: set[int]) -> Iterator[tuple[int, Peer]]:
        """Yield the sockets with a peer elsewhere, of each network that these processes are in.

        A network is looked at through the first process that is in it.
        """
        networks: set[str] = set()
        for number in sorted(numbers):
            folder = self.tree.proc / str(number)
            with self._skip_forbidden(number):
                network = str((folder / "ns" / "net").readlink())
                if network not in networks:
                    tables = [(folder / "net" / name) for name in ("tcp", "tcp6")]
                    yield from find_outgoing(
                        [path.read_bytes() for path in tables if path.exists()]
                    )
                    networks.add(network)

    @contextmanager
    def _skip_forbidden(self, number: int) -> Generator[None]:
        """Pass over what a process does not let us see; it may have ended."""
        try:
            yield
        except (FileNotFoundError, ProcessLookupError):
            pass
        except PermissionError as error:
            self.denied = f"{error.strerror}: connections of {self._program(number)}"

    def _program(self, number: int) -> str | None:
        with suppress(OSError):
            return (self.tree.proc / str(number) / "comm").read_text(errors="replace").strip()
        return None


def watch_until(stop: threading.Event, tree: Tree, journal: Journal) -> None:
    """Write a frame of the hosts that are new until stopped; the first one in any case."""
    watch, is_first = ConnectionWatch(tree), True
    while True:
        spent = time.thread_time()
        new_hosts = watch.find_new_hosts()
        if watch.denied is not None:
            journal.note("hosts", watch.denied)
        if new_hosts or (is_first and watch.has_access):
            is_first = False
            rows = [[peer.address, peer.port, program] for peer, program in new_hosts]
            body = {"ns": time.monotonic_ns(), "hosts": rows}
            journal.write(wire.text_frame(wire.HOSTS, body))
        if stop.wait(max(_PERIOD_S, (time.thread_time() - spent) * _MIN_PAUSE_RATIO)):
            return


def find_outgoing(tables: list[bytes]) -> Iterator[tuple[int, Peer]]:
    """Yield the sockets (by inode) connected to other machines, from tables of the kernel's.

    Not those that others opened to a port here that is listened at.
    """
    rows = [line.split() for table in tables for line in table.splitlines()[1:]]
    ports = {row[1].rpartition(b":")[2] for row in rows if row[3] == _LISTENING}
    for row in rows:
        local_end, remote_end = row[1], row[2]
        if row[3] in _CONNECTED and local_end.rpartition(b":")[2] not in ports and row[9] != b"0":
            peer = _peer(remote_end)
            if not _is_here(peer) and peer.address != _peer(local_end).address:
                yield int(row[9]), peer


def _peer(text: bytes) -> Peer:
    """Return an address and port of the kernel's: 32-bit words as they lie in memory, in hex."""
    address, _, port = text.decode("ascii").partition(":")
    words = [int(address[index : index + 8], 16) for index in range(0, len(address), 8)]
    raw = struct.pack(f"={len(words)}I", *words)
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    ip = ip_address(socket.inet_ntop(family, raw))
    mapped = ip.ipv4_mapped if isinstance(ip, IPv6Address) else None
    return Peer(str(mapped or ip), int(port, 16))


def _is_here(peer: Peer) -> bool:
    address = ip_address(peer.address)
    return address.is_loopback or address.is_unspecified
