"""What machines of a job send to one another: joined by their addresses."""

import pytest

from gapless.model.recording import Recording
from gapless.recorded.facts import facts
from gapless.recorded.nodes.join import join_recordings
from gapless.report.run.nodes import node_lines
from gapless.study import study_recording
from tests.study.recording import recording
from tests.study.test_nodes import UNCACHED, log_of_node

MB = 10**6
TIMES = [0.0, 500.0, 1000.0, 1400.0, 1900.0]  # two of them within the steps


def node(
    number: int,
    peer: str,
    sent_mb: float,
    busy: float,
    *,
    stated: int,
    interface: str = "eth0",
    local: str | None = None,
) -> Recording:
    prefix = f"connection.{interface} {local or f'10.0.0.{number}'} {peer}"
    series = {
        f"{prefix}.sent": (TIMES, [0.0, *[sent_mb * MB] * 3, 0.0]),
        f"{prefix}.busy": (TIMES, [0.0, *[busy] * 3, 0.0]),
        f"{prefix}.resent": ([1000.0], [0.03 * sent_mb * MB]),
        "cpu.total": (TIMES[:1], [100.0]),
    }
    log = log_of_node(number, links={"eth0": stated})
    return recording(log, path=f"run{number}", ended_ms=2000, series=series, host=f"box{number}")


def test_machines_are_known_by_the_addresses_that_they_send_from() -> None:
    runs = [
        node(0, "10.0.0.1", 12, 8.0, stated=10_000),
        node(1, "10.0.0.0", 11.5, 92.0, stated=1000),
    ]
    joined = join_recordings(runs, UNCACHED, lambda _: None)
    world = facts(joined).world
    first, second = world.exchanges
    assert (first.host, first.peer, first.interface) == ("box0", "box1", "eth0")
    assert (second.host, second.peer) == ("box1", "box0")
    assert first.bytes_per_s == pytest.approx(150 * MB)
    assert second.bytes_per_s == pytest.approx(12.5 * MB)
    assert (first.busy_share, second.busy_share) == pytest.approx((0.08, 0.92))
    assert second.resent_share == pytest.approx(0.015)  # the other sample had none
    assert world.host_links == {"box0": {"eth0": 10_000}, "box1": {"eth0": 1000}}


def test_what_is_sent_to_others_than_the_job_does_not_count() -> None:
    runs = [node(0, "10.9.9.9", 12, 8.0, stated=1), node(1, "10.0.0.0", 12, 92.0, stated=1)]
    (exchange,) = facts(join_recordings(runs, UNCACHED, lambda _: None)).world.exchanges
    assert exchange.host == "box1"
    assert facts(runs[0]).world.exchanges == ()


def test_the_report_says_what_each_machine_sends() -> None:
    runs = [node(0, "10.0.0.1", 12, 8.0, stated=1), node(1, "10.0.0.0", 11.5, 92.0, stated=1)]
    joined = join_recordings(runs, UNCACHED, lambda _: None)
    recorded = study_recording(joined, UNCACHED).recorded
    assert recorded is not None
    first, second = node_lines(recorded)
    assert first.endswith("sends 0.1 GB/s to box1 through eth0, 8.0 % of the time")
    assert second.endswith("sends 12.5 MB/s to box0 through eth0, 92.0 % of the time")


def test_an_interface_without_a_name_is_not_spoken_of() -> None:
    runs = [
        node(0, "10.0.0.1", 12, 8.0, stated=1, interface="?"),
        node(1, "10.0.0.0", 11.5, 92.0, stated=1),
    ]
    joined = join_recordings(runs, UNCACHED, lambda _: None)
    recorded = study_recording(joined, UNCACHED).recorded
    assert recorded is not None
    first, _ = node_lines(recorded)
    assert first.endswith("sends 0.1 GB/s to box1, 8.0 % of the time")


def test_an_address_that_several_machines_have_tells_nothing() -> None:
    bridged = "172.17.0.2"
    runs = [
        node(0, bridged, 12, 8.0, stated=1),
        node(1, "10.0.0.0", 12, 8.0, stated=1, local=bridged),
        node(2, "10.0.0.0", 12, 92.0, stated=1, local=bridged),
    ]
    joined = join_recordings(runs, UNCACHED, lambda _: None)
    assert facts(joined).world.exchanges == ()
