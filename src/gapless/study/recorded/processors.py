"""The processors that a run may use, of those that its machine has."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from gapless.catalogue.processors import parsed
from gapless.errors import UsageError
from gapless.study.recorded.values import text, whole


@dataclass(frozen=True)
class Room:
    """Processors of the machine, those that the run is bound to, and its control group's quota.

    ``None`` where it was not observed; without a quota all that it is bound to may be used.
    """

    machine: int | None = None
    bound: int | None = None
    quota: int | None = None

    @property
    def usable(self) -> int | None:
        """Give how many processors the run may use at a time."""
        known = [one for one in (self.bound or self.machine, self.quota) if one is not None]
        return min(known, default=None)

    def left_by(self, taken: float, bound: int) -> float:
        """Give what others took of the usable processors, the rest of theirs being of no use.

        ``taken`` is what they took of the ``bound`` ones. A run that may use four of sixteen has
        its four while others take twelve.
        """
        return max(0.0, taken - (bound - (self.usable or bound)))


def room(machines: Iterable[Mapping[str, object]]) -> Room:
    """Give the room of a run by what its training processes told of the machine."""
    told = list(machines)
    lists = [one for facts in told if (one := _list(facts)) is not None]
    bound = len({number for one in lists for number in one}) or _first(told, "cpus")
    usable, own = _first(told, "processors"), len(lists[0]) if lists else bound
    limited = usable is not None and own is not None and usable < own
    return Room(_first(told, "cpus_of_machine") or bound, bound, usable if limited else None)


def _list(facts: Mapping[str, object]) -> tuple[int, ...] | None:
    numbers = text(facts.get("cpu_list"))
    with suppress(UsageError):
        return parsed(numbers) if numbers else None
    return None


def _first(told: Iterable[Mapping[str, object]], name: str) -> int | None:
    return next((one for facts in told if (one := whole(facts.get(name))) is not None), None)
