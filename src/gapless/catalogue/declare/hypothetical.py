"""Facts as they would be after edits: proposals made together are judged one after another."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from gapless.catalogue.declare.fix import changes_nothing
from gapless.catalogue.declare.listing import parse_fix, propose_named
from gapless.catalogue.declare.selectors import public_name
from gapless.catalogue.declare.targets import LOADER
from gapless.catalogue.declare.traps import DEFAULT_PREFETCH
from gapless.errors import UsageError
from gapless.model.edit import Edit, Proposal, SetArgument, SetGlobal
from gapless.model.facts import Facts, Loader, Optimizer

_LOADER_FIELDS = set(Loader.__struct_fields__)


def propose_together(
    names: Sequence[str], facts: Facts, *, override: bool = False
) -> tuple[Proposal, ...]:
    """Return the proposals of fixes that are tried together, each on top of those before it.

    So "more-workers=4+prefetch=8" finds workers to prefetch for. Raises ``UsageError``.
    """
    proposals: list[Proposal] = []
    duplicates = [
        fix_name
        for fix_name, count in Counter(parse_fix(name)[0].name for name in names).items()
        if count > 1
    ]
    if duplicates:
        raise UsageError(f"{'+'.join(names)}: {', '.join(duplicates)} is named twice")
    for name in names:
        fix_proposals = propose_named(name, facts, override=override)
        proposals += fix_proposals
        facts = assume_edits(
            facts,
            [
                edit
                for proposal in fix_proposals
                if not changes_nothing(proposal)
                for edit in proposal.edits
            ],
        )
    return tuple(proposals)


def assume_edits(facts: Facts, edits: Sequence[Edit]) -> Facts:
    """Return the facts with what edits set for loaders, optimizers and threads."""
    for edit in edits:
        match edit:
            case SetArgument(target=target, name=name) if (
                target == LOADER and name in _LOADER_FIELDS
            ):
                loaders = tuple(_set_loader(loader, edit) for loader in facts.loaders)
                facts = replace(facts, loaders=loaders)
            case SetArgument(name="foreach" | "fused"):
                optimizers = tuple(
                    _set_optimizer(optimizer, edit) for optimizer in facts.optimizers
                )
                facts = replace(facts, optimizers=optimizers)
            case SetGlobal(target="torch.set_num_threads", value=int() as threads):
                machine = replace(facts.machine, intra_op_threads=threads)
                facts = replace(facts, machine=machine)
            case _:
                pass
    return facts


def _set_optimizer(optimizer: Optimizer, edit: SetArgument) -> Optimizer:
    is_same_line = edit.where is None or edit.where == optimizer.location
    if not is_same_line or edit.target != public_name(optimizer.name):
        return optimizer
    return replace(optimizer, **{edit.name: edit.value})


def _set_loader(loader: Loader, edit: SetArgument) -> Loader:
    if edit.where is not None and edit.where != loader.location:
        return loader
    changes: dict[str, Any] = {edit.name: edit.value}
    if edit.name == "num_workers" and edit.value and loader.prefetch_factor is None:
        changes["prefetch_factor"] = DEFAULT_PREFETCH
    return replace(loader, **changes)
