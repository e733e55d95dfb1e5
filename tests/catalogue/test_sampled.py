"""How long a step stands in a function, by sampled stacks, and how sure that is."""

from gapless.catalogue import examples, sampled
from gapless.catalogue.seen_examples import seen
from gapless.model.host_code import HostCode
from gapless.model.interval import Interval
from gapless.model.study import Site

_BESIDE = Interval(0.0, 1e6, 2e6)


def _held(looks: int, *sites: Site) -> Interval | None:
    code = HostCode("python", 0.2, 1.0, "train.py", 42, "main", None, 0.2, looks)
    run = seen(examples.cpu(), {"busy.math": 16, "idle.host.python": 4}, *sites)
    return sampled.held_ns(run, code, _BESIDE)


def test_few_looks_leave_more_open_than_many_and_none_tell_nothing() -> None:
    few, many = _held(20), _held(2000)
    assert _held(0) is None
    assert few is not None
    assert many is not None
    assert few.mid == many.mid == 3e6
    assert few.high - few.low > 3 * (many.high - many.low)


def test_one_look_that_stood_there_does_not_make_it_sure() -> None:
    code = HostCode("python", 1.0, 1.0, "train.py", 42, "main", None, 1.0, 1)
    run = seen(examples.cpu(), {"busy.math": 10, "idle.host.python": 10})
    found = sampled.held_ns(run, code, Interval(0.0, 0.0, 0.0))
    assert found is not None
    assert found.low < 0.25 * found.high


def test_operators_of_other_lines_are_not_taken_off_what_stood_at_one() -> None:
    of_line = Site("aten::mul", "train.py", 30, "main", 20_000_000, 10)
    of_others = Site("aten::mm", "train.py", 30, "main", 150_000_000, 10)
    own, more = _held(2000, of_line), _held(2000, of_line, of_others)
    assert own is not None
    assert more is not None
    assert own.mid == 2e6
    assert more == _held(2000)
