"""Which loader a worker process belongs to: its parent says so, before the worker has a name."""

from __future__ import annotations

from ..process_state import keep

KEY = "GAPLESS_LOADER"  # wire.LOADER, spelt out: this file is read before wire is


class _Lineage:
    """Whose worker this process is, and what its own workers are to know of theirs."""

    def __init__(self) -> None:
        self.creating: int | None = None  # the loader whose workers are being started here
        self.stem: str | None = None  # name of this process's log, without its ending
        self.inherited: tuple[int, str] | None = None  # of a worker: loader, stem of its parent

    def fork(self) -> None:
        """Take over in a forked child what the parent was about to do."""
        self.inherited = None if self.creating is None else (self.creating, self.stem or "rank0")
        self.creating = self.stem = None


lineage = keep(_Lineage())


def watch_spawn(module: object) -> None:
    """Send the loader along with what a spawned child gets (fork server: its env is older)."""
    from ..patching import around, replace

    replace(module, "get_preparation_data", around("spawn", None, _send_loader))
    replace(module, "prepare", around("spawn", _receive_loader, None))


def _send_loader(_state: object, _args: tuple, result: dict | None, _raised: object) -> None:
    if lineage.creating is not None and result is not None:
        result[KEY] = (lineage.creating, lineage.stem or "rank0")


def _receive_loader(args: tuple, kwargs: dict) -> None:
    data = args[0] if args else kwargs.get("data", {})
    lineage.inherited = data.get(KEY)
