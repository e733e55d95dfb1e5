"""Which loaders, optimizers and modules of a run a fix is about."""

from collections.abc import Callable
from pathlib import PurePath

from gapless.catalogue.declare import Fix, Option
from gapless.errors import UsageError
from gapless.model.edit import Proposal, Where
from gapless.model.facts import Facts, Loader, Model, Optimizer, Parallel


def at(where: Where | None, asked: str | None) -> bool:
    """Tell whether a line is the one asked for: "train.py:41", or "train.py"; none: any is."""
    if asked is None:
        return True
    if where is None:
        return False
    file, _, line = (
        asked.rpartition(":") if asked.rpartition(":")[2].isdecimal() else (asked, "", "")
    )
    path = PurePath(where.file)
    parts = PurePath(file).parts
    return path.parts[-len(parts) :] == parts and (not line or int(line) == where.line)


def named(where: Where | None) -> str:
    """Name a line in short: "train.py:41"."""
    return "an unknown line" if where is None else f"{PurePath(where.file).name}:{where.line}"


def loaders(facts: Facts, option: Option) -> tuple[Loader, ...]:
    """Give the loaders that feed the training, or those at the line asked for."""
    found = tuple(one for one in facts.loaders if at(one.where, option.where))
    _complain(option, "DataLoader", [one.where for one in facts.loaders], any_found=bool(found))
    if option.where is not None:
        return found
    training = tuple(one for one in found if one.trains)
    return training or tuple(one for one in found if one.trains is not False)


def optimizers(facts: Facts, option: Option) -> tuple[Optimizer, ...]:
    """Give the optimizers, or those at the line asked for."""
    found = tuple(one for one in facts.optimizers if at(one.where, option.where))
    _complain(option, "optimizer", [one.where for one in facts.optimizers], any_found=bool(found))
    return found


def public(name: str) -> str:
    """Give the name of a class as users know it: torch.optim.AdamW, not torch.optim.adamw.AdamW."""
    parts = name.split(".")
    return f"torch.optim.{parts[-1]}" if parts[:2] == ["torch", "optim"] else name


def ddp(facts: Facts, option: Option) -> tuple[Parallel, ...]:
    """Give the modules wrapped in DistributedDataParallel, or those at the line asked for."""
    every = tuple(one for one in facts.parallel if one.kind == "ddp")
    found = tuple(one for one in every if at(one.where, option.where))
    _complain(option, "DDP module", [one.where for one in every], any_found=bool(found))
    return found


def _complain(option: Option, what: str, have: list[Where | None], *, any_found: bool) -> None:
    if option.where is None or any_found:
        return
    places = ", ".join(sorted({named(one) for one in have if one is not None}))
    there = f"there is one at {places}" if places else "none was seen"
    raise UsageError(f"no {what} was made at {option.where}: {there}")


def each_loader(
    this: Fix, facts: Facts, option: Option, make: Callable[[Loader], Proposal]
) -> tuple[Proposal, ...]:
    """Give a proposal for each loader, or the refusal where there is none, or none of torch's."""
    found = tuple(_lent(this, one) or make(one) for one in loaders(facts, option))
    return found or (this.refusal("no DataLoader was seen"),)


def _lent(this: Fix, loader: Loader) -> Proposal | None:
    """Give the refusal where no DataLoader of torch's was made: there is none to set."""
    if loader.stands_in is None:
        return None
    library = loader.stands_in.partition(".")[0]
    why = f"the batches at {named(loader.where)} come from a loader of {library}'s own, which is "
    return this.refusal(f"{why}set where it is made", loader.where)


def each_ddp(
    this: Fix, facts: Facts, option: Option, make: Callable[[Parallel], Proposal]
) -> tuple[Proposal, ...]:
    """Give a proposal for each DDP module, or the refusal where there is none."""
    found = tuple(make(one) for one in ddp(facts, option))
    return found or (this.refusal("no model is wrapped in DistributedDataParallel"),)


def on_cuda(facts: Facts) -> bool:
    """Tell whether the run used a CUDA device."""
    return facts.machine.device is not None


def model_on_cuda(model: Model) -> bool:
    """Tell whether a model's parameters lie on a CUDA device."""
    return (model.device or "").startswith("cuda")


def setting(facts: Facts, name: str) -> object:
    """Give a setting of torch as it was recorded; ``None``: not observed."""
    return None if facts.precision is None else facts.precision.settings.get(name)


def deterministic(facts: Facts) -> str | None:
    """Give which setting asks for the same result each time, ``None`` if none was seen to."""
    if setting(facts, "deterministic"):
        return "torch.use_deterministic_algorithms(True)"
    if setting(facts, "cudnn_deterministic"):
        return "torch.backends.cudnn.deterministic = True"
    return None
