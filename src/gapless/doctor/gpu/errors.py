"""Memory errors of the GPUs."""

from gapless.doctor.answers import NUMBERS, CheckAnswer, bad, examine_gpus, ok, unknown, warn
from gapless.doctor.gpus import GpuReading
from gapless.doctor.subject import CheckSubject


def examine(subject: CheckSubject) -> CheckAnswer:
    """Look at ECC: errors that were not corrected, rows of memory that failed or wait for a reset.

    Cards without ECC (GeForce) compute on, unseen, with a bit that was turned.
    """
    return examine_gpus(subject.survey, _examine_gpu)


def _examine_gpu(gpu: GpuReading) -> CheckAnswer:
    _, _, is_pending, has_failed = gpu.remapped or (0, 0, False, False)
    reset = f"end what runs on it, then: sudo nvidia-smi --gpu-reset -i {NUMBERS}"
    if has_failed:
        return bad(
            "a row of its memory failed, and none was left to replace it", "replace the card"
        )
    if gpu.uncorrected_errors:
        return bad(f"{gpu.uncorrected_errors} memory errors were not corrected", reset)
    if is_pending:
        return warn("a row of its memory is to be replaced at the next reset", reset)
    if gpu.ecc is None:
        return ok("it has no ECC, or does not show it") if gpu.name else unknown("it is not seen")
    return ok("ECC on, no error since the driver was loaded" if gpu.ecc else "ECC is off")
