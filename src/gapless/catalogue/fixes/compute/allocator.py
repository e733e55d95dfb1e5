"""Segments of device memory that grow."""

from typing import Final

from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.declare.selectors import uses_cuda
from gapless.model.edit import Applicability, Proposal, SetEnv
from gapless.model.facts import Facts

_OLD_VARIABLE: Final = "PYTORCH_CUDA_ALLOC_CONF"
_NEW_VARIABLE: Final = "PYTORCH_ALLOC_CONF"
_SINCE: Final = (2, 9)  # the torch version that has the new name
_SETTING: Final = ("expandable_segments", "True")
_NO_CACHE: Final = "PYTORCH_NO_CUDA_MEMORY_CACHING"


@fix(
    "allocator",
    cases="""
    # torch's defaults
    > risky: PYTORCH_ALLOC_CONF=expandable_segments:True
    gpu(), SetEnv("PYTORCH_ALLOC_CONF", "expandable_segments:True")
    # Other settings are there
    > risky: PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128,expandable_segments:True
    gpu(machine(environment={_OLD_VARIABLE: "max_split_size_mb:128,expandable_segments:False"}))
    # Already so
    > nothing to change: PYTORCH_ALLOC_CONF=expandable_segments:True is set already
    gpu(machine(environment={_NEW_VARIABLE: "expandable_segments:True"}))
    # No caching allocator
    > refused: PYTORCH_NO_CUDA_MEMORY_CACHING is set: torch keeps no memory
    gpu(machine(environment={_NO_CACHE: "1"}))
    # No device
    > refused: no CUDA device was used
    cpu()
    """,
)
def allocator(facts: Facts, _option: Option) -> tuple[Proposal, ...]:
    """Let segments of device memory grow (``expandable_segments:True``), so that none lies idle.

    Other settings of the allocator are kept.

    ## Precondition
    A CUDA device. It helps where shapes vary, and where memory is nearly full.

    ## Safety
    Risky: the same values, but memory cannot be shared with other processes as before, and not all
    machines support it.
    """
    environment = facts.machine.environment
    if not uses_cuda(facts):
        return (allocator.refusal("no CUDA device was used"),)
    if environment.get(_NO_CACHE, "0") not in {"", "0"}:
        return (allocator.refusal(f"{_NO_CACHE} is set: torch keeps no memory"),)
    torch = facts.world.torch
    default_name = _OLD_VARIABLE if torch is not None and torch < _SINCE else _NEW_VARIABLE
    name = next(
        (name for name in (_NEW_VARIABLE, _OLD_VARIABLE) if name in environment), default_name
    )
    new_value = _merge_settings(environment.get(name, ""))
    if new_value == environment.get(name):
        return (allocator.no_change(f"{name}={new_value} is set already"),)
    return (
        allocator.proposal(
            f"{name}={new_value}",
            SetEnv(name, new_value),
            applicability=Applicability.RISKY,
            risk="memory of the device cannot be shared with other processes as before",
        ),
    )


def _merge_settings(text: str) -> str:
    """Return the allocator's settings, with ours in place of those for segments."""
    name, value = _SETTING
    settings = [setting.strip() for setting in text.split(",") if setting.strip()]
    if f"{name}:{value}" in settings:
        return text
    other_settings = [setting for setting in settings if setting.partition(":")[0].strip() != name]
    return ",".join([*other_settings, f"{name}:{value}"])
