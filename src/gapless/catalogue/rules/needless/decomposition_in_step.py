"""Decompositions of matrices (SVD, eigenvalues, inverses) that are computed in each step."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.compute import ns_per_window_step, work_of
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure
from gapless.model.work import Work
from gapless.roofline.roofline import NO_CHANGE, scale_changes

_MIN_STEP_SHARE: Final = 0.02  # of the step
_NAMES: Final = frozenset(
    (
        *("cholesky", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "matrix_exp", "pinv"),
        *("qr", "slogdet", "svd", "svdvals"),
    )
)
_PREFIXES: Final = ("linalg_", "_linalg_")
_SUFFIXES: Final = ("_ex", "_backward", "_factor_ex", "_factor")
_ALIASES: Final = ("inverse", "svd", "geqrf", "cholesky_inverse", "cholesky_solve", "pinverse")
# Every tenth step, or as two products with a vector, a tenth remains; every second step, half.
# As with other lines that are not known to be needed, it is the price of steps without them.
_REMAINS: Final = Estimate(0.0, 0.1, 0.5)


def _is_decomposition(row: Work) -> bool:
    name = row.operator.removeprefix("aten::")
    if name in _ALIASES:
        return True
    base_name = next((name[len(prefix) :] for prefix in _PREFIXES if name.startswith(prefix)), None)
    if base_name is None:
        return False
    return base_name in _NAMES or any(
        base_name.removesuffix(suffix) in _NAMES for suffix in _SUFFIXES
    )


@rule(
    "G516",
    "decomposition-in-step",
    figures="""
    # Weights that are divided by their largest singular value in each forward pass
    > aten::linalg_svdvals, called 10× a step, takes 14.0 ms of each 34.0 ms step.
    cpu()
    busy.math 20, busy.other 14
    example_work("aten::linalg_svdvals", ((128, 1152),), 14, "busy.other", calls=10)
    # An SVD and an inverse, forward and backward
    > Decompositions of matrices, mostly aten::_linalg_svd, called 2× a step, take 13.0 ms of each
      33.0 ms step.
    gpu()
    busy.math 20, busy.other 13
    example_work("aten::_linalg_svd", ((256, 256),), 10, "busy.other", calls=2)
    example_work("aten::linalg_inv_ex", ((64, 64),), 3, "busy.other", calls=1)
    # A small matrix
    cpu()
    busy.math 20, busy.other 0.2
    example_work("aten::linalg_eigh", ((8, 8),), 0.2, "busy.other", calls=1)
    # A norm of gradients is none
    cpu()
    busy.math 20, busy.other 4
    example_work("aten::linalg_vector_norm", ((1024, 1024),), 4, "busy.other", calls=10)
    """,
)
def decomposition_in_step(evidence: Evidence) -> Detection | None:
    """Recognise that matrices are decomposed in each step: SVD, eigenvalues, QR, inverses.

    ## Why it costs time
    A decomposition passes over its matrix many times, each round waiting for the one before: it
    takes ten to a hundred times as long as a product of the same size, hardly uses more than one
    processor, and on a GPU it synchronises. Often little of it is needed: one product with a vector
    per step (power iteration) gives the largest singular value.

    ## How it is measured
    By the time of such operators in the windows. Whether a step needs one only people can say: the
    interval ranges from none of them to every second one, with one in ten, or power iteration, in
    the middle. Where each step needs the result in full (a Gaussian process), nothing is gained.
    """
    step_ns, rows = evidence.step_ns, [row for row in work_of(evidence) if _is_decomposition(row)]
    spent_ns = ns_per_window_step(evidence, sum(row.ns for row in rows))
    if not step_ns or spent_ns < _MIN_STEP_SHARE * step_ns:
        return None
    costliest = max(rows, key=lambda row: row.ns).operator
    calls = sum(row.calls for row in rows if row.operator == costliest)
    is_mixed = len({row.operator for row in rows}) > 1
    row_ids = set(map(id, rows))
    call_words = (
        f"{costliest}, called {windows.format_count(calls / windows.count_steps(evidence))}× a "
        "step,"
    )
    subject = (
        f"Decompositions of matrices, mostly {call_words} take"
        if is_mixed
        else f"{call_words} takes"
    )
    return decomposition_in_step.detection(
        f"{subject} {windows.format_step_part(evidence, spent_ns)}.",
        *scale_changes(
            evidence.study.work, lambda row: _REMAINS if id(row) in row_ids else NO_CHANGE
        ),
        location=windows.find_calling_function(evidence, costliest),
        measures=(Measure("decompositions, a step", spent_ns, "ns"),),
        no_remedy=(
            "decompose every n-th step and keep the result; for the largest singular value use "
            "power iteration (torch.nn.utils.parametrizations.spectral_norm), for a solution "
            "torch.linalg.solve in place of an inverse"
        ),
        inferred=True,
    )
