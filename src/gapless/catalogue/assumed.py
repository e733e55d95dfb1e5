"""Facts as they would be with edits: what is proposed together is judged one after another."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from gapless.catalogue.choosing import public
from gapless.catalogue.declare import is_nothing
from gapless.catalogue.listing import asked, propose
from gapless.catalogue.targets import LOADER
from gapless.catalogue.traps import PREFETCH
from gapless.errors import UsageError
from gapless.model.edit import Edit, Proposal, SetArgument, SetGlobal
from gapless.model.facts import Facts, Loader, Optimizer

_SETTINGS = {one.name for one in fields(Loader)}


def together(names: Sequence[str], facts: Facts, *, override: bool = False) -> tuple[Proposal, ...]:
    """Give the proposals of named fixes that are tried together, each on top of those before it.

    So that "more-workers=4+prefetch=8" finds workers to prefetch for. Raises ``UsageError``.
    """
    found: list[Proposal] = []
    twice = [
        one for one, many in Counter(asked(each)[0].name for each in names).items() if many > 1
    ]
    if twice:
        raise UsageError(f"{'+'.join(names)}: {', '.join(twice)} is named twice")
    for name in names:
        some = propose(name, facts, override=override)
        found += some
        facts = after(facts, [edit for one in some if not is_nothing(one) for edit in one.edits])
    return tuple(found)


def after(facts: Facts, edits: Sequence[Edit]) -> Facts:
    """Give the facts with what edits set of loaders, optimizers and threads, as observed else."""
    for edit in edits:
        match edit:
            case SetArgument(target=target, name=name) if target == LOADER and name in _SETTINGS:
                loaders = tuple(_set(one, edit) for one in facts.loaders)
                facts = replace(facts, loaders=loaders)
            case SetArgument(name="foreach" | "fused"):
                optimizers = tuple(_told(one, edit) for one in facts.optimizers)
                facts = replace(facts, optimizers=optimizers)
            case SetGlobal(target="torch.set_num_threads", value=int() as threads):
                machine = replace(facts.machine, intra_op_threads=threads)
                facts = replace(facts, machine=machine)
            case _:
                pass
    return facts


def _told(optimizer: Optimizer, edit: SetArgument) -> Optimizer:
    meant = edit.where is None or edit.where == optimizer.where
    if not meant or edit.target != public(optimizer.name):
        return optimizer
    return replace(optimizer, **{edit.name: edit.value})


def _set(loader: Loader, edit: SetArgument) -> Loader:
    if edit.where is not None and edit.where != loader.where:
        return loader
    changes: dict[str, Any] = {edit.name: edit.value}
    if edit.name == "num_workers" and edit.value and loader.prefetch_factor is None:
        changes["prefetch_factor"] = PREFETCH
    return replace(loader, **changes)
