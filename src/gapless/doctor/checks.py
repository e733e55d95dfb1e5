"""All checks, by name, and how they are run: what fails in one becomes its answer."""

from collections.abc import Collection, Mapping
from typing import Final

from gapless.doctor.answers import CheckAnswer, Examine, unknown
from gapless.doctor.gpu import condition, links, presence
from gapless.doctor.host import memory, processors, system
from gapless.doctor.measured import gpus, hosts
from gapless.doctor.software import packages, settings, torch_builds
from gapless.doctor.subject import CheckSubject
from gapless.launch.unobserved import contain_failures, describe_error
from gapless.model.checkup import CheckResult, CheckVerdict

SOFTWARE: Final[Mapping[str, Examine]] = {
    "interpreter": packages.examine_interpreter,
    "torch": torch_builds.examine_torch,
    "cuda-driver": torch_builds.examine_driver,
    "gpu-architecture": torch_builds.examine_architecture,
    "cudnn": torch_builds.examine_cudnn,
    "nccl": torch_builds.examine_nccl,
    "torchvision": packages.examine_torchvision,
    "dali": packages.examine_dali,
    "pillow": packages.examine_pillow,
    "debug-switches": settings.examine_debug_switches,
    "determinism": settings.examine_determinism,
    "allocator-settings": settings.examine_allocator,
    "threads": settings.examine_threads,
}
HOST: Final[Mapping[str, Examine]] = {
    "processors": processors.examine_processors,
    "numa": processors.examine_numa,
    "frequency": processors.examine_frequency,
    "smt": processors.examine_smt,
    "memory": memory.examine_memory,
    "swap": memory.examine_swap,
    "huge-pages": memory.examine_huge_pages,
    "shared-memory": memory.examine_shared_memory,
    "locked-memory": memory.examine_locked_memory,
    "open-files": system.examine_open_files,
    "storage": system.examine_storage,
    "kernel": system.examine_kernel,
    "pressure": system.examine_pressure,
    "neighbours": processors.examine_neighbours,
}
GPU: Final[Mapping[str, Examine]] = {
    "gpu": presence.examine_presence,
    "gpu-sharing": presence.examine_sharing,
    "gpu-persistence": presence.examine_persistence,
    "gpu-errors": condition.examine_memory_errors,
    "gpu-mig": presence.examine_mig,
    "gpu-link": links.examine_link,
    "gpu-clocks": condition.examine_clocks,
    "gpu-temperature": condition.examine_temperature,
    "gpu-power": condition.examine_power,
    "gpu-affinity": links.examine_affinity,
}
MEASURED: Final[Mapping[str, Examine]] = {
    "products": gpus.examine_products,
    "gpu-memory": gpus.examine_memory,
    "copies": gpus.examine_copies,
    "launches": gpus.examine_launches,
    "cpu-products": hosts.examine_cpu_products,
}
DATA: Final[Mapping[str, Examine]] = {"data": hosts.examine_data}
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
