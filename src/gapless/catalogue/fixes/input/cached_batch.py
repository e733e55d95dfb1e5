"""Repeat one batch, on the host or on the device, to measure what loading and copying cost."""

from gapless.catalogue.declare.fix import Fix, Option, fix
from gapless.catalogue.declare.selectors import name_line, propose_for_loaders, uses_cuda
from gapless.catalogue.declare.targets import LOADER
from gapless.catalogue.effects.loaders import loader_changes
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts, Loader


@fix(
    "cached-batch",
    effect=loader_changes,
    cases="""
    # A loader of images
    > trial: DataLoader at train.py:41 repeats its first batch
    gpu(), Wrap(LOADER, "cached-batch", {"device": False}, LOADER_LINE)
    # No loader
    > refused: no DataLoader was seen
    bare_facts()
    """,
)
def cached_batch(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let the loader repeat one batch: how fast training would be without loading.

    An ablation: it measures an upper bound and is never applied as a patch. It shows within a
    minute what the best loader could gain, before any work is put into one.

    ## Precondition
    A DataLoader. It applies to those that feed the training, or to the one at the given line.

    ## Safety
    It trains on one batch, so it is for trials only. Losses are not compared.
    """
    return _propose(cached_batch, facts, option, "its first batch")


@fix(
    "cached-batch-on-device",
    cases="""
    # A loader of images, a GPU
    > trial: DataLoader at train.py:41 repeats one batch on the device
    gpu(), Wrap(LOADER, "cached-batch", {"device": True}, LOADER_LINE)
    # No device
    > refused: no device was used: there is nothing to copy
    cpu()
    """,
)
def cached_batch_on_device(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let the loader repeat one batch on the device: training without loading or copying.

    An ablation. Its gain over ``cached-batch`` is the cost of the copy to the device.

    ## Precondition
    A DataLoader, and a device.

    ## Safety
    It trains on one batch, so it is for trials only. Losses are not compared.
    """
    if not uses_cuda(facts):
        return (cached_batch_on_device.refusal("no device was used: there is nothing to copy"),)
    return _propose(cached_batch_on_device, facts, option, "one batch on the device")


def _propose(fix: Fix, facts: Facts, option: Option, batch: str) -> tuple[Proposal, ...]:
    on_device = fix is cached_batch_on_device

    def propose(loader: Loader) -> Proposal:
        return fix.proposal(
            f"DataLoader at {name_line(loader.location)} repeats {batch}",
            Wrap(LOADER, "cached-batch", {"device": on_device}, loader.location),
            applicability=Applicability.ABLATION,
            location=loader.location,
        )

    return propose_for_loaders(fix, facts, option, propose)
