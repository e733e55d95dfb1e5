"""Find why the GPU waits: account for every nanosecond of what ``torch.profiler`` wrote.

    import gapless
    study = gapless.open("trace.json.gz")
    study.account.groups["data"], study.tables.kernels[0], study.account.to_frame()

In a training: ``record()`` records a block, ``step()`` ends a step of a loop that nothing marks.

``GaplessError`` is all that is raised for bad input.
"""

from typing import TYPE_CHECKING

from gapless.errors import GaplessError

if TYPE_CHECKING:
    import os
    from contextlib import AbstractContextManager
    from pathlib import Path

    from gapless.model.comparison import Comparison
    from gapless.model.study import Study

    __version__: str

__all__ = ["GaplessError", "Study", "__version__", "compare", "open", "record", "step"]


def open(  # noqa: A001, PLR0913 - it is called gapless.open; the options are the command's
    *paths: "str | os.PathLike[str]",
    by_shape: bool = False,
    rank: int | str | None = None,
    steps: int | str | None = None,
    leaf: str | None = None,
    pieces: int = 10,
    step: str | None = None,
    cache: bool = True,
) -> "Study":
    """Read traces (files, folders, patterns: the ranks of one job) and return the study of them.

    For the folder of a run that gapless recorded, the study of that run: see ``study.recorded``.

    ``rank`` and ``steps`` select by number or by text ("3-7"); ``by_shape`` splits operators by
    their input shapes; ``leaf`` asks for the ``pieces`` longest pieces of one leaf;
    ``step`` names the ranges that are steps ("train*");
    ``cache=False`` neither reads nor writes the cache. Raises ``GaplessError`` where a path names
    nothing, or nothing that can be read.
    """
    from gapless.study import Options, open_study

    options = Options(
        by_shape=by_shape,
        rank=None if rank is None else str(rank),
        steps=None if steps is None else str(steps),
        leaf=leaf,
        pieces=pieces,
        step=step,
        cache=cache,
    )
    return open_study(paths, options)


def compare(a: "Study", b: "Study") -> "Comparison":
    """Return what study ``b`` has more of than study ``a``, a step: causes, operators, kernels."""
    from gapless.study.comparison import compare as subtract

    return subtract(a, b)


def record(out: "str | os.PathLike[str] | None" = None) -> "AbstractContextManager[Path]":
    """Record what the block trains, in a notebook or a script; yield the run folder.

        with gapless.record():
            train()

    The folder is a new one in ``out``, else in ``.gapless/runs`` here. Afterwards everything is
    put back, the same objects. Within ``gapless run``, which records already, nothing is done.
    Raises ``OSError`` where no folder can be made.
    """
    from pathlib import Path

    from gapless.launch.run.in_process import record as record_here

    return record_here(None if out is None else Path(out))


def step() -> None:
    """Mark the end of a step of the loop, where gapless finds none by itself.

        for batch in batches:
            work(batch)
            gapless.step()

    It takes precedence over all that gapless would go by (optimizer steps, backward passes,
    batches, forward passes). Without a recording it does nothing. Below ``gapless run`` and
    ``gapless check`` it is there even if the training's own Python has no gapless; else guard the
    import.
    """
    import sys

    marking_module = sys.modules.get("_gapless.payload.marking")
    if marking_module is not None:
        marking_module.step()


def __getattr__(name: str) -> object:
    """Import what takes long only when it is asked for."""
    if name == "Study":
        from gapless.model.study import Study

        return Study
    if name == "__version__":
        from gapless.model.version import version

        return version()
    raise AttributeError(f"module 'gapless' has no attribute {name!r}")
