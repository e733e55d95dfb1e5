"""The user's own functions, and how much of a step each holds."""

from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.example_facts import cpu
from gapless.catalogue.examples.parts import source_line
from gapless.model.study import Site
from gapless.report.run.page import function_lines


def site(file: str, line: int, function: str) -> Site:
    return Site("idle.host.python", file, line, function, 1, 1)


STEP = (
    source_line("train.py", 70, "main", calls=0, total=40),
    source_line("train.py", 15, "schedule", total=12),
    source_line("src/net.py", 9, "forward", calls=4, total=20),
    source_line("train.py", 30, "tiny", total=1),
    source_line("torch/nn/modules/linear.py", 5, "forward", total=18),
)
USER_SITES = (
    site("train.py", 70, "main"),
    site("train.py", 15, "schedule"),
    site("src/net.py", 9, "forward"),
    site("train.py", 30, "tiny"),
)


def test_the_users_functions_are_told_by_what_they_hold_of_a_step() -> None:
    study = evidence_of(cpu(), {"busy.math": 40}, *STEP, *USER_SITES).study
    (line,) = function_lines(study)
    assert line.endswith("saw a step: src/net.py:9 forward 50 % · train.py:15 schedule 30 %")


def test_without_stacks_no_function_is_told() -> None:
    assert not list(function_lines(evidence_of(cpu(), {"busy.math": 40}).study))
