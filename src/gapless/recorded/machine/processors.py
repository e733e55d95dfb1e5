"""The processors that a run may use, of those that its machine has."""

from collections.abc import Iterable, Mapping
from contextlib import suppress

from msgspec import Struct

from gapless.catalogue.declare.cpu_lists import parse_cpu_list
from gapless.errors import UsageError
from gapless.recorded.values import as_int, as_text


class ProcessorLimits(Struct, frozen=True):
    """Processors of the machine, those that the run is bound to, and its control group's quota.

    ``None`` where it was not observed; without a quota all that it is bound to may be used.
    """

    machine: int | None = None
    bound: int | None = None
    quota: int | None = None

    @property
    def usable(self) -> int | None:
        """Return how many processors the run may use at once."""
        limits = [limit for limit in (self.bound or self.machine, self.quota) if limit is not None]
        return min(limits, default=None)

    def contended_cores(self, contended: float, bound: int) -> float:
        """Return what others took of the usable processors; the rest of theirs is of no use.

        ``contended`` is what they took of the ``bound`` ones. A run that may use four of sixteen
        has its four while others take twelve.
        """
        return max(0.0, contended - (bound - (self.usable or bound)))


def processor_limits(machines: Iterable[Mapping[str, object]]) -> ProcessorLimits:
    """Return the processor limits of a run, from what its training processes recorded."""
    machine_facts = list(machines)
    cpu_lists = [cpu_list for facts in machine_facts if (cpu_list := _cpu_list(facts)) is not None]
    bound = len({number for cpu_list in cpu_lists for number in cpu_list}) or _first_int(
        machine_facts, "cpus"
    )
    usable, own_cpus = (
        _first_int(machine_facts, "processors"),
        len(cpu_lists[0]) if cpu_lists else bound,
    )
    is_limited = usable is not None and own_cpus is not None and usable < own_cpus
    return ProcessorLimits(
        _first_int(machine_facts, "cpus_of_machine") or bound, bound, usable if is_limited else None
    )


def _cpu_list(facts: Mapping[str, object]) -> tuple[int, ...] | None:
    numbers = as_text(facts.get("cpu_list"))
    with suppress(UsageError):
        return parse_cpu_list(numbers) if numbers else None
    return None


def _first_int(machine_facts: Iterable[Mapping[str, object]], name: str) -> int | None:
    return next(
        (number for facts in machine_facts if (number := as_int(facts.get(name))) is not None), None
    )
