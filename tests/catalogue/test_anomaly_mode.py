"""What writing stacks down costs: as many, and as deep, as windows with stacks show."""

import pytest

from gapless.catalogue.examples import example_facts
from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.parts import MS, STEPS, operator
from gapless.catalogue.rules.host.anomaly_mode import CHECK_OPERATOR, changes_without_checks
from gapless.model.change import HostChange
from gapless.model.estimate import Estimate
from gapless.model.tables import Line

NODE = "autograd::engine::evaluate_function: AddmmBackward0"
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def line(function: str, calls: int) -> Line:
    """Return a function of Python's ``traceback``, called so often a step."""
    return Line("lib/python3.12/traceback.py", 1, function, calls * STEPS, 0, 0, None, 0)


def remaining_factor(*parts: object, on_device: bool = False, busy: float = 10.0) -> Estimate:
    """Return what stays of the time of operators, of steps with 40 nodes."""
    precision = example_facts.precision(anomaly=True)
    facts = example_facts.gpu(precision) if on_device else example_facts.cpu(precision)
    leaves = {"busy.math": busy, "idle.host.python": 2}
    rows = (operator(CHECK_OPERATOR, 40, 1), operator("aten::addmm", 40, 9), operator(NODE, 40, 1))
    changes = changes_without_checks(evidence_of(facts, leaves, *rows, *parts))
    (factor,) = [change.factor for change in changes if isinstance(change, HostChange)]
    return factor


def test_each_node_has_a_stack_where_no_window_tells() -> None:
    assert remaining_factor().low < remaining_factor().mid < remaining_factor().high < 1


def test_as_many_stacks_are_taken_off_as_windows_show() -> None:
    few_stacks, many_stacks = (
        remaining_factor(line("extract_stack", count), line("format_frame_summary", 10 * count))
        for count in (10, 30)
    )
    assert (1 - many_stacks.mid) / (1 - few_stacks.mid) == pytest.approx(3)
    assert (1 - many_stacks.high) / (1 - few_stacks.high) == pytest.approx(3)


def test_deeper_stacks_take_longer() -> None:
    flat, deep = (
        remaining_factor(line("extract_stack", 20), line("format_frame_summary", 20 * depth))
        for depth in (4, 20)
    )
    assert deep.mid < flat.mid
    usual = remaining_factor(
        line("extract_stack", 20)
    )  # Python before 3.11 makes lines by no function
    assert deep.mid < usual.mid < flat.mid


def test_functions_of_the_same_name_elsewhere_are_none() -> None:
    user_line = Line("train.py", 1, "extract_stack", 5 * STEPS, 0, 0, None, 0)
    assert remaining_factor(user_line) == remaining_factor()


def test_what_operators_take_is_that_of_plain_steps_without_a_device() -> None:
    assert remaining_factor(busy=20.0).mid > remaining_factor(busy=10.0).mid


def test_operators_of_a_loader_on_the_same_thread_are_not_the_steps() -> None:
    loader_row = operator(LOADER, 1, 6)
    inner_row = type(loader_row)(
        loader_row.name, None, loader_row.calls, 0, 6 * STEPS * MS, None, None
    )  # all of it in operators
    alone, with_loader = (
        remaining_factor(on_device=True),
        remaining_factor(inner_row, on_device=True),
    )
    assert with_loader.mid < alone.mid
