"""Whether the machine has the memory for two arms at once, by what one was seen to take."""

import re
from collections.abc import Mapping
from typing import Final

from gapless.model.recording import Samples
from gapless.report.text.numbers import size

_MARGIN: Final = 1.2  # times what an arm took
_RSS: Final = ".rss"
_DEVICE: Final = re.compile(r"gpu\d+\.memory_used")

Values = Mapping[str, tuple[float, ...]]


def explain_lack(samples: Samples) -> str | None:
    """Return of what there is too little for another arm beside the sampled one; ``None``: none."""
    values = {name: column for name, (_, column) in samples.series.items() if column}
    arm_bytes = sum(max(column) for name, column in values.items() if name.endswith(_RSS))
    if not arm_bytes:
        return "it is not known how much memory an arm takes"
    free = [min(values["memory.available"])] if "memory.available" in values else []
    if {"memory.group_used", "memory.group_limit"} <= values.keys():
        free += [min(values["memory.group_limit"]) - max(values["memory.group_used"])]
    if not free or min(free) < _MARGIN * arm_bytes:
        return f"an arm takes {size(arm_bytes)} of memory, and no more than that was free beside it"
    return next((why for name in values if (why := _explain_device(name, values))), None)


def _explain_device(name: str, values: Values) -> str | None:
    """Return why a device has no room for another arm; ``None``: it has, or it is no device."""
    total = values.get(name.replace("_used", "_total"))
    if not _DEVICE.fullmatch(name) or not total:
        return None
    arm_bytes, free = max(values[name]) - min(values[name]), min(total) - max(values[name])
    if free >= _MARGIN * arm_bytes:
        return None
    return f"an arm takes {size(arm_bytes)} of a GPU's memory, and {size(free)} were free beside it"
