"""What fixes of loaders, and of threads beside them, change of how the training is fed."""

from collections.abc import Iterator, Mapping
from typing import Final

from gapless.catalogue.targets import LOADER
from gapless.model.change import Change, Feed
from gapless.model.edit import Edit, Proposal, SetArgument, SetGlobal, Wrap
from gapless.model.facts import Loader
from gapless.model.seen import Seen

_ARGUMENTS: Final = frozenset(
    {"num_workers", "prefetch_factor", "in_order", "persistent_workers", "pin_memory"}
)
_THREADS: Final = "torch.set_num_threads"


def feeding(seen: Seen, proposal: Proposal) -> tuple[Change, ...] | None:
    """Give the changes of loaders that a proposal brings; ``None``: it changes none that is known.

    A change for each loader: edits of one are told together.
    """
    found: dict[int, dict[str, object]] = {}
    for edit in proposal.edits:
        for one in _meant(seen, edit):
            found.setdefault(one.id, {}).update(_told(edit))
    made = [_feed(loader, told) for loader, told in found.items() if told]
    return tuple(made) or None


FEEDING: Final = (
    "more-workers",
    "workers-and-one-thread",
    "prefetch",
    "persistent-workers",
    "out-of-order",
    "worker-threads",
    "one-thread",
    "intra-op-threads",
    "cached-batch",
)


def _meant(seen: Seen, edit: Edit) -> Iterator[Loader]:
    """Give the loaders that an edit is about: of its line; of threads, all that feed training."""
    for one in seen.facts.loaders if seen.facts is not None else ():
        match edit:
            case SetArgument() | Wrap():
                if edit.target == LOADER and edit.where in (None, one.where):
                    yield one
            case SetGlobal():
                if edit.target == _THREADS and one.trains is not False:
                    yield one
            case _:
                pass


def _told(edit: Edit) -> Mapping[str, object]:
    """Give what an edit sets of a ``Feed``; what goes with another setting alone is left out."""
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


def _feed(loader: int, told: Mapping[str, object]) -> Feed:
    def number(name: str) -> int | None:
        value = told.get(name)
        return value if isinstance(value, int) else None

    def truth(name: str) -> bool | None:
        value = told.get(name)
        return value if isinstance(value, bool) else None

    return Feed(
        loader,
        num_workers=number("num_workers"),
        prefetch_factor=number("prefetch_factor"),
        in_order=truth("in_order"),
        persistent_workers=truth("persistent_workers"),
        intra_op_threads=number("intra_op_threads"),
        worker_threads=number("worker_threads"),
        wait=told.get("wait") is not False,
        pin_memory=truth("pin_memory"),
    )
