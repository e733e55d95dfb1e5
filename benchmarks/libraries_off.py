"""What operators take by the processor's library, and with more threads, of what they take without.

``python -m benchmarks.libraries_off``: convolutions with oneDNN of what they take without it, and
products and convolutions with all threads of what they take with one; each is the median ratio of
calls taken by turns.
"""

import argparse
from pathlib import Path
from typing import Any, Final

import torch

from benchmarks.double_precision import (
    CONVOLVED,
    PRODUCTS,
    Call,
    backward,
    convolution,
    product,
    ratio,
)
from benchmarks.machine import machine, versions, write_result

RESULT: Final = Path(__file__).parent / "results" / "libraries_off.json"


def main() -> None:
    """Measure all kinds, keep and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    single = torch.float32
    kinds = {
        "convolution": [convolution(shape, single) for shape in CONVOLVED],
        "convolution, backward": [backward(shape, single) for shape in CONVOLVED],
        "product": [product(shape, single) for shape in PRODUCTS],
    }
    ratios: dict[str, Any] = {
        "with_library": {
            name: [
                ratio(_with_library(call, enabled=True), _with_library(call, enabled=False))
                for call in calls
            ]
            for name, calls in kinds.items()
            if name != "product"
        },
        "with_threads": {
            name: [
                ratio(_with_threads(call, options.threads), _with_threads(call, 1))
                for call in calls
            ]
            for name, calls in kinds.items()
        },
    }
    result = {"version": 1, "machine": machine(), "torch": versions(("torch",))["torch"]}
    print(write_result(result | {"threads": options.threads} | ratios, options.out))


def _with_library(call: Call, *, enabled: bool) -> Call:
    def with_flag() -> object:
        with torch.backends.mkldnn.flags(enabled=enabled):
            return call()

    return with_flag


def _with_threads(call: Call, number: int) -> Call:
    def with_threads() -> object:
        torch.set_num_threads(number)
        return call()

    return with_threads


if __name__ == "__main__":
    main()
