"""What an export says of machine, devices, versions and itself; metrics and complaints as notes."""

from collections.abc import Iterator
from typing import Any, Final

from gapless.formats.nsight.database import Database
from gapless.formats.parts import FileFacts, TraceParts
from gapless.model.trace import Device

_VERSIONS: Final = {"EXPORT_PRODUCT_VERSION": "nsys", "EXPORT_SCHEMA_VERSION": "nsys_schema"}
_VERSION_TABLES: Final = ("META_DATA_EXPORT", "EXPORT_META_DATA")  # since 2023, and before
_WARNING: Final = 2  # of ENUM_DIAGNOSTIC_SEVERITY_LEVEL, and worse
_MAX_NOTES: Final = 4
_MAX_LETTERS: Final = 200  # of a complaint
_METRICS: Final = ("SMs Active", "SM Issue", "Tensor Active", "DRAM Read", "DRAM Write", "PCIe RX")
_DEVICE_MASK: Final = 0xFF  # of the type of a metric: the device


def read_facts(database: Database, parts: TraceParts) -> FileFacts:
    """Return what the file says of itself; metrics and warnings become notes."""
    parts.notes += _diagnostics(database)
    parts.notes += _metrics(database)
    return FileFacts(
        source="nsight",
        origin_ns=_origin(database),
        devices=tuple(_devices(database)),
        versions=tuple(_versions(database)),
        truncated=bool(database.damage),
    )


def _origin(database: Database) -> int:
    table = "TARGET_INFO_SESSION_START_TIME"
    if not database.has(table, "utcEpochNs"):
        return 0
    (origins,) = database.integers(table, ("utcEpochNs",))
    return int(origins[0]) if len(origins) and 0 < origins[0] < 1 << 62 else 0


def _devices(database: Database) -> Iterator[Device]:
    table = "TARGET_INFO_GPU"
    if not database.has(table, "id"):
        return
    columns = ("id", "name", "computeMajor", "computeMinor", "totalMemory")
    for number, name, major, minor, memory in database.texts(table, columns):
        if not isinstance(number, int):
            continue
        has_capability = isinstance(major, int) and isinstance(minor, int)
        yield Device(
            index=number,
            name=name if isinstance(name, str) and name else None,
            compute_capability=(major, minor) if has_capability else None,
            memory_bytes=memory if isinstance(memory, int) and memory > 0 else None,
        )


def _versions(database: Database) -> Iterator[tuple[str, str]]:
    for table in _VERSION_TABLES:
        if database.has(table, "name", "value"):
            for name, value in database.texts(table, ("name", "value")):
                if name in _VERSIONS and isinstance(value, str) and value:
                    yield _VERSIONS[name], value
            return


def _diagnostics(database: Database) -> Iterator[str]:
    if not database.has("DIAGNOSTIC_EVENT", "severity", "text"):
        return
    texts = [
        " ".join(text.split())
        for severity, text in database.texts("DIAGNOSTIC_EVENT", ("severity", "text"))
        if isinstance(severity, int) and severity >= _WARNING and isinstance(text, str) and text
    ]
    for text in list(dict.fromkeys(texts))[:_MAX_NOTES]:
        yield f"the writer logged: {text[:_MAX_LETTERS]}"


def _metrics(database: Database) -> Iterator[str]:
    """Tell the means of what was sampled of the devices themselves, the best known metrics."""
    has_names = database.has("TARGET_INFO_GPU_METRICS", "typeId", "metricId", "metricName")
    if not has_names or not database.has("GPU_METRICS", "typeId", "metricId", "value"):
        return
    labels = database.texts("TARGET_INFO_GPU_METRICS", ("typeId", "metricId", "metricName"))
    kinds = {kind for kind, _, _ in labels if isinstance(kind, int)}
    for kind in sorted(kinds)[:_MAX_NOTES]:
        names = {metric: name for owner, metric, name in labels if owner == kind}
        means = database.means("GPU_METRICS", "metricId", "value", "typeId", kind)
        sentence = ", ".join(_describe_means(names, means))
        if sentence:
            samples = max(count for _, _, count in means)
            yield f"device {kind & _DEVICE_MASK}, means of {samples:,} samples: {sentence}"


def _describe_means(names: dict[Any, Any], means: list[tuple[Any, ...]]) -> Iterator[str]:
    for metric, mean, _ in means:
        name = names.get(metric)
        if isinstance(name, str) and isinstance(mean, (int, float)) and name.startswith(_METRICS):
            yield f"{' '.join(name.split())} {mean:.1f}"
