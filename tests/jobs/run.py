"""Train a case on several ranks: ``torchrun --nproc-per-node 2 tests/jobs/run.py CASE``."""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

if TYPE_CHECKING:
    from tests.zoo.job import Steps

_WARM_STEPS = 3  # of a block, not counted


def step(training: "Steps", count: int) -> None:
    for _ in range(count):
        next(training)


def take_turns(training: "Steps", folder: Path, count: int) -> None:
    """Write the mean step of each block into a file, and go on once that is deleted."""
    from torch import distributed

    while not (folder / "stop").exists():
        step(training, _WARM_STEPS)
        began_s = time.monotonic()
        step(training, count)
        if distributed.get_rank() == 0:
            part = folder / "part"
            part.write_text(str((time.monotonic() - began_s) / count))
            part.rename(folder / "block")
            while (folder / "block").exists():
                time.sleep(0.02)
        distributed.barrier()


def main() -> None:
    from torch import distributed

    from tests.jobs.cases import CASES
    from tests.jobs.making import make

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=sorted(CASES))
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--steps", type=int, default=100)
    variant = os.environ.get("JOBS_VARIANT")  # for a trial: --set env.JOBS_VARIANT=NAME
    parser.add_argument("--variant", default=variant, help="the name of one of the variants")
    parser.add_argument(
        "--turns", type=Path, help="a folder: after each block of steps someone may change things"
    )
    options = parser.parse_args()
    job = make(CASES[options.case], options.device, options.variant)
    training = job.train(job)
    if options.turns is not None:
        take_turns(training, options.turns, options.steps)
    else:
        step(training, options.steps)
    training.close()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
