"""Another batch size: a person's decision."""

from gapless.catalogue import examples
from gapless.catalogue.choosing import each_loader, named
from gapless.catalogue.declare import Case, Option, fix
from gapless.catalogue.targets import LOADER
from gapless.model.edit import Applicability, Proposal, SetArgument
from gapless.model.facts import Facts, Loader


@fix(
    "batch-size",
    since="0.1",
    value="SAMPLES",
    cases=[
        Case(
            "Twice as many samples, and that may be changed",
            examples.gpu(),
            "manual: batch_size 64 → 128 at train.py:41",
            Option(override=True),
            edits=(SetArgument(LOADER, "batch_size", 128, examples.LOADER_LINE),),
        ),
        Case(
            "Not asked to override",
            examples.gpu(),
            "refused: batch_size 64 → 128 at train.py:41 is another optimisation problem (learning "
            "rate, schedule, generalisation): --override measures its speed",
        ),
        Case(
            "It is so already",
            examples.gpu(),
            "nothing to change: batch_size is already 64 at train.py:41",
            Option(value="64"),
        ),
        Case(
            "A batch sampler decides",
            examples.gpu(examples.loader(batch_size=None)),
            "refused: the loader at train.py:41 has no batch size of its own",
        ),
    ],
)
def batch_size(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let a batch have N samples (without a number: twice as many).

    ## Precondition
    A loader with a batch size, and ``--override``.

    ## Safety
    Manual: it is another optimisation problem. Learning rate and schedule depend on it. gapless
    measures what it is worth in samples a second if asked to, and never applies it.
    """

    def make(loader: Loader) -> Proposal:
        place, have = named(loader.where), loader.batch_size
        if have is None:
            return batch_size.refusal(
                f"the loader at {place} has no batch size of its own", loader.where
            )
        many = option.number(2 * have)
        does = f"batch_size {have} → {many} at {place}"
        if many == have:
            return batch_size.nothing(f"batch_size is already {have} at {place}", loader.where)
        if not option.override:
            why = f"{does} is another optimisation problem (learning rate, schedule, "
            why += "generalisation): --override measures its speed"
            return batch_size.refusal(why, loader.where)
        return batch_size.proposal(
            does,
            SetArgument(LOADER, "batch_size", many, loader.where),
            applicability=Applicability.MANUAL,
            risk="another optimisation problem; steps are not comparable, samples a second are",
            where=loader.where,
        )

    return each_loader(batch_size, facts, option, make)
