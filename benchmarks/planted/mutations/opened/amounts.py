"""How much of a fault is planted: another share of a step for each, from little to half of it."""

from collections.abc import Sequence
from typing import Final

from benchmarks.planted.mutations.parts import Unit, amount, data_of, item_amount, items, of_output
from benchmarks.planted.mutations.plant import ChangeOf, Site, after_step, before_backward
from benchmarks.planted.source import Change

LITTLE: Final = 0.12  # of a healthy step
SOME: Final = 0.25
MUCH: Final = 0.5
MOST: Final = 0.8
SHARES: Final = (0.55, 0.9)  # on the CPU, and beside a GPU
Share = float | tuple[float, float]  # of a step: by the CPU's, or on CPU and GPU
_ROUND: Final = 8  # steps between occasions
_OUTPUT_SHARE: Final = 0.7  # what ``of_output`` plants
_LARGEST: Final = 20_000_000  # elements of one tensor
_GRAIN: Final = 1e-4  # of a unit: how finely amounts below one are told


def share_on(site: Site, share: Share) -> float:
    """Return the share of a step: larger beside a GPU, which works on meanwhile."""
    if isinstance(share, tuple):
        return share[site.device == "cuda"]
    return share if site.device == "cpu" else max(0.5, 1.5 * share)


def beside(
    text: str, unit_us: Unit, share: Share, top: str = "", *, early: bool = False
) -> ChangeOf:
    """Do something ``{n}`` times in each step."""

    def change(site: Site) -> Sequence[Change] | None:
        number = str(amount(site, unit_us, share_on(site, share)))
        body, imports = text.replace("{n}", number), top.replace("{n}", number)
        return (before_backward if early else after_step)(body, imports)(site)

    return change


def seldom(text: str, unit_us: Unit, share: Share, top: str) -> ChangeOf:
    """Do something ``{n}`` times in one step of eight."""
    rows = "".join(f"\n    {row}" for row in text.splitlines())
    body = f"_rounds[0] += 1\nif _rounds[0] % {_ROUND} == 0:{rows}"
    often = (_ROUND * share[0], _ROUND * share[1]) if isinstance(share, tuple) else _ROUND * share
    return beside(body, unit_us, often, f"{top}_rounds = [0]\n")


def computed(
    text: str, unit_us: Unit, share: Share, top: str, size: tuple[int, float] = (1, 1.0)
) -> ChangeOf:
    """Compute ``{r}`` times with ``{n}`` rows, of a width each, what costs a share of a step.

    ``size``: elements of a row, and the power of ``{n}`` by which costs grow.
    """
    width, power = size

    def change(site: Site) -> Sequence[Change] | None:
        rows = amount(site, unit_us, share_on(site, share))
        most = _LARGEST // width
        side = str(max(2, int(min(rows, most) ** (1 / power))))
        rounds = str(-(-rows // most))
        body = text.replace("{n}", side).replace("{r}", rounds)
        return after_step(body, top.replace("{n}", side))(site)

    return change


def in_samples(text: str, unit_us: float, share: Share, top: str) -> ChangeOf:
    """Have each sample do something ``{n}`` times; where that is less than once, every few do."""

    def change(site: Site) -> Sequence[Change] | None:
        if data_of(site) is None:
            return None
        exact = item_amount(site, unit_us * _GRAIN, share_on(site, share)) * _GRAIN
        number = max(1, round(exact))
        rows = text.replace("{n}", str(number))
        if exact < 1:
            rows = f"if index % {round(1 / exact)} == 0:\n" + "\n".join(
                f"    {row}" for row in rows.splitlines()
            )
        return items(rows, unit_us, top.replace("{n}", str(number)))(site)

    return change


def on_output(text: str, unit_us: tuple[float, float], share: Share, imports: str = "") -> ChangeOf:
    """Compute from what the model gave what costs a share of a step."""

    def change(site: Site) -> Sequence[Change] | None:
        factor = _OUTPUT_SHARE / share_on(site, share)
        return of_output(text, (unit_us[0] * factor, unit_us[1] * factor), imports)(site)

    return change
