"""Processors near each GPU."""

from functools import partial

from gapless.catalogue.declare.cpu_lists import format_cpu_list
from gapless.doctor.answers import CheckAnswer, examine_gpus, ok, unknown, warn
from gapless.doctor.gpus import GpuReading
from gapless.doctor.host.numa import read_nodes
from gapless.doctor.host_files import parse_numbers
from gapless.doctor.subject import CheckSubject


def examine(subject: CheckSubject) -> CheckAnswer:
    """Look whether this process may use processors of each GPU's own NUMA node.

    Launches and copies from the other socket cross the link between sockets.
    """
    return examine_gpus(subject.survey, partial(_examine_gpu, subject))


def _examine_gpu(subject: CheckSubject, gpu: GpuReading) -> CheckAnswer:
    nodes = read_nodes(subject.files)
    if len(nodes) == 1:
        return ok("one NUMA node: all processors are near")
    folder = f"sys/bus/pci/devices/{gpu.bus}"
    near = parse_numbers(subject.files.text(f"{folder}/local_cpulist"))
    if gpu.bus is None or not near or subject.allowed_cpus is None:
        return unknown("the kernel does not show which processors are near it")
    allowed_near = near & subject.allowed_cpus
    if allowed_near:
        n_allowed = len(subject.allowed_cpus)
        return ok(f"{len(allowed_near)} of the {n_allowed} processors are near it")
    node = subject.files.number(f"{folder}/numa_node")
    near_text = format_cpu_list(near)
    evidence = f"it is near processors {near_text}, and this process may use others only"
    return warn(evidence, f"numactl --cpunodebind={node} --membind={node} python train.py")
