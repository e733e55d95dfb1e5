"""Connections to other machines: how fast TCP carries what is sent to each.

``connection.INTERFACE LOCAL PEER.sent`` in bytes a second that the peer has acknowledged;
``.busy`` in per cent of the time in which something was on its way, but for what waits for the
peer to read; ``.resent`` in bytes a second. The kernel lists them (sock_diag(7)), as ``ss -ti``.
"""

import fcntl
import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple

from msgspec import Struct, field

from gapless.launch.samplers import AbsentError, Sampler, Values, round_value

_SOCK_DIAG: Final = 4  # NETLINK_SOCK_DIAG
_BY_FAMILY: Final = 20  # SOCK_DIAG_BY_FAMILY
_REQUEST, _DUMP, _DONE, _ERROR = 1, 0x300, 3, 2
_ESTABLISHED: Final = 1
_INFO: Final = 2  # INET_DIAG_INFO
_HEADER: Final = struct.Struct("=IHHII")  # length, type, flags, sequence, sender
_QUESTION: Final = struct.Struct("=BBBBI48x")  # family, protocol, extensions, states
_MESSAGE_BYTES: Final = 72  # struct inet_diag_msg
_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)
_ACKED, _BUSY, _UNREAD, _RESENT = 120, 168, 176, 208  # offsets in struct tcp_info: 8 bytes each
_INFO_BYTES: Final = _RESENT + 8
_BUFFER: Final = 1 << 17
_MAX_MESSAGES: Final = 64  # of the kernel's, some 75 connections each: 5,000
_MAX_PEERS: Final = 16  # that are told of
_MIN_BYTES_PER_S: Final = 100_000  # less is talk
_ADDRESS_OF: Final = 0x8915  # SIOCGIFADDR
_ADDRESSES_6: Final = "/proc/net/if_inet6"
_PER_CENT_OF_US: Final = 1e5  # a per cent of a second's nanoseconds, in microseconds
_S: Final = 10**9
# time between looks is at least so many times what one takes of a processor: thousands take ms
_MIN_PAUSE_RATIO: Final = 1000


class Connection(NamedTuple):
    """A connection, and what the kernel counted of it since it began."""

    cookie: int
    local: str
    peer: str
    acked: int  # bytes
    busy_us: int
    resent: int  # bytes


class Flow(Struct):
    """What grew between two samples, of all connections to a peer."""

    sent: int = 0
    busy_us: int = 0  # of the busiest: they share the link
    resent: int = 0


class ConnectionGrowth(Struct):
    """What was counted of each connection when it was looked at last."""

    _counts: dict[int, Connection] = field(default_factory=dict[int, Connection])
    _looked: int | None = None
    _named: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def sample(self, now: int, connections: list[Connection]) -> Values:
        """Return how fast each of the busiest peers was sent to since the last look."""
        flows: dict[tuple[str, str], Flow] = {}
        for connection in connections:
            before = self._counts.get(connection.cookie)
            if before is not None:
                flow = flows.setdefault((connection.local, connection.peer), Flow())
                flow.sent += connection.acked - before.acked
                flow.busy_us = max(flow.busy_us, connection.busy_us - before.busy_us)
                flow.resent += connection.resent - before.resent
        self._counts = {connection.cookie: connection for connection in connections}
        looked, self._looked = self._looked, now
        elapsed_ns = 0 if looked is None else now - looked
        return self._rates(flows, elapsed_ns) if elapsed_ns > 0 else {}

    def _rates(self, flows: dict[tuple[str, str], Flow], elapsed_ns: int) -> Values:
        """Return the rates of the peers that much was ever sent to."""
        for pair, flow in sorted(flows.items(), key=lambda item: -item[1].sent):
            if flow.sent * _S >= _MIN_BYTES_PER_S * elapsed_ns and len(self._named) < _MAX_PEERS:
                self._named.add(pair)
        interfaces = _interfaces() if self._named else {}
        values: Values = {}
        for local, peer in sorted(self._named):
            flow = flows.get((local, peer), Flow())
            prefix = f"connection.{interfaces.get(local, '?')} {local} {peer}"
            busy = min(100.0, flow.busy_us * _PER_CENT_OF_US / elapsed_ns)
            values[f"{prefix}.sent"] = round_value(flow.sent * _S / elapsed_ns)
            values[f"{prefix}.busy"] = round_value(busy)
            if flow.resent:
                values[f"{prefix}.resent"] = round_value(flow.resent * _S / elapsed_ns)
        return values


def open_sampler() -> Sampler:
    """Return the sampler of connections."""
    growth = ConnectionGrowth()
    try:
        list(_connections())
    except (OSError, AttributeError) as error:
        raise AbsentError(f"the kernel does not list connections: {error}") from error
    next_ns = 0

    def sample(now: int) -> Values:
        nonlocal next_ns
        if now < next_ns:
            return {}
        spent_s = time.thread_time()
        connections = list(_connections())
        next_ns = now + round((time.thread_time() - spent_s) * _MIN_PAUSE_RATIO * _S)
        return growth.sample(now, connections)

    return sample


def _connections() -> Iterator[Connection]:
    """Yield the connections to other machines."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.settimeout(1.0)
        for family in _FAMILIES:
            question = _QUESTION.pack(
                family, socket.IPPROTO_TCP, 1 << (_INFO - 1), 0, 1 << _ESTABLISHED
            )
            size = _HEADER.size + len(question)
            kernel.send(_HEADER.pack(size, _BY_FAMILY, _REQUEST | _DUMP, family, 0) + question)
            for body in _answers(kernel):
                connection = parse_connection(body)
                if connection is not None:
                    yield connection


def _answers(kernel: socket.socket) -> Iterator[bytes]:
    for _ in range(_MAX_MESSAGES):
        packet, start = kernel.recv(_BUFFER), 0
        while start + _HEADER.size <= len(packet):
            size, kind, _, _, _ = _HEADER.unpack_from(packet, start)
            body = packet[start + _HEADER.size : start + size]
            if kind == _DONE:
                return
            if kind == _ERROR:
                raise OSError(-struct.unpack_from("=i", body)[0], "sock_diag")
            yield body
            start += (max(size, _HEADER.size) + 3) & ~3
    raise OSError("there are too many of them")


def parse_connection(body: bytes) -> Connection | None:
    """Return what an answer of the kernel's tells; ``None``: a peer here, or no counts."""
    info = _attribute(body, _INFO)
    if info is None or len(info) < _INFO_BYTES:
        return None
    local, peer = _address(body[0], body[8:24]), _address(body[0], body[24:40])
    if local == peer or ip_address(peer).is_loopback:
        return None
    (cookie,) = struct.unpack_from("=Q", body, 44)
    acked, busy_us, unread_us, resent = (
        struct.unpack_from("=Q", info, offset)[0] for offset in (_ACKED, _BUSY, _UNREAD, _RESENT)
    )
    return Connection(cookie, local, peer, acked, busy_us - unread_us, resent)


def _attribute(body: bytes, kind: int) -> bytes | None:
    start = _MESSAGE_BYTES
    while start + 4 <= len(body):
        size, number = struct.unpack_from("=HH", body, start)
        if number == kind:
            return body[start + 4 : start + size]
        start += (max(size, 4) + 3) & ~3
    return None


def _address(family: int, raw: bytes) -> str:
    if family == socket.AF_INET:
        return str(ip_address(raw[:4]))
    address = ip_address(raw)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


def _interfaces() -> dict[str, str]:
    """Return the names of interfaces by their addresses."""
    names: dict[str, str] = {}
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # it has no such address
                request = struct.pack("40s", os.fsencode(name)[:15])
                raw = fcntl.ioctl(asking, _ADDRESS_OF, request)[20:24]
                names.setdefault(str(ip_address(raw)), name)
    with suppress(OSError), open(_ADDRESSES_6, encoding="ascii") as file:  # noqa: PTH123
        for line in file:
            words = line.split()
            names.setdefault(str(ip_address(bytes.fromhex(words[0]))), words[-1])
    return names
