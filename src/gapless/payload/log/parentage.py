"""Which loader a worker process belongs to: its parent says so, before the worker has a name."""

from __future__ import annotations

KEY = "GAPLESS_LOADER"  # wire.LOADER, spelt out: this file is read before wire is

creating: int | None = None  # the loader whose workers are being started in this process
stem: str | None = None  # name of this process's log, without its ending
inherited: tuple[int, str] | None = None  # of a worker: loader, and the stem of its parent


def handle_fork() -> None:
    """Take over in a forked child what the parent was about to do."""
    global creating, stem, inherited
    inherited = None if creating is None else (creating, stem or "rank0")
    creating = stem = None


def watch_spawn(module: object) -> None:
    """Send the loader along with what a spawned child gets (fork server: its env is older)."""
    from ..patching import around, replace

    replace(module, "get_preparation_data", around("spawn", None, _send_loader))
    replace(module, "prepare", around("spawn", _receive_loader, None))


def _send_loader(_state: object, _args: tuple, result: dict | None, _raised: object) -> None:
    if creating is not None and result is not None:
        result[KEY] = (creating, stem or "rank0")


def _receive_loader(args: tuple, kwargs: dict) -> None:
    global inherited
    data = args[0] if args else kwargs.get("data", {})
    inherited = data.get(KEY)
