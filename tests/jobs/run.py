"""Train a case on several ranks: ``torchrun --nproc-per-node 2 tests/jobs/run.py CASE``."""

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


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
    options = parser.parse_args()
    job = make(CASES[options.case], options.device, options.variant)
    training = job.train(job)
    for _ in range(options.steps):
        next(training)
    training.close()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
