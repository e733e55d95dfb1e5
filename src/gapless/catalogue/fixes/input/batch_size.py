"""Use another batch size: a person's decision."""

from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.declare.selectors import name_line, propose_for_loaders
from gapless.catalogue.declare.targets import LOADER
from gapless.model.edit import Applicability, Proposal, SetArgument
from gapless.model.facts import Facts, Loader


@fix(
    "batch-size",
    value="SAMPLES",
    cases="""
    # Twice as many samples, and that may be changed
    > manual: batch_size 64 → 128 at train.py:41
    gpu(), Option(override=True), SetArgument(LOADER, "batch_size", 128, LOADER_LINE)
    # Not asked to override
    > refused: batch_size 64 → 128 at train.py:41 is another optimisation problem (learning rate,
      schedule, generalisation): --override measures its speed
    gpu()
    # Already so
    > nothing to change: batch_size is already 64 at train.py:41
    gpu(), Option(value="64")
    # A batch sampler decides
    > refused: the loader at train.py:41 has no batch size of its own
    gpu(loader(batch_size=None))
    """,
)
def batch_size(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let a batch have N samples (by default twice as many).

    ## Precondition
    A loader with a batch size, and ``--override``.

    ## Safety
    Manual: it is another optimisation problem. Learning rate and schedule depend on it. gapless
    measures its gain in samples a second if asked to, and never applies it.
    """

    def propose(loader: Loader) -> Proposal:
        line_ref, old_size = name_line(loader.location), loader.batch_size
        if old_size is None:
            return batch_size.refusal(
                f"the loader at {line_ref} has no batch size of its own", loader.location
            )
        new_size = option.parse_number(2 * old_size)
        summary = f"batch_size {old_size} → {new_size} at {line_ref}"
        if new_size == old_size:
            return batch_size.no_change(
                f"batch_size is already {old_size} at {line_ref}", loader.location
            )
        if not option.override:
            reason = f"{summary} is another optimisation problem (learning rate, schedule, "
            reason += "generalisation): --override measures its speed"
            return batch_size.refusal(reason, loader.location)
        return batch_size.proposal(
            summary,
            SetArgument(LOADER, "batch_size", new_size, loader.location),
            applicability=Applicability.MANUAL,
            risk="another optimisation problem; compare samples a second, not steps",
            location=loader.location,
        )

    return propose_for_loaders(batch_size, facts, option, propose)
