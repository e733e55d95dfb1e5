"""The sampler of connections: what is sent to each machine, and how long it is on its way."""

import struct

import pytest

from gapless.launch.samplers import AbsentError, connections
from gapless.launch.samplers.connections import Connection, ConnectionGrowth

S = 10**9
MB = 10**6


def connection(cookie: int, peer: str, sent_mb: int, busy_ms: int, resent: int = 0) -> Connection:
    return Connection(cookie, "10.0.0.1", peer, sent_mb * MB, busy_ms * 1000, resent)


def answer(local: str, peer: str, *, acked: int, busy_us: int, unread_us: int) -> bytes:
    """Return what the kernel says of a connection: inet_diag_msg, then attributes."""
    addresses = b"".join(
        bytes(map(int, text.split("."))).ljust(16, b"\0") for text in (local, peer)
    )
    message = struct.pack("=BBBB4x32s4xQ20x", 2, 1, 0, 0, addresses, 77)
    info = bytearray(240)
    struct.pack_into("=Q", info, 120, acked)
    struct.pack_into("=QQ", info, 168, busy_us, unread_us)
    struct.pack_into("=Q", info, 208, 5)
    other = struct.pack("=HH4x", 8, 3)
    return message + other + struct.pack("=HH", 4 + len(info), 2) + bytes(info)


def test_the_kernels_answer_is_read() -> None:
    body = answer("10.0.0.1", "10.0.0.2", acked=1000, busy_us=300, unread_us=100)
    assert connections.parse_connection(body) == Connection(
        77, "10.0.0.1", "10.0.0.2", 1000, 200, 5
    )


@pytest.mark.parametrize("peer", ["127.0.0.1", "10.0.0.1"])
def test_connections_within_the_machine_do_not_count(peer: str) -> None:
    body = answer("10.0.0.1", peer, acked=1, busy_us=1, unread_us=0)
    assert connections.parse_connection(body) is None


def test_a_kernel_that_counts_less_tells_nothing() -> None:
    body = answer("10.0.0.1", "10.0.0.2", acked=1, busy_us=1, unread_us=0)
    assert connections.parse_connection(body[:200]) is None


def test_connections_to_a_peer_share_the_link() -> None:
    growth = ConnectionGrowth()
    assert growth.sample(0, [connection(1, "b", 100, 100), connection(2, "b", 0, 0)]) == {}
    values = growth.sample(2 * S, [connection(1, "b", 120, 900), connection(2, "b", 10, 1100, 500)])
    assert values == {
        "connection.? 10.0.0.1 b.sent": 15 * MB,
        "connection.? 10.0.0.1 b.busy": 55,  # of the busiest
        "connection.? 10.0.0.1 b.resent": 250,
    }


def test_a_peer_is_told_of_once_much_was_sent_to_it() -> None:
    growth = ConnectionGrowth()
    for number, sent_mb in enumerate((0, 0, 50, 50)):
        values = growth.sample(number * S, [connection(1, "b", sent_mb, sent_mb)])
        expected = {2: 50 * MB, 3: 0}
        if number in expected:
            assert values["connection.? 10.0.0.1 b.sent"] == expected[number]
        else:
            assert values == {}


def test_a_new_connection_counts_from_its_second_look() -> None:
    growth = ConnectionGrowth()
    growth.sample(0, [])
    assert growth.sample(S, [connection(1, "b", 500, 900)]) == {}


def test_this_kernel_lists_connections_or_it_is_said_why_not() -> None:
    try:
        sampler = connections.open_sampler()
    except AbsentError as error:
        assert "the kernel does not list connections" in str(error)  # noqa: PT017
    else:
        assert all(name.startswith("connection.") for name in sampler(S))
