"""The tables that users know from the profiler they had: one file each."""

from concurrent.futures import ThreadPoolExecutor

from gapless.capture.tables.collectives import collective_table
from gapless.capture.tables.copies import copy_table
from gapless.capture.tables.kernels import kernel_table
from gapless.capture.tables.lines import line_table
from gapless.capture.tables.memory import memory_table
from gapless.capture.tables.operators import operator_table
from gapless.capture.tables.ranges import range_table
from gapless.capture.view import CaptureView
from gapless.model.tables import Tables


def build_tables(view: CaptureView, *, by_shape: bool) -> Tables:
    """Build all tables of one capture."""
    with ThreadPoolExecutor(2) as pool:  # NumPy lets the other thread run meanwhile
        lines = pool.submit(line_table, view)
        operators = pool.submit(operator_table, view, by_shape=by_shape)
        return Tables(
            kernels=kernel_table(view),
            copies=copy_table(view),
            collectives=collective_table(view),
            ranges=range_table(view),
            memory=memory_table(view),
            operators=operators.result(),
            lines=lines.result(),
        )
