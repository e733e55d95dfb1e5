"""The loader gives one batch that lies on the device: what data and its copy cost."""

from gapless.catalogue import examples
from gapless.catalogue.choosing import propose_for_loaders, name_line, uses_cuda
from gapless.catalogue.declare import Case, Option, fix
from gapless.catalogue.targets import LOADER
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts, Loader


@fix(
    "cached-batch-on-device",
    since="0.1",
    cases=[
        Case(
            "A loader of images, a GPU",
            examples.gpu(),
            "trial: DataLoader at train.py:41 gives one batch that lies on the device",
            edits=(
                Wrap(
                    LOADER,
                    "cached-batch",
                    {"device": True},
                    examples.LOADER_LINE,
                ),
            ),
        ),
        Case("No device", examples.cpu(), "refused: no device was used: there is nothing to copy"),
    ],
)
def cached_batch_on_device(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let the loader give one batch that lies on the device: training without loading or copying.

    An ablation. What it gains over ``cached-batch`` is what the copy to the device costs.

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
            f"DataLoader at {name_line(loader.location)} gives one batch that lies on the device",
            edit,
            applicability=Applicability.ABLATION,
            location=loader.location,
        )

    return propose_for_loaders(cached_batch_on_device, facts, option, propose)
