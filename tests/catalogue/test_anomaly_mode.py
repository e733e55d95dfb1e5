"""What writing stacks down costs: as many, and as deep, as windows with stacks show."""

import pytest

from gapless.catalogue import examples
from gapless.catalogue.rules.anomaly_mode import CHECK, without_checks
from gapless.catalogue.seen_examples import seen
from gapless.catalogue.seen_parts import MS, STEPS, operator
from gapless.model.change import Hosted
from gapless.model.interval import Interval
from gapless.model.tables import Line

NODE = "autograd::engine::evaluate_function: AddmmBackward0"
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def line(function: str, calls: int) -> Line:
    """Give a function of Python's ``traceback``, called so often a step."""
    return Line("lib/python3.12/traceback.py", 1, function, calls * STEPS, 0, 0, None, 0)


def left(*parts: object, on_device: bool = False, busy: float = 10.0) -> Interval:
    """Give what stays of the time of operators, of steps with 40 nodes."""
    facts = examples.precision(anomaly=True)
    of = examples.gpu(facts) if on_device else examples.cpu(facts)
    leaves = {"busy.math": busy, "idle.host.python": 2}
    rows = (operator(CHECK, 40, 1), operator("aten::addmm", 40, 9), operator(NODE, 40, 1))
    found = without_checks(seen(of, leaves, *rows, *parts))
    (hosted,) = [one.factor for one in found if isinstance(one, Hosted)]
    return hosted


def test_each_node_has_a_stack_where_no_window_tells() -> None:
    assert left().low < left().mid < left().high < 1


def test_as_many_stacks_are_taken_off_as_windows_show() -> None:
    few, many = (
        left(line("extract_stack", count), line("format_frame_summary", 10 * count))
        for count in (10, 30)
    )
    assert (1 - many.mid) / (1 - few.mid) == pytest.approx(3)
    assert (1 - many.high) / (1 - few.high) == pytest.approx(3)


def test_deeper_stacks_take_longer() -> None:
    flat, deep = (
        left(line("extract_stack", 20), line("format_frame_summary", 20 * depth))
        for depth in (4, 20)
    )
    assert deep.mid < flat.mid
    usual = left(line("extract_stack", 20))  # Python before 3.11 makes lines by no function
    assert deep.mid < usual.mid < flat.mid


def test_functions_of_the_same_name_elsewhere_are_none() -> None:
    mine = Line("train.py", 1, "extract_stack", 5 * STEPS, 0, 0, None, 0)
    assert left(mine) == left()


def test_what_operators_take_is_that_of_plain_steps_without_a_device() -> None:
    assert left(busy=20.0).mid > left(busy=10.0).mid


def test_operators_of_a_loader_on_the_same_thread_are_not_the_steps() -> None:
    loads = operator(LOADER, 1, 6)
    inner = type(loads)(
        loads.name, None, loads.calls, 0, 6 * STEPS * MS, None, None
    )  # all of it in operators
    alone, beside = left(on_device=True), left(inner, on_device=True)
    assert beside.mid < alone.mid
