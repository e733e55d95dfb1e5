"""Copies between host and GPUs."""

from typing import Final

from gapless.doctor.answers import CheckAnswer, bad, ok, unknown, warn
from gapless.doctor.gpus import GpuReading
from gapless.doctor.measured.comparison import examine_measured, explain_absence
from gapless.doctor.measured.peaks import LANE_RATES
from gapless.doctor.subject import CheckSubject
from gapless.model.machine import Constants
from gapless.report.text.numbers import rate

_WANTED_SHARE: Final = 0.6  # of what the link carries: 0.8 to 0.9 is usual
_MIN_SHARE: Final = 0.25
_PINNED: Final = "copy.h2d.pinned.bandwidth"


def examine(subject: CheckSubject) -> CheckAnswer:
    """Compare copies from pinned memory with what the PCIe link of card and slot carries."""
    return examine_measured(subject, _judge)


def _judge(gpu: GpuReading, constants: Constants) -> CheckAnswer:
    names = {"to it": _PINNED, "back": "copy.d2h.pinned.bandwidth"}
    speeds = {label: constants.value(name) for label, name in names.items()}
    known = {label: speed for label, speed in speeds.items() if speed is not None}
    if not known:
        return unknown(explain_absence(constants, _PINNED))
    words = ", ".join(f"{rate(speed)} {label}" for label, speed in known.items())
    pageable = constants.value("copy.h2d.pageable.bandwidth")
    evidence = f"{words} (pinned)"
    if pageable is not None:
        evidence += f", {rate(pageable)} to it from pageable memory"
    if gpu.max_link is None or gpu.max_link[0] not in LANE_RATES:
        return ok(f"{evidence}; what its link carries is not known")
    generation, lanes = gpu.max_link
    peak = LANE_RATES[generation] * lanes
    share = min(known.values()) / peak
    evidence += f"; PCIe {generation} × {lanes} carries {rate(peak)}"
    remedy = "nvidia-smi topo -m; numactl --cpunodebind=NODE of the GPU python train.py"
    if share < _MIN_SHARE:
        return bad(evidence, remedy)
    return warn(evidence, remedy) if share < _WANTED_SHARE else ok(evidence)
