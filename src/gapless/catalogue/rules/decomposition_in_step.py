"""Decompositions of matrices (SVD, eigenvalues, inverses) that are computed in each step."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.computing import per_step, work_of
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.work_examples import worked
from gapless.model.finding import Loss, Measure
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.model.work import Work
from gapless.replay.roofline import SAME, scales

_LEAST: Final = 0.02  # of the step
_NAMES: Final = frozenset(
    (
        *("cholesky", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "matrix_exp", "pinv"),
        *("qr", "slogdet", "svd", "svdvals"),
    )
)
_BEGINNINGS: Final = ("linalg_", "_linalg_")
_ENDINGS: Final = ("_ex", "_backward", "_factor_ex", "_factor")
_ALIASES: Final = ("inverse", "svd", "geqrf", "cholesky_inverse", "cholesky_solve", "pinverse")
# In each tenth step, or as two products with a vector, a tenth stays; where the result is needed in
# full and anew each time (a Gaussian process), all of it does.
_LEFT: Final = Interval(0.0, 0.1, 1.0)


def _is_decomposition(row: Work) -> bool:
    name = row.operator.removeprefix("aten::")
    if name in _ALIASES:
        return True
    bare = next((name[len(one) :] for one in _BEGINNINGS if name.startswith(one)), None)
    if bare is None:
        return False
    return bare in _NAMES or any(bare.removesuffix(one) in _NAMES for one in _ENDINGS)


@rule(
    "G516",
    "decomposition-in-step",
    since="0.1",
    figures=[
        Figure(
            "Weights that are divided by their largest singular value in each forward pass",
            "aten::linalg_svdvals, called 10× a step, takes 14.0 ms of each 34.0 ms step.",
            stated(
                examples.cpu(),
                {"busy.math": 20, "busy.other": 14},
                worked("aten::linalg_svdvals", ((128, 1152),), 14, "busy.other", calls=10),
            ),
        ),
        Figure(
            "Both ways through an SVD, and an inverse",
            "Decompositions of matrices, mostly aten::_linalg_svd, called 2× a step, take 13.0 ms "
            "of each 33.0 ms step.",
            stated(
                examples.gpu(),
                {"busy.math": 20, "busy.other": 13},
                worked("aten::_linalg_svd", ((256, 256),), 10, "busy.other", calls=2),
                worked("aten::linalg_inv_ex", ((64, 64),), 3, "busy.other", calls=1),
            ),
        ),
        Figure(
            "A small one",
            None,
            stated(
                examples.cpu(),
                {"busy.math": 20, "busy.other": 0.2},
                worked("aten::linalg_eigh", ((8, 8),), 0.2, "busy.other", calls=1),
            ),
        ),
        Figure(
            "A norm of gradients is none",
            None,
            stated(
                examples.cpu(),
                {"busy.math": 20, "busy.other": 4},
                worked("aten::linalg_vector_norm", ((1024, 1024),), 4, "busy.other", calls=10),
            ),
        ),
    ],
)
def decomposition_in_step(seen: Seen) -> Loss | None:
    """Recognise that matrices are decomposed in each step: SVD, eigenvalues, QR, inverses.

    ## Why it costs time
    A decomposition goes over its matrix many times, each round waiting for the one before: of the
    same size it takes ten to a hundred times as long as a product, hardly uses more than one
    processor, and on a GPU it synchronises. Often little of it is needed: the largest singular
    value comes from a product with a vector a step (power iteration).

    ## How it is measured
    By the time of such operators in the windows. Whether a step needs one is for people to say: the
    interval holds what a tenth of them would leave, or power iteration, and that all must stay.
    """
    step, mine = seen.step_ns, [one for one in work_of(seen) if _is_decomposition(one)]
    spent = per_step(seen, sum(one.ns for one in mine))
    if not step or spent < _LEAST * step:
        return None
    most = max(mine, key=lambda one: one.ns).operator
    calls = sum(one.calls for one in mine if one.operator == most)
    several = len({one.operator for one in mine}) > 1
    alone = set(map(id, mine))
    called = f"{most}, called {windowed.times(calls / windowed.steps(seen))}× a step,"
    told = f"Decompositions of matrices, mostly {called} take" if several else f"{called} takes"
    return decomposition_in_step.loss(
        f"{told} {windowed.of_step(seen, spent)}.",
        *scales(seen.study.work, lambda one: _LEFT if id(one) in alone else SAME),
        where=windowed.site(seen, most),
        evidence=(Measure("decompositions, a step", spent, "ns"),),
        no_remedy=(
            "decompose every so many steps and keep the result; for the largest singular value use "
            "power iteration (torch.nn.utils.parametrizations.spectral_norm), for a solution "
            "torch.linalg.solve in place of an inverse"
        ),
        inferred=True,
    )
