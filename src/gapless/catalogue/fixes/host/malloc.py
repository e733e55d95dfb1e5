"""Memory that the C library keeps."""

from typing import Final

from gapless.catalogue.declare.fix import Option, fix
from gapless.model.edit import Applicability, Proposal, SetEnv
from gapless.model.facts import Facts

# Trimming only beyond so much that lies free, and no block of its own mapping.
VARIABLES: Final = {"MALLOC_TRIM_THRESHOLD_": str(64 << 30), "MALLOC_MMAP_MAX_": "0"}
# Before 2.26 glibc read them as an int, in which 64 GiB are 0; torch needs 2.28 from then on.
_SINCE: Final = (2, 6)
_MAX_INT: Final = (1 << 31) - 1
_SETTINGS: Final = (*VARIABLES, "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_")
_OTHER_ALLOCATORS: Final = ("malloc", "hoard")  # part of the names of their libraries


def find_allocator(facts: Facts) -> str | None:
    """Return the library that is preloaded to allocate memory; ``None``: the C library does."""
    names = facts.machine.environment.get("LD_PRELOAD", "").split(":")
    return next(
        (name for name in names if any(part in name.lower() for part in _OTHER_ALLOCATORS)), None
    )


def _find_setting(facts: Facts) -> str | None:
    """Return the variable by which somebody chose what becomes of freed memory."""
    environment = facts.machine.environment
    if "glibc.malloc." in environment.get("GLIBC_TUNABLES", ""):
        return "GLIBC_TUNABLES"
    return next((name for name in _SETTINGS if name in environment), None)


@fix(
    "malloc",
    cases="""
    # The C library's defaults
    > equivalent: MALLOC_TRIM_THRESHOLD_=68719476736 MALLOC_MMAP_MAX_=0
    cpu(), SetEnv("MALLOC_TRIM_THRESHOLD_", "68719476736"), SetEnv("MALLOC_MMAP_MAX_", "0")
    # Somebody chose
    > refused: MALLOC_TOP_PAD_ is set already
    cpu(machine(environment={"MALLOC_TOP_PAD_": "268435456"}))
    # Another allocator
    > refused: libjemalloc.so.2 is preloaded
    cpu(machine(environment={"LD_PRELOAD": "libjemalloc.so.2"}))
    """,
)
def malloc(facts: Facts, _option: Option) -> tuple[Proposal, ...]:
    """Let the C library keep freed memory: ``MALLOC_TRIM_THRESHOLD_``, ``MALLOC_MMAP_MAX_=0``.

    Source: ``man 3 mallopt``.

    ## Precondition
    The allocator of glibc, and nobody who set it up. jemalloc or tcmalloc, preloaded, do the same.

    ## Safety
    The same values. Each process, a worker too, keeps the memory of its largest step as long as it
    lives.
    """
    allocator, setting = find_allocator(facts), _find_setting(facts)
    if allocator is not None:
        return (malloc.refusal(f"{allocator} is preloaded"),)
    if setting is not None:
        return (malloc.refusal(f"{setting} is set already"),)
    variables, torch = dict(VARIABLES), facts.world.torch
    if torch is None or torch < _SINCE:
        variables["MALLOC_TRIM_THRESHOLD_"] = str(_MAX_INT)
    return (
        malloc.proposal(
            " ".join(f"{name}={value}" for name, value in variables.items()),
            *(SetEnv(name, value) for name, value in variables.items()),
            applicability=Applicability.EQUIVALENT,
            risk="each process keeps the memory of its largest step",
        ),
    )
