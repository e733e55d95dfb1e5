"""How much of a step a device waits for what is done at a line."""

from pathlib import PurePath

from gapless.catalogue.queries import step_lines
from gapless.catalogue.queries.samples import HOST_LEAVES, is_function_of
from gapless.catalogue.queries.step_lines import StepLine
from gapless.model.evidence import Evidence


def exposed_share(evidence: Evidence, line: StepLine) -> float:
    """Return how much of a step a device waits at most for what is done at a line.

    That is its waits for the host, as far as stacks of a window show them in the line's function,
    or in functions that do not train, which it may call.
    """
    share = evidence.share(*HOST_LEAVES)
    sites = [site for site in evidence.study.sites if site.name.startswith(HOST_LEAVES)]
    if not evidence.on_device or not sites:
        return share
    training_names = {
        (PurePath(file).name, name.rpartition(".")[2])
        for file, name in step_lines.find_training_functions(evidence.call_lines)
    }
    exposed_ns = sum(
        site.ns
        for site in sites
        if is_function_of(site.file, site.function, line.location)
        or (PurePath(site.file).name, site.function) not in training_names
    )
    return share * exposed_ns / sum(site.ns for site in sites)
