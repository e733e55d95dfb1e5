"""The PCIe link of each GPU."""

from gapless.doctor.answers import NUMBERS, CheckAnswer, examine_gpus, ok, unknown, warn
from gapless.doctor.gpus import GpuReading
from gapless.doctor.subject import CheckSubject


def examine(subject: CheckSubject) -> CheckAnswer:
    """Compare the PCIe link's generation and width with what card and slot can do.

    At rest the generation is lowered to save power; only under load it says something. The width
    does not change: fewer lanes are a slot, a riser or a card that does not sit well.
    """
    return examine_gpus(subject.survey, _examine_gpu)


def _examine_gpu(gpu: GpuReading) -> CheckAnswer:
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
