"""The loader gives one batch again and again: what data costs."""

from gapless.catalogue import examples
from gapless.catalogue.choosing import propose_for_loaders, name_line
from gapless.catalogue.declare import Case, Option, fix
from gapless.catalogue.targets import LOADER
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts, Loader


@fix(
    "cached-batch",
    since="0.1",
    cases=[
        Case(
            "A loader of images",
            examples.gpu(),
            "trial: DataLoader at train.py:41 gives its first batch again and again",
            edits=(
                Wrap(
                    LOADER,
                    "cached-batch",
                    {"device": False},
                    examples.LOADER_LINE,
                ),
            ),
        ),
        Case("No loader", examples.bare_facts(), "refused: no DataLoader was seen"),
    ],
)
def cached_batch(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let the loader give one batch again and again: how fast training would be without loading.

    An ablation: it measures a ceiling and is never a patch. What no loader could gain is told by
    it in a minute, before any work is put into the loader.

    ## Precondition
    A DataLoader. Those that feed the training are meant, or the one at the line that is named.

    ## Safety
    It trains on one batch, so it is for trials only. Losses are not compared.
    """

    def propose(loader: Loader) -> Proposal:
        edit = Wrap(LOADER, "cached-batch", {"device": False}, loader.location)
        return cached_batch.proposal(
            f"DataLoader at {name_line(loader.location)} gives its first batch again and again",
            edit,
            applicability=Applicability.ABLATION,
            location=loader.location,
        )

    return propose_for_loaders(cached_batch, facts, option, propose)
