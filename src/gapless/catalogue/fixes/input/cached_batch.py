"""Repeat one batch, to measure what loading costs."""

from gapless.catalogue.declare.fix import Case, Option, fix
from gapless.catalogue.declare.selectors import name_line, propose_for_loaders
from gapless.catalogue.declare.targets import LOADER
from gapless.catalogue.effects.loaders import loader_changes
from gapless.catalogue.examples import example_facts
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts, Loader


@fix(
    "cached-batch",
    effect=loader_changes,
    cases=lambda: [
        Case(
            "A loader of images",
            example_facts.gpu(),
            "trial: DataLoader at train.py:41 repeats its first batch",
            edits=(Wrap(LOADER, "cached-batch", {"device": False}, example_facts.LOADER_LINE),),
        ),
        Case("No loader", example_facts.bare_facts(), "refused: no DataLoader was seen"),
    ],
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

    def propose(loader: Loader) -> Proposal:
        edit = Wrap(LOADER, "cached-batch", {"device": False}, loader.location)
        return cached_batch.proposal(
            f"DataLoader at {name_line(loader.location)} repeats its first batch",
            edit,
            applicability=Applicability.ABLATION,
            location=loader.location,
        )

    return propose_for_loaders(cached_batch, facts, option, propose)
