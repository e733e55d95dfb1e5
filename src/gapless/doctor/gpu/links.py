"""What lies between the GPUs and the processors."""

from functools import partial

from gapless.catalogue.declare.cpu_lists import format_cpu_list
from gapless.doctor.answers import (
    NUMBERS,
    CheckAnswer,
    examine_gpus,
    judge_each_gpu,
    ok,
    unknown,
    warn,
)
from gapless.doctor.gpus import GpuReading
from gapless.doctor.host.processors import read_nodes
from gapless.doctor.host_files import parse_numbers
from gapless.doctor.subject import CheckSubject


@judge_each_gpu
def examine_link(gpu: GpuReading) -> CheckAnswer:
    """Compare the PCIe link's generation and width with what card and slot can do.

    At rest the generation is lowered to save power; only under load it says something. The width
    does not change: fewer lanes are a slot, a riser or a card that does not sit well.
    """
    loaded = gpu.load.link if gpu.load is not None else None
    link = loaded or gpu.link
    if link is None or gpu.max_link is None:
        return unknown("NVML does not show its PCIe link")
    (generation, lanes), (max_generation, max_lanes) = link, gpu.max_link
    state = "while it was measured" if loaded else "at rest"
    evidence = f"generation {generation} × {lanes} {state}, of {max_generation} × {max_lanes}"
    topology = f"nvidia-smi -q -i {NUMBERS} | grep -A 12 'GPU Link Info'"
    if lanes < max_lanes:
        return warn(f"{evidence}: copies have {lanes / max_lanes:.0%} of the lanes", topology)
    if generation < max_generation and loaded:
        return warn(f"{evidence}: copies are slower than they could be", topology)
    return ok(evidence)


def examine_affinity(subject: CheckSubject) -> CheckAnswer:
    """Look whether this process may use processors of each GPU's own NUMA node.

    Launches and copies from the other socket cross the link between sockets.
    """
    return examine_gpus(subject.survey, partial(_judge_affinity, subject))


def _judge_affinity(subject: CheckSubject, gpu: GpuReading) -> CheckAnswer:
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
