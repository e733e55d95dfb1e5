"""All checks, by name, and how they are run: what fails in one becomes its answer."""

from collections.abc import Callable, Collection, Mapping
from typing import Final

from gapless.doctor.answers import CheckAnswer, unknown
from gapless.doctor.gpu import (
    affinity,
    clocks,
    errors,
    link,
    mig,
    persistence,
    power,
    presence,
    sharing,
    temperature,
)
from gapless.doctor.host import (
    frequency,
    huge_pages,
    kernel,
    locked_memory,
    memory,
    neighbours,
    numa,
    open_files,
    pressure,
    processors,
    shared_memory,
    smt,
    storage,
    swap,
)
from gapless.doctor.measured import copies, data, gpu_memory, launches, products
from gapless.doctor.measured import processors as measured_processors
from gapless.doctor.software import (
    allocator,
    architecture,
    cuda_driver,
    cudnn,
    dali,
    debug_switches,
    determinism,
    interpreter,
    nccl,
    pillow,
    threads,
    torch_build,
    torchvision,
)
from gapless.doctor.subject import CheckSubject
from gapless.launch.unobserved import contain_failures, describe_error
from gapless.model.checkup import CheckResult, CheckVerdict

Examine = Callable[[CheckSubject], CheckAnswer]

SOFTWARE: Final[Mapping[str, Examine]] = {
    "interpreter": interpreter.examine,
    "torch": torch_build.examine,
    "cuda-driver": cuda_driver.examine,
    "gpu-architecture": architecture.examine,
    "cudnn": cudnn.examine,
    "nccl": nccl.examine,
    "torchvision": torchvision.examine,
    "dali": dali.examine,
    "pillow": pillow.examine,
    "debug-switches": debug_switches.examine,
    "determinism": determinism.examine,
    "allocator-settings": allocator.examine,
    "threads": threads.examine,
}
HOST: Final[Mapping[str, Examine]] = {
    "processors": processors.examine,
    "numa": numa.examine,
    "frequency": frequency.examine,
    "smt": smt.examine,
    "memory": memory.examine,
    "swap": swap.examine,
    "huge-pages": huge_pages.examine,
    "shared-memory": shared_memory.examine,
    "locked-memory": locked_memory.examine,
    "open-files": open_files.examine,
    "storage": storage.examine,
    "kernel": kernel.examine,
    "pressure": pressure.examine,
    "neighbours": neighbours.examine,
}
GPU: Final[Mapping[str, Examine]] = {
    "gpu": presence.examine,
    "gpu-sharing": sharing.examine,
    "gpu-persistence": persistence.examine,
    "gpu-errors": errors.examine,
    "gpu-mig": mig.examine,
    "gpu-link": link.examine,
    "gpu-clocks": clocks.examine,
    "gpu-temperature": temperature.examine,
    "gpu-power": power.examine,
    "gpu-affinity": affinity.examine,
}
MEASURED: Final[Mapping[str, Examine]] = {
    "products": products.examine,
    "gpu-memory": gpu_memory.examine,
    "copies": copies.examine,
    "launches": launches.examine,
    "cpu-products": measured_processors.examine,
}
DATA: Final[Mapping[str, Examine]] = {"data": data.examine}
GROUPS: Final[Mapping[str, Mapping[str, Examine]]] = {
    "software": SOFTWARE,
    "machine": HOST,
    "GPUs": GPU,
    "measured": MEASURED,
    "with --data": DATA,
}
_ORDER: Final = tuple(CheckVerdict)  # worst first


def list_checks(*, is_measured: bool, has_data: bool) -> Mapping[str, Examine]:
    """Return the checks that can be run, by name."""
    checks = {**SOFTWARE, **HOST, **GPU}
    return checks | (MEASURED if is_measured else {}) | (DATA if has_data else {})


def needs_interpreter(names: Collection[str]) -> bool:
    """Return whether one of these checks asks the interpreter; no names stand for all checks."""
    return not names or any(name in SOFTWARE for name in names) or wants_measuring(names)


def wants_measuring(names: Collection[str]) -> bool:
    """Return whether one of these checks is about what is measured; no names: all checks."""
    return not names or any(name in {**MEASURED, **DATA} for name in names)


def run_checks(
    subject: CheckSubject, *, is_measured: bool, names: Collection[str] = ()
) -> tuple[CheckResult, ...]:
    """Run the checks, the worst results first; equal ones in the order of their groups.

    ``names``: only these; without any, all.
    """
    checks = list_checks(is_measured=is_measured, has_data=subject.has_data)
    results = [
        _run_check(name, examine, subject)
        for name, examine in checks.items()
        if not names or name in names
    ]
    return tuple(sorted(results, key=lambda result: _ORDER.index(result.verdict)))


def _run_check(name: str, examine: Examine, subject: CheckSubject) -> CheckResult:
    """Run a check; a mistake in it leaves the others alone."""
    answers: list[CheckAnswer] = []
    with contain_failures() as failures:
        answers.append(examine(subject))
    answers += [unknown(f"the check failed: {describe_error(error)}") for error in failures]
    answer = answers[0]
    return CheckResult(name, answer.verdict, answer.evidence, answer.remedy)
