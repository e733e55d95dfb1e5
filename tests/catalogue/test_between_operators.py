"""Time without frames between operators: what most steps of the windows have, or samples show."""

import pytest

from gapless.catalogue.examples import example_facts
from gapless.catalogue.examples.ranks import evidence_of_ranks
from gapless.catalogue.queries.between_operators import SILENT, measure_excess
from gapless.catalogue.rules.host.python_bound import python_bound
from gapless.model.host_code import HostCode

_WORK = {"busy.math": 10.0}
_SILENCE = _WORK | {SILENT: 4.0}
_SAMPLED = HostCode("python", 0.1, 0.5, "train.py", 9, "count", None, 0.05, 400)


@pytest.mark.parametrize(
    ("steps", "codes", "silent_ms"),
    [
        ((_SILENCE, _SILENCE, _SILENCE), (), 4.0),
        ((_SILENCE, _SILENCE, _WORK), (), 8 / 3),
        ((_SILENCE, _WORK, _WORK), (), 0.0),
        ((_SILENCE, _WORK, _WORK), (_SAMPLED,), 0.05 * (10 + 4 / 3)),
    ],
    ids=["every", "most", "one", "one, sampled"],
)
def test_a_silence_of_one_step_counts_as_far_as_samples_of_the_run_show_it(
    steps: tuple[dict[str, float], ...], codes: tuple[HostCode, ...], silent_ms: float
) -> None:
    evidence = evidence_of_ranks(example_facts.cpu(), steps, parts=codes)
    assert measure_excess(evidence).silent_ns == pytest.approx(
        1e6 * silent_ms, rel=0.2
    )  # steps take turns
    assert bool(python_bound(evidence)) is (silent_ms > 1.0 or bool(codes))
