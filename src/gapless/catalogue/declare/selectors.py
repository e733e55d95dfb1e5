"""Selection of the loaders, optimizers and modules of a run that a fix applies to."""

from collections.abc import Callable
from pathlib import PurePath

from gapless.catalogue.declare.fix import Fix, Option
from gapless.errors import UsageError
from gapless.model.edit import Location, Proposal, short_path
from gapless.model.facts import Facts, Loader, Model, Optimizer, Parallel


def is_at_line(location: Location | None, line_ref: str | None) -> bool:
    """Return whether a line is the one asked for ("train.py:41" or "train.py"; None: any)."""
    if line_ref is None:
        return True
    if location is None:
        return False
    file, _, line = (
        line_ref.rpartition(":") if line_ref.rpartition(":")[2].isdecimal() else (line_ref, "", "")
    )
    path = PurePath(location.file)
    file_parts = PurePath(file).parts
    is_file = path.parts[-len(file_parts) :] == file_parts or file == short_path(location.file)
    return is_file and (not line or int(line) == location.line)


def name_line(location: Location | None) -> str:
    """Return the short name of a line: "train.py:41"."""
    return (
        "an unknown line" if location is None else f"{PurePath(location.file).name}:{location.line}"
    )


def select_loaders(facts: Facts, option: Option) -> tuple[Loader, ...]:
    """Return the loaders that feed the training, or those at the line asked for."""
    matches = tuple(
        loader for loader in facts.loaders if is_at_line(loader.location, option.line_ref)
    )
    _check_selection(
        option, "DataLoader", [loader.location for loader in facts.loaders], has_match=bool(matches)
    )
    if option.line_ref is not None:
        return matches
    training_loaders = tuple(loader for loader in matches if loader.trains)
    return training_loaders or tuple(loader for loader in matches if loader.trains is not False)


def select_optimizers(facts: Facts, option: Option) -> tuple[Optimizer, ...]:
    """Return the optimizers, or those at the line asked for."""
    matches = tuple(
        optimizer
        for optimizer in facts.optimizers
        if is_at_line(optimizer.location, option.line_ref)
    )
    _check_selection(
        option,
        "optimizer",
        [optimizer.location for optimizer in facts.optimizers],
        has_match=bool(matches),
    )
    return matches


def public_name(name: str) -> str:
    """Return the public name of a class: torch.optim.AdamW, not torch.optim.adamw.AdamW."""
    parts = name.split(".")
    return f"torch.optim.{parts[-1]}" if parts[:2] == ["torch", "optim"] else name


def select_ddp_modules(facts: Facts, option: Option) -> tuple[Parallel, ...]:
    """Return the modules wrapped in DistributedDataParallel, or those at the line asked for."""
    modules = tuple(module for module in facts.parallel if module.kind == "ddp")
    matches = tuple(module for module in modules if is_at_line(module.location, option.line_ref))
    _check_selection(
        option, "DDP module", [module.location for module in modules], has_match=bool(matches)
    )
    return matches


def _check_selection(
    option: Option, noun: str, locations: list[Location | None], *, has_match: bool
) -> None:
    if option.line_ref is None or has_match:
        return
    line_refs = ", ".join(
        sorted({name_line(location) for location in locations if location is not None})
    )
    hint = f"there is one at {line_refs}" if line_refs else "none was seen"
    raise UsageError(f"no {noun} was made at {option.line_ref}: {hint}")


def propose_for_loaders(
    fix: Fix, facts: Facts, option: Option, propose: Callable[[Loader], Proposal]
) -> tuple[Proposal, ...]:
    """Return a proposal for each loader, or a refusal if there is no DataLoader of torch."""
    proposals = tuple(
        _refuse_other_loader(fix, loader) or propose(loader)
        for loader in select_loaders(facts, option)
    )
    return proposals or (fix.refusal("no DataLoader was seen"),)


def _refuse_other_loader(fix: Fix, loader: Loader) -> Proposal | None:
    """Return the refusal for a run without a DataLoader of torch: there is none to set."""
    if loader.stands_in is None:
        return None
    library = loader.stands_in.partition(".")[0]
    reason = (
        f"the batches at {name_line(loader.location)} come from a loader of {library}'s own, which "
        "is "
    )
    return fix.refusal(f"{reason}set where it is made", loader.location)


def propose_for_ddp(
    fix: Fix, facts: Facts, option: Option, propose: Callable[[Parallel], Proposal]
) -> tuple[Proposal, ...]:
    """Return a proposal for each DDP module, or a refusal if there is none."""
    proposals = tuple(propose(module) for module in select_ddp_modules(facts, option))
    return proposals or (fix.refusal("no model is wrapped in DistributedDataParallel"),)


def uses_cuda(facts: Facts) -> bool:
    """Return whether the run used a CUDA device."""
    return facts.machine.device is not None


def is_model_on_cuda(model: Model) -> bool:
    """Return whether a model's parameters are on a CUDA device."""
    return (model.device or "").startswith("cuda")


def torch_setting(facts: Facts, name: str) -> object:
    """Return a setting of torch as recorded; ``None`` if it was not observed."""
    return None if facts.precision is None else facts.precision.settings.get(name)


def setting_location(facts: Facts, name: str) -> Location | None:
    """Return a setting that names a line; ``None`` if it was not observed."""
    line_ref = torch_setting(facts, name)
    file, _, line = line_ref.rpartition(":") if isinstance(line_ref, str) else ("", "", "")
    return Location(file, int(line), None) if file and line.isdecimal() else None


def autocast_dtypes(facts: Facts) -> tuple[str, ...]:
    """Return the types that were seen in regions of autocast."""
    dtypes = torch_setting(facts, "autocast")
    if not isinstance(dtypes, dict):
        return ()
    return tuple(str(region_dtype).removeprefix("torch.") for region_dtype in dtypes.values())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def deterministic_setting(facts: Facts) -> str | None:
    """Return the setting that asks for reproducible results; ``None`` if none was observed."""
    if torch_setting(facts, "deterministic"):
        return "torch.use_deterministic_algorithms(True)"
    if torch_setting(facts, "cudnn_deterministic"):
        return "torch.backends.cudnn.deterministic = True"
    return None
