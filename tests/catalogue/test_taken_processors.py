"""Processors that others took: what does not want one is no part of the price."""

from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.example_facts import cpu, loader, machine, world
from gapless.catalogue.examples.parts import example_use, example_workers
from gapless.catalogue.rules.machine.taken_processors import taken_processors
from gapless.model.change import HostChange
from gapless.model.finding import Detection
from gapless.model.run import CpuContention


def wait_factors(blocked: float) -> list[float]:
    """Return the factors of the waits for data, of which so much is spent asleep."""
    workers = example_workers(0, {"other": 1.0}, on_cpu=1 - blocked, run_queue=0.0, blocked=blocked)
    use = example_use(loader(), {"other": 20.0}, workers)
    leaves = {"busy.math": 20.0, "idle.data.other": 20.0}
    facts = cpu(loader(), machine(cpus=2, intra_op_threads=1, device=None))
    (detection,) = taken_processors(evidence_of(facts, leaves, use, CpuContention(1.0, 0.0, 2)))
    assert isinstance(detection, Detection)
    host_changes = [change for change in detection.changes if isinstance(change, HostChange)]
    return [change.factor.mid for change in host_changes if change.leaves == ("idle.data",)]


def test_waits_for_storage_are_not_shorter_on_more_processors() -> None:
    assert wait_factors(blocked=0.0) == [0.75]
    assert wait_factors(blocked=0.5) == [0.875]
    assert wait_factors(blocked=1.0) == []


def test_ranks_of_a_host_share_the_processors_that_others_leave() -> None:
    facts = cpu(world(ranks=2), machine(cpus=16, intra_op_threads=8, device=None))
    evidence = evidence_of(facts, {"busy.math": 20.0}, CpuContention(8.0, 0.0, 16))
    (detection,) = taken_processors(evidence)
    assert isinstance(detection, Detection)
    assert [request.value for request in detection.helps] == ["4"]
