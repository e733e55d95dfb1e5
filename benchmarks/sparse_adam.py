"""What SparseAdam takes for a looked-up row, in passes of a dense Adam over one row, on a CPU.

    python -m benchmarks.sparse_adam     # benchmarks/results/sparse_adam.json

Steps of either over the same table take turns, one thread, by the thread's processor time; what the
sparse one takes for a single row is taken off before the rows are counted.
"""

import statistics
import time
from itertools import product
from pathlib import Path
from typing import Final

import torch

from benchmarks.machine import machine, write_result

_TURNS: Final = 11
_STEPS: Final = 8
_N_TABLE_ROWS: Final = 200_000
_N_LOOKED_UP: Final = (1_000, 10_000, 50_000)
_WIDTHS: Final = (32, 100, 300)
_RESULT: Final = Path(__file__).parent / "results" / "sparse_adam.json"


def _make_table(width: int) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.randn(_N_TABLE_ROWS, width))


def _sparse_gradient(n_rows: int, width: int) -> torch.Tensor:
    rows = torch.randperm(_N_TABLE_ROWS)[:n_rows].sort().values
    values = torch.randn(n_rows, width)
    shape = (_N_TABLE_ROWS, width)
    return torch.sparse_coo_tensor(
        rows[None], values, shape, check_invariants=True, is_coalesced=True
    )


def _block_s(optimizer: torch.optim.Optimizer) -> float:
    begin = time.thread_time()
    for _ in range(_STEPS):
        optimizer.step()
    return (time.thread_time() - begin) / _STEPS


def measure(n_rows: int, width: int, *, fused: bool) -> dict[str, object]:
    """Return how many passes of a dense Adam over a row a sparse one takes for it."""
    dense, sparse, single = (_make_table(width) for _ in range(3))
    dense.grad = torch.randn_like(dense)
    sparse.grad = _sparse_gradient(n_rows, width)
    single.grad = _sparse_gradient(1, width)
    optimizers = (
        torch.optim.Adam([dense], fused=fused, foreach=False),
        torch.optim.SparseAdam([sparse]),
        torch.optim.SparseAdam([single]),
    )
    for optimizer in optimizers:
        optimizer.step()
    turns = [[_block_s(optimizer) for optimizer in optimizers] for _ in range(_TURNS)]
    ratios = [(few - one) / n_rows / (all_s / _N_TABLE_ROWS) for all_s, few, one in turns]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return {
        "looked_up": n_rows,
        "width": width,
        "dense": "fused" if fused else "one by one",
        "passes": {"low": low, "mid": middle, "high": high},
    }


def main() -> None:
    """Measure all sizes, and write them."""
    torch.set_num_threads(1)
    rows: list[dict[str, object]] = []
    for n_rows, width, fused in product(_N_LOOKED_UP, _WIDTHS, (True, False)):
        rows.append(measure(n_rows, width, fused=fused))
        print(rows[-1], flush=True)
    result = {"machine": machine(), "torch": torch.__version__, "rows": rows}
    write_result(result, _RESULT)


if __name__ == "__main__":
    main()
