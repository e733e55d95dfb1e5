"""Whatever happens to the bytes of a trace: a sound trace comes of it, or a clear refusal."""

import random
from collections import Counter
from pathlib import Path

from benchmarks.mutations import find_faults, load_specimens, mutate, try_mutant
from gapless.formats import read


def test_specimens_are_sound_and_small(tmp_path: Path) -> None:
    sources = load_specimens()
    assert len(sources) == 4
    for source in sources:
        path = tmp_path / "specimen.json"
        path.write_bytes(source)
        trace = read(path)
        assert find_faults(trace) == []
        assert (trace.health.dropped, trace.health.repaired) == ((), ())
        assert len(trace.events) > 100
        assert len(source) < 200_000


def test_forty_mutants_are_read_soundly_or_refused(tmp_path: Path) -> None:
    sources = load_specimens()
    outcomes: Counter[str] = Counter()
    for seed in range(40):
        rng = random.Random(f"ci:{seed}")
        outcomes[try_mutant(mutate(rng.choice(sources), rng), tmp_path)] += 1
    assert outcomes.total() == 40
    assert outcomes["cut: what was there is given"] > 2
    assert outcomes["some events dropped and counted"] > 2
    assert outcomes["some events repaired and counted"] > 0
