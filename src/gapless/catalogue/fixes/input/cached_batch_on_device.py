"""Repeat one batch on the device, to measure what loading and copying cost."""

from gapless.catalogue.declare.fix import Case, Option, fix
from gapless.catalogue.declare.selectors import name_line, propose_for_loaders, uses_cuda
from gapless.catalogue.declare.targets import LOADER
from gapless.catalogue.examples import example_facts
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts, Loader


@fix(
    "cached-batch-on-device",
    cases=lambda: [
        Case(
            "A loader of images, a GPU",
            example_facts.gpu(),
            "trial: DataLoader at train.py:41 repeats one batch on the device",
            edits=(Wrap(LOADER, "cached-batch", {"device": True}, example_facts.LOADER_LINE),),
        ),
        Case(
            "No device",
            example_facts.cpu(),
            "refused: no device was used: there is nothing to copy",
        ),
    ],
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

    def propose(loader: Loader) -> Proposal:
        edit = Wrap(LOADER, "cached-batch", {"device": True}, loader.location)
        return cached_batch_on_device.proposal(
            f"DataLoader at {name_line(loader.location)} repeats one batch on the device",
            edit,
            applicability=Applicability.ABLATION,
            location=loader.location,
        )

    return propose_for_loaders(cached_batch_on_device, facts, option, propose)
