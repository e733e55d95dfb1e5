"""The tables that users know from the profiler they had: one file each."""

from concurrent.futures import ThreadPoolExecutor

from gapless.model.tables import Tables
from gapless.study.tables.collectives import collective_table
from gapless.study.tables.copies import copy_table
from gapless.study.tables.kernels import kernel_table
from gapless.study.tables.lines import line_table
from gapless.study.tables.memory import memory_table
from gapless.study.tables.operators import operator_table
from gapless.study.tables.ranges import range_table
from gapless.study.view import CaptureView


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
