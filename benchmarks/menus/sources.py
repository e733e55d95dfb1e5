"""Where cases come from: the zoo, or strangers to it. Both tell their cases and make them train."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

from tests.zoo.cases import Case
from tests.zoo.job import Job

ZOO: Final = "tests.zoo"
Maker = Callable[[Case, str, str | None], Job]


def cases_of(source: str) -> Mapping[str, Case]:
    """Return the cases of a package, by name."""
    return _member(source, "cases", "CASES")


def maker_of(source: str) -> Maker:
    """Return what builds a case of a package on a device."""
    return _member(source, "making", "make")


def command_of(source: str, case: Case, device: str, seconds: float) -> list[str]:
    """Return the script of a case, and its arguments."""
    if source != ZOO:
        return _member(source, "cases", "command")(case)
    script = ["tests/zoo/run.py", case.name, "--device", device]
    if case.ranks > 1:
        return [*script, "--steps", str(case.steps or 200)]
    return [*script, "--steps", "1000000", "--seconds", f"{seconds:g}"]


def _member(source: str, module: str, name: str) -> Any:  # noqa: ANN401  whatever it is
    return getattr(import_module(f"{source}.{module}"), name)
