"""Remote hosts: whom the processes of a run talk to, and whom not."""

import sys
import threading
from ipaddress import ip_address
from pathlib import Path

from gapless import wire
from gapless.launch.process_tree import Tree
from gapless.launch.samplers.remote import ConnectionWatch, Peer, find_outgoing, watch_until
from gapless.launch.unobserved import Journal
from gapless.store.run import recordings
from tests.launch import starting

_HEAD = "  sl  local_address rem_address   st tx rx tr tm retrnsmt uid timeout inode\n"
CONNECTED, LISTENING, WAITING = "01", "0A", "06"


def word(address: str, port: int) -> str:
    """Return an address as the kernel writes it."""
    raw = ip_address(address).packed
    groups = [raw[start : start + 4] for start in range(0, len(raw), 4)]
    words = [f"{int.from_bytes(group, sys.byteorder):08X}" for group in groups]
    return f"{''.join(words)}:{port:04X}"


def row(local_end: tuple[str, int], remote_end: tuple[str, int], state: str, inode: int) -> str:
    return f" 0: {word(*local_end)} {word(*remote_end)} {state} 0:0 00:0 0 1000 0 {inode} 1 0\n"


OWN_ADDRESS = "10.1.2.3"
TCP = _HEAD + "".join(
    [
        row((OWN_ADDRESS, 40000), ("34.120.0.9", 443), CONNECTED, 11),
        row(("127.0.0.1", 40001), ("127.0.0.1", 29500), CONNECTED, 12),  # a rank of the same host
        row((OWN_ADDRESS, 40002), (OWN_ADDRESS, 29500), CONNECTED, 13),  # likewise
        row(("0.0.0.0", 6006), ("0.0.0.0", 0), LISTENING, 14),  # noqa: S104
        row(
            (OWN_ADDRESS, 6006), ("10.9.9.9", 50000), CONNECTED, 15
        ),  # somebody looks at a TensorBoard
        row((OWN_ADDRESS, 40003), ("34.120.0.7", 443), WAITING, 0),
        row((OWN_ADDRESS, 40004), ("10.1.2.99", 2049), CONNECTED, 16),  # another program's
    ]
)
TCP6 = _HEAD + "".join(
    [
        row(("::1", 40005), ("::1", 29500), CONNECTED, 21),
        row(("::ffff:10.1.2.3", 40006), ("::ffff:52.0.0.1", 443), CONNECTED, 22),
        row(("2001:db8::1", 40007), ("2001:db8::2", 9000), CONNECTED, 23),
    ]
)


def draw_process(
    proc: Path, number: int, name: str, sockets: tuple[int, ...], network: str
) -> None:
    """Draw a process in a folder like ``/proc``."""
    folder = proc / str(number)
    for subfolder in ("fd", "net", "ns"):
        (folder / subfolder).mkdir(parents=True)
    (folder / "comm").write_text(f"{name}\n")
    (folder / "ns" / "net").symlink_to(network)
    (folder / "net" / "tcp").write_text(TCP)
    (folder / "net" / "tcp6").write_text(TCP6)
    (folder / "fd" / "0").symlink_to("/dev/null")
    for descriptor, inode in enumerate(sockets, 3):
        (folder / "fd" / str(descriptor)).symlink_to(f"socket:[{inode}]")


def draw_tree(tmp_path: Path) -> Tree:
    draw_process(tmp_path, 100, "python", (12, 13, 15, 22), "net:[1]")
    draw_process(tmp_path, 101, "wandb-core", (11, 23), "net:[1]")
    return Tree(100, tmp_path / "spool", tmp_path, {100: 1, 101: 1})


def test_only_connections_that_were_made_to_other_machines_count() -> None:
    assert dict(find_outgoing([TCP.encode(), TCP6.encode()])) == {
        11: Peer("34.120.0.9", 443),
        16: Peer("10.1.2.99", 2049),
        22: Peer("52.0.0.1", 443),
        23: Peer("2001:db8::2", 9000),
    }


def test_tells_each_host_of_the_runs_processes_once_and_who_talks_to_it(tmp_path: Path) -> None:
    watch = ConnectionWatch(draw_tree(tmp_path))
    assert sorted(watch.find_new_hosts()) == [
        (Peer("2001:db8::2", 9000), "wandb-core"),
        (Peer("34.120.0.9", 443), "wandb-core"),
        (Peer("52.0.0.1", 443), "python"),
    ]
    assert watch.find_new_hosts() == []


def test_a_process_that_came_later_is_looked_at(tmp_path: Path) -> None:
    tree = draw_tree(tmp_path)
    watch = ConnectionWatch(tree)
    watch.find_new_hosts()
    draw_process(tmp_path, 102, "rclone", (16,), "net:[1]")
    tree.members[102] = 1
    assert watch.find_new_hosts() == [(Peer("10.1.2.99", 2049), "rclone")]


def test_says_whose_connections_it_may_not_see(tmp_path: Path) -> None:
    watch = ConnectionWatch(draw_tree(tmp_path))
    with watch._skip_forbidden(101):  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        raise PermissionError(13, "Permission denied")
    assert watch.denied == "Permission denied: connections of wandb-core"


def test_hosts_reach_the_recording_and_none_is_another_thing_than_not_looked(
    tmp_path: Path,
) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    stop = threading.Event()
    stop.set()
    watch_until(stop, draw_tree(tmp_path / "proc"), Journal(spool))
    run = tmp_path / "run"
    (run / "logs").mkdir(parents=True)
    (spool / "samples.log").rename(run / "logs" / "samples.log")
    hosts = recordings.load(run).samples.hosts
    assert hosts is not None
    assert {(host.address, host.port, host.program) for host in hosts} == {
        ("34.120.0.9", 443, "wandb-core"),
        ("52.0.0.1", 443, "python"),
        ("2001:db8::2", 9000, "wandb-core"),
    }
    frame = wire.text_frame(wire.UNOBSERVED, {"what": "hosts", "why": "no rights"})
    (run / "logs" / "samples.log").write_bytes(frame)
    assert recordings.load(run).samples.hosts is None


def test_a_run_that_talks_to_nobody_has_no_hosts(tmp_path: Path) -> None:
    script = """
import os, time
log, end = os.path.join(os.environ["GAPLESS_SPOOL"], "samples.log"), time.monotonic() + 100
while not os.path.exists(log) or b'"hosts"' not in open(log, "rb").read():
    assert time.monotonic() < end
    time.sleep(0.05)
"""
    process = starting.run((sys.executable, "-c", script), tmp_path, "--quiet")
    assert process.returncode == 0
    assert recordings.load(starting.run_folder(tmp_path)).samples.hosts == ()
