"""Whatever happens to the bytes of another profiler's file: a sound trace, or a clear refusal."""

import pytest

from benchmarks.foreign_mutations import MAKERS, run_mutants


@pytest.mark.parametrize("kind", MAKERS)
def test_forty_mutants_are_read_soundly_or_refused(kind: str) -> None:
    outcomes, _ = run_mutants(kind, 40, "ci")
    assert outcomes.total() == 40
    assert outcomes["dropped or cut, and counted"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAKERS)
def test_two_thousand_mutants_are_read_soundly_or_refused(kind: str) -> None:
    outcomes, slowest_s = run_mutants(kind, 2000, "slow")
    assert outcomes.total() == 2000
    assert slowest_s < 30
