"""Effects of fixes for loaders, and for the threads beside them."""

from collections.abc import Iterator, Mapping
from typing import Final

from gapless.catalogue.declare.targets import LOADER
from gapless.model.change import Change, LoaderChange
from gapless.model.edit import Edit, Proposal, SetArgument, SetGlobal, Wrap
from gapless.model.evidence import Evidence
from gapless.model.facts import Loader

_ARGUMENTS: Final = frozenset(
    {"num_workers", "prefetch_factor", "in_order", "persistent_workers", "pin_memory"}
)
_THREADS: Final = "torch.set_num_threads"


def loader_changes(evidence: Evidence, proposal: Proposal) -> tuple[Change, ...] | None:
    """Return the loader changes of a proposal; ``None`` if it changes no known loader.

    There is one change for each loader, which holds all of its edits.
    """
    settings_by_loader: dict[int, dict[str, object]] = {}
    for edit in proposal.edits:
        for loader in _affected_loaders(evidence, edit):
            settings_by_loader.setdefault(loader.id, {}).update(_loader_settings(edit))
    changes = [
        _build_change(loader, settings)
        for loader, settings in settings_by_loader.items()
        if settings
    ]
    return tuple(changes) or None


def _affected_loaders(evidence: Evidence, edit: Edit) -> Iterator[Loader]:
    """Return the loaders that an edit affects: those at its line; for threads, all that train."""
    for loader in evidence.facts.loaders:
        match edit:
            case SetArgument() | Wrap():
                if edit.target == LOADER and edit.where in (None, loader.location):
                    yield loader
            case SetGlobal():
                if edit.target == _THREADS and loader.trains is not False:
                    yield loader
            case _:
                pass


def _loader_settings(edit: Edit) -> Mapping[str, object]:
    """Return what an edit sets in a ``LoaderChange``, without what only accompanies it."""
    match edit:
        case SetArgument(name=name, value=value) if name in _ARGUMENTS and value is not None:
            return {name: value}
        case SetGlobal(value=value):
            return {"intra_op_threads": value}
        case Wrap(part="worker-threads", options=options):
            return {"worker_threads": options.get("threads")}
        case Wrap(part="cached-batch"):
            return {"wait": False}
        case _:
            return {}


def _build_change(loader: int, settings: Mapping[str, object]) -> LoaderChange:
    def int_setting(name: str) -> int | None:
        value = settings.get(name)
        return value if isinstance(value, int) else None

    def bool_setting(name: str) -> bool | None:
        value = settings.get(name)
        return value if isinstance(value, bool) else None

    return LoaderChange(
        loader,
        num_workers=int_setting("num_workers"),
        prefetch_factor=int_setting("prefetch_factor"),
        in_order=bool_setting("in_order"),
        persistent_workers=bool_setting("persistent_workers"),
        intra_op_threads=int_setting("intra_op_threads"),
        worker_threads=int_setting("worker_threads"),
        wait=settings.get("wait") is not False,
        pin_memory=bool_setting("pin_memory"),
    )
