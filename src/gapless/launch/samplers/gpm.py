"""GPU performance monitoring (GPM): what the hardware counted between two samples."""

from dataclasses import dataclass
from typing import Any, Final

from gapless.launch.samplers import Values

_MIB: Final = 1 << 20
# name: (NVML's number of the metric, factor); nvml.h, nvmlGpmMetricId_t
_METRICS: Final = {
    "active": (1, 1),
    "sm": (2, 1),
    "occupancy": (3, 1),
    "tensor": (5, 1),
    "dram": (10, 1),
    "nvlink_rx": (60, _MIB),
    "nvlink_tx": (61, _MIB),
}


@dataclass
class Monitor:
    """The last two samples of one GPU."""

    nvml: Any
    handle: Any
    earlier: Any
    later: Any
    taken: int = 0

    def read(self) -> Values:
        """Give the metrics since the last reading. Raises ``NVMLError``."""
        self.earlier, self.later = self.later, self.earlier
        self.nvml.nvmlGpmSampleGet(self.handle, self.later)
        self.taken += 1
        return self._difference() if self.taken > 1 else {}

    def _difference(self) -> Values:
        asked = self.nvml.c_nvmlGpmMetricsGet_t()
        asked.version = self.nvml.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics = len(_METRICS)
        asked.sample1, asked.sample2 = self.earlier, self.later
        for place, (number, _) in enumerate(_METRICS.values()):
            asked.metrics[place].metricId = number
        self.nvml.nvmlGpmMetricsGet(asked)
        return {
            name: float(asked.metrics[place].value) * factor
            for place, (name, (_, factor)) in enumerate(_METRICS.items())
            if asked.metrics[place].nvmlReturn == self.nvml.NVML_SUCCESS
        }


def open_monitor(nvml: Any, handle: Any) -> Monitor | None:  # noqa: ANN401 - pynvml has no types
    """Give the monitor of a GPU; ``None`` if it, or this version of NVML, has none."""
    try:
        if not nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
            return None
        return Monitor(nvml, handle, nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc())
    except (AttributeError, nvml.NVMLError):
        return None
