"""Train a case of the zoo, as anybody would: ``python tests/zoo/run.py CASE --steps 100``.

``--variant NAME`` trains it without the fault that its source has. Cases of two ranks are
started by torchrun, or ``python -m torch.distributed.run --nproc-per-node 2``.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

MIN_STEPS = 40


def main() -> None:
    from tests.zoo.cases import CASES
    from tests.zoo.making import make

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=sorted(CASES))
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument(
        "--seconds", type=float, help=f"stop so long after the first step, and {MIN_STEPS} steps"
    )
    parser.add_argument("--variant", help="the name of one of the case's variants")
    options = parser.parse_args()
    job = make(CASES[options.case], options.device, options.variant)
    start_s = time.perf_counter()
    steps = job.train(job)
    number = 0
    first_s = start_s
    while number < options.steps:
        next(steps)
        number += 1
        if number == 1:
            first_s = time.perf_counter()  # what is compiled or started before it is no step
        if (
            options.seconds
            and number >= MIN_STEPS
            and time.perf_counter() - first_s > options.seconds
        ):
            break
    steps.close()
    print(f"{number} steps in {time.perf_counter() - start_s:.1f} s")
    leave_group()


def leave_group() -> None:
    """Take leave of the other ranks."""
    from torch import distributed

    if distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
