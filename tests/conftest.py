"""What every test runs under: ``--slow``, the marks, hypothesis's profiles."""

import gc
import os
import signal
import sys
from contextlib import suppress

import pytest
from hypothesis import settings

# The same examples are drawn each time: a red run is the change's fault, never the dice's. Others
# are drawn with ``--hypothesis-profile dice``.
settings.register_profile("same", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("dice", deadline=None, print_blob=True)
# What runs in the background ignores these, and so would every training that the tests start.
for _number, _usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(_number) is signal.SIG_IGN:
        with suppress(ValueError):  # not in the main thread
            signal.signal(_number, _usual)
os.environ.pop("COLUMNS", None)  # pages are as wide as without a terminal, whoever runs the tests
settings.load_profile("same")
# Compiled once, the package and its tests are compiled, also for the processes that tests start:
# where no bytecode may be written, each of these would compile all that it imports.
sys.dont_write_bytecode = False


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked slow as well")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--slow"):
        _skip(items, "slow", "runs with --slow")
    if any(item.get_closest_marker("gpu") for item in items) and not _has_gpu():
        _skip(items, "gpu", "no CUDA device")


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of the collections to come: a test that asks for
    one, and each process that a test forks, would go through a million objects that stay.
    """
    gc.collect()
    gc.freeze()


def _skip(items: list[pytest.Item], mark: str, reason: str) -> None:
    for item in items:
        if item.get_closest_marker(mark):
            item.add_marker(pytest.mark.skip(reason=reason))


def _has_gpu() -> bool:
    import torch  # noqa: PLC0415  # a second that a suite without GPU tests need not pay

    return torch.cuda.is_available()
