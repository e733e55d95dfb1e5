"""Switches that make results repeatable, or more exact, at a cost."""

from typing import Final

from gapless.doctor.answers import CheckAnswer, ok, warn
from gapless.doctor.subject import CheckSubject

_SWITCHES: Final = {
    "CUBLAS_WORKSPACE_CONFIG": (None, "products may use less memory, and slower ways"),
    "NVIDIA_TF32_OVERRIDE": ("0", "no product of float32 uses tensor cores"),
}


def examine(subject: CheckSubject) -> CheckAnswer:
    """Look for determinism and precision switches in the environment.

    They are right where a run must be repeated to the bit, and often stay set after that.
    """
    on = {
        name: effect
        for name, (value, effect) in _SWITCHES.items()
        if name in subject.environment and value in (None, subject.environment[name])
    }
    if not on:
        return ok("none is set")
    words = "; ".join(
        f"{name}={subject.environment[name]}: {effect}" for name, effect in on.items()
    )
    return warn(words, f"unset {' '.join(on)}, unless runs must repeat to the bit")
