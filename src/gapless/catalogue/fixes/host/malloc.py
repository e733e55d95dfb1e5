"""Memory that the C library keeps."""

from typing import Final

from gapless.catalogue.declare.fix import Option, fix
from gapless.model.edit import Applicability, Proposal, SetEnv
from gapless.model.facts import Facts

# Trimming only beyond 64 GiB that lie free, and no block of its own mapping.
_VARIABLES: Final = {"MALLOC_TRIM_THRESHOLD_": str(64 << 30), "MALLOC_MMAP_MAX_": "0"}
_SETTINGS: Final = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_")  # chosen by somebody
_OTHER_ALLOCATORS: Final = ("jemalloc", "tcmalloc", "mimalloc")


def find_setting(environment: dict[str, str]) -> str | None:
    """Return what decides already what becomes of freed memory; ``None``: the C library does."""
    preloaded = environment.get("LD_PRELOAD", "")
    allocator = next((name for name in _OTHER_ALLOCATORS if name in preloaded), None)
    if allocator is not None:
        return f"{allocator} is preloaded"
    if "glibc.malloc." in environment.get("GLIBC_TUNABLES", ""):
        return "GLIBC_TUNABLES"
    return next((name for name in (*_VARIABLES, *_SETTINGS) if name in environment), None)


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
    > refused: jemalloc is preloaded
    cpu(machine(environment={"LD_PRELOAD": "/usr/lib/libjemalloc.so.2"}))
    """,
)
def malloc(facts: Facts, _option: Option) -> tuple[Proposal, ...]:
    """Let the C library keep freed memory: ``MALLOC_TRIM_THRESHOLD_``, ``MALLOC_MMAP_MAX_=0``.

    Sources: ``man 3 mallopt``; the variables are read by glibc from 2.0 on.

    ## Precondition
    The allocator of glibc, and nobody who set it up. jemalloc or tcmalloc, preloaded, do the same.

    ## Safety
    The same values. Each process, a worker too, keeps the memory of its largest step as long as it
    lives.
    """
    setting = find_setting(dict(facts.machine.environment))
    if setting is not None:
        return (malloc.refusal(f"{setting}{'' if ' ' in setting else ' is set already'}"),)
    return (
        malloc.proposal(
            " ".join(f"{name}={value}" for name, value in _VARIABLES.items()),
            *(SetEnv(name, value) for name, value in _VARIABLES.items()),
            applicability=Applicability.EQUIVALENT,
            risk="each process keeps the memory of its largest step",
        ),
    )
