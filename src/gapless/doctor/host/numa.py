"""Nodes of memory."""

from typing import Final

from gapless.doctor.answers import CheckAnswer, ok, unknown, warn
from gapless.doctor.host_files import HostFiles, parse_numbers
from gapless.doctor.subject import CheckSubject

_NODES: Final = "sys/devices/system/node"
_BALANCING: Final = "proc/sys/kernel/numa_balancing"


def examine(subject: CheckSubject) -> CheckAnswer:
    """Look at NUMA nodes, and whether the kernel moves pages between them.

    Automatic balancing unmaps pages to see who uses them. Trainings whose buffers are pinned and
    shared pay for that and gain nothing; NVIDIA advises to turn it off on GPU servers.
    """
    nodes = read_nodes(subject.files)
    if not nodes:
        return unknown("the kernel shows no NUMA nodes")
    if len(nodes) == 1:
        return ok("one node")
    words = f"{len(nodes)} nodes"
    if subject.allowed_cpus is not None:
        used_nodes = [number for number, cpus in nodes.items() if cpus & subject.allowed_cpus]
        words += f", of which this process may use {len(used_nodes)}"
    if subject.files.number(_BALANCING) == 1 and subject.survey.gpus:
        evidence = f"{words}; the kernel moves pages between them (numa_balancing)"
        return warn(evidence, "sudo sysctl kernel.numa_balancing=0")
    return ok(words)


def read_nodes(files: HostFiles) -> dict[int, frozenset[int]]:
    """Return the processors of each node that has memory."""
    names = [name for name in files.names(_NODES) if name[4:].isdecimal() and name[:4] == "node"]
    return {int(name[4:]): parse_numbers(files.text(f"{_NODES}/{name}/cpulist")) for name in names}
