"""The clock of the processors."""

from collections import Counter
from typing import Final

from gapless.doctor.answers import CheckAnswer, ok, unknown, warn
from gapless.doctor.subject import CheckSubject

_CPUS: Final = "sys/devices/system/cpu"
_SELF_CLOCKED: Final = ("intel_pstate", "amd-pstate-epp")  # "powersave" is their usual, and quick
_SLOW: Final = ("powersave", "conservative")
_SAVING: Final = ("power", "balance_power")
_REMEDY: Final = "sudo cpupower frequency-set -g performance"


def examine(subject: CheckSubject) -> CheckAnswer:
    """Look at the frequency governor, and whether boost is off.

    A governor that saves power clocks up only after a core has been busy for a while; the thread
    that launches kernels sleeps and wakes all the time, and runs slowly.
    """
    files = subject.files
    folders = [f"{_CPUS}/{name}/cpufreq" for name in files.names(_CPUS) if name[3:].isdecimal()]
    governors = Counter(files.text(f"{folder}/scaling_governor") for folder in folders)
    del governors[None]
    if not governors:
        return unknown("the kernel shows no frequency control (a virtual machine, as a rule)")
    words = ", ".join(f"{name} ({count})" for name, count in governors.most_common())
    driver = files.text(f"{folders[0]}/scaling_driver") or "unknown"
    preference = files.text(f"{folders[0]}/energy_performance_preference")
    evidence = f"governor {words}, driver {driver}"
    is_slow = any(name in _SLOW for name in governors) and driver not in _SELF_CLOCKED
    if is_slow or preference in _SAVING:
        suffix = f", preference {preference}" if preference else ""
        return warn(f"{evidence}{suffix}: it clocks up late", _REMEDY)
    if files.number(f"{_CPUS}/intel_pstate/no_turbo") == 1:
        command = f"echo 0 | sudo tee /{_CPUS}/intel_pstate/no_turbo"
        return warn(f"{evidence}; turbo is off", command)
    if files.number(f"{_CPUS}/cpufreq/boost") == 0:
        return warn(f"{evidence}; boost is off", f"echo 1 | sudo tee /{_CPUS}/cpufreq/boost")
    return ok(evidence)
