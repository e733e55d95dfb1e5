"""What operators take in fp32, of what they take in fp64: on processors, some shapes of each kind.

``python -m benchmarks.double_precision``: each is the median ratio of calls taken by turns.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch

from benchmarks.machine import machine, versions, write_result

RESULT: Final = Path(__file__).parent / "results" / "double_precision.json"
ROUNDS: Final = 7
_SECONDS: Final = 0.1  # of a round
_FORMATS: Final = (torch.float32, torch.float64)
CONVOLVED: Final = (  # batch, channels in and out, kernel, size
    (100, 1, 16, 5, 28),
    (100, 16, 32, 5, 14),
    (32, 64, 64, 3, 16),
    (16, 3, 64, 3, 64),
    (8, 128, 128, 3, 32),
)
PRODUCTS: Final = (
    (16, 64, 64),
    (64, 100, 128),
    (64, 784, 512),
    (128, 2048, 512),
    (256, 1024, 1024),
)
_TRANSPOSED: Final = False  # no transposed convolution
Call = Callable[[], Any]


def main() -> None:
    """Measure all kinds, keep and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    ratios = {
        "convolution": [
            ratio(*(convolution(shape, form) for form in _FORMATS)) for shape in CONVOLVED
        ],
        "convolution, backward": [
            ratio(*(backward(shape, form) for form in _FORMATS)) for shape in CONVOLVED
        ],
        "product": [ratio(*(product(shape, form) for form in _FORMATS)) for shape in PRODUCTS],
    }
    result = {"version": 1, "machine": machine(), "torch": versions(("torch",))["torch"]}
    print(write_result(result | {"threads": options.threads, "of_fp64": ratios}, options.out))


def ratio(call: Call, base: Call) -> float:
    """Return what the one takes, of what the other takes, by turns."""
    rounds = [(_call_seconds(call), _call_seconds(base)) for _ in range(ROUNDS)]
    return round(statistics.median(a / b for a, b in rounds), 3)


def _call_seconds(call: Call) -> float:
    """Return the seconds of a call, the mean of as many as fit in a round."""
    call()
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < _SECONDS:
        call()
        count += 1
    return (time.perf_counter() - begin) / count


def convolution(shape: tuple[int, ...], form: torch.dtype) -> Call:
    """Return a convolution, forward."""
    pictures, weights, padding = _pictures(shape, form)
    return lambda: torch.nn.functional.conv2d(pictures, weights, padding=padding)


def backward(shape: tuple[int, ...], form: torch.dtype) -> Call:
    """Return the backward pass of a convolution."""
    pictures, weights, padding = _pictures(shape, form)
    gradients = torch.randn_like(torch.nn.functional.conv2d(pictures, weights, padding=padding))
    padding_2d, output_mask = [padding, padding], [True, True, False]

    def call() -> object:
        return torch.ops.aten.convolution_backward(
            gradients,
            pictures,
            weights,
            [0],
            [1, 1],
            padding_2d,
            [1, 1],
            _TRANSPOSED,
            [0, 0],
            1,
            output_mask,
        )

    return call


def _pictures(shape: tuple[int, ...], form: torch.dtype) -> tuple[Any, Any, int]:
    batch, channels, out, kernel, size = shape
    pictures = torch.randn(batch, channels, size, size, dtype=form)
    return pictures, torch.randn(out, channels, kernel, kernel, dtype=form), kernel // 2


def product(shape: tuple[int, ...], form: torch.dtype) -> Call:
    """Return a product of two matrices."""
    rows, inner, columns = shape
    a, b = torch.randn(rows, inner, dtype=form), torch.randn(inner, columns, dtype=form)
    return lambda: a @ b


if __name__ == "__main__":
    main()
