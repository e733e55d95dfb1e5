"""GPU performance monitoring (GPM): what the hardware counted between two samples."""

from typing import Any, Final

from msgspec import Struct

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


class Monitor(Struct):
    """The last two samples of one GPU."""

    nvml: Any
    handle: Any
    earlier: Any
    later: Any
    n_samples: int = 0

    def read(self) -> Values:
        """Return the metrics since the last reading. Raises ``NVMLError``."""
        self.earlier, self.later = self.later, self.earlier
        self.nvml.nvmlGpmSampleGet(self.handle, self.later)
        self.n_samples += 1
        return self._difference() if self.n_samples > 1 else {}

    def _difference(self) -> Values:
        request = self.nvml.c_nvmlGpmMetricsGet_t()
        request.version = self.nvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(_METRICS)
        request.sample1, request.sample2 = self.earlier, self.later
        for index, (number, _) in enumerate(_METRICS.values()):
            request.metrics[index].metricId = number
        self.nvml.nvmlGpmMetricsGet(request)
        return {
            name: float(request.metrics[index].value) * factor
            for index, (name, (_, factor)) in enumerate(_METRICS.items())
            if request.metrics[index].nvmlReturn == self.nvml.NVML_SUCCESS
        }


def open_monitor(nvml: Any, handle: Any) -> Monitor | None:  # noqa: ANN401 - pynvml has no types
    """Return the monitor of a GPU; ``None`` if it, or this version of NVML, has none."""
    try:
        if not nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
            return None
        return Monitor(nvml, handle, nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc())
    except (AttributeError, nvml.NVMLError):
        return None
