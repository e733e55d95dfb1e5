"""How long a step stands in a function, by sampled stacks, and how sure that is."""

from gapless.catalogue.examples import example_facts
from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.queries import samples
from gapless.model.estimate import Estimate
from gapless.model.host_code import HostCode
from gapless.model.study import Site

_DIRECT_NS = Estimate(0.0, 1e6, 2e6)


def _estimate_held_ns(looks: int, *sites: Site) -> Estimate | None:
    code = HostCode("python", 0.2, 1.0, "train.py", 42, "main", None, 0.2, looks)
    evidence = evidence_of(example_facts.cpu(), {"busy.math": 16, "idle.host.python": 4}, *sites)
    return samples.estimate_held_ns(evidence, code, _DIRECT_NS)


def test_few_looks_leave_more_open_than_many_and_none_tell_nothing() -> None:
    few_looks, many_looks = _estimate_held_ns(20), _estimate_held_ns(2000)
    assert _estimate_held_ns(0) is None
    assert few_looks is not None
    assert many_looks is not None
    assert few_looks.mid == many_looks.mid == 3e6
    assert few_looks.high - few_looks.low > 3 * (many_looks.high - many_looks.low)


def test_one_look_that_stood_there_does_not_make_it_sure() -> None:
    code = HostCode("python", 1.0, 1.0, "train.py", 42, "main", None, 1.0, 1)
    evidence = evidence_of(example_facts.cpu(), {"busy.math": 10, "idle.host.python": 10})
    estimate = samples.estimate_held_ns(evidence, code, Estimate(0.0, 0.0, 0.0))
    assert estimate is not None
    assert estimate.low < 0.25 * estimate.high


def test_operators_of_other_lines_are_not_taken_off_what_stood_at_one() -> None:
    of_line = Site("aten::mul", "train.py", 30, "main", 20_000_000, 10)
    of_others = Site("aten::mm", "train.py", 30, "main", 150_000_000, 10)
    held_ns, held_with_others_ns = (
        _estimate_held_ns(2000, of_line),
        _estimate_held_ns(2000, of_line, of_others),
    )
    assert held_ns is not None
    assert held_with_others_ns is not None
    assert held_ns.mid == 2e6
    assert held_with_others_ns == _estimate_held_ns(2000)
