"""Networks: ``network.NAME.received`` and ``.sent`` in bytes a second; InfiniBand ports, too."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from gapless.launch.samplers import AbsentError, Growth, Sampler, Values, keep_observed

_INTERFACES: Final = Path("/proc/net/dev")
_PORTS: Final = Path("/sys/class/infiniband")
_LANES: Final = 4  # a port counts in units of four bytes
_MAX_INTERFACES: Final = 16  # interfaces; a host of containers has hundreds


def open_sampler() -> Sampler:
    """Return the sampler of networks."""
    if not _INTERFACES.exists():
        raise AbsentError("there is no /proc/net/dev")
    growth = Growth()
    ports = [(f"{path.parts[-3]}-{path.name}", path) for path in sorted(_PORTS.glob("*/ports/*"))]

    def sample(now: int) -> Values:
        values: dict[str, float | None] = {}
        for name, received, sent in [*_interfaces(), *_infiniband(ports)]:
            if received or sent:
                prefix = f"network.{name}"
                values[f"{prefix}.received"] = growth.rate(f"{name} in", now, received)
                values[f"{prefix}.sent"] = growth.rate(f"{name} out", now, sent)
        return keep_observed(values)

    return sample


def _interfaces() -> Iterator[tuple[str, int, int]]:
    for line in _INTERFACES.read_text(encoding="ascii").splitlines()[2:][:_MAX_INTERFACES]:
        name, _, counts = line.partition(":")
        words = counts.split()
        yield name.strip(), int(words[0]), int(words[8])


def _infiniband(ports: list[tuple[str, Path]]) -> Iterator[tuple[str, int, int]]:
    for name, path in ports:
        with suppress(OSError, ValueError):
            received = int((path / "counters" / "port_rcv_data").read_bytes())
            sent = int((path / "counters" / "port_xmit_data").read_bytes())
            yield name, received * _LANES, sent * _LANES
