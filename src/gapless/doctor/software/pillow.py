"""Pillow, which decodes most pictures."""

from gapless.doctor.answers import CheckAnswer, ok, unknown, warn
from gapless.doctor.subject import CheckSubject


def examine(subject: CheckSubject) -> CheckAnswer:
    """Look whether Pillow decodes JPEG by libjpeg-turbo: 2 to 6 times as fast, its makers say.

    Pillow's own wheels have it; a Pillow that was compiled here need not.
    """
    facts = subject.interpreter.facts
    if facts is None:
        return unknown(subject.interpreter.why or subject.interpreter.origin)
    install = f"{subject.interpreter.python} -m pip install --force-reinstall pillow"
    if facts.pillow_why is not None:
        return warn(f"it cannot be imported: {facts.pillow_why}", install)
    if facts.pillow is None:
        return ok("not installed: nothing decodes pictures by it")
    kind = "Pillow-SIMD" if "pillow-simd" in facts.packages else "Pillow"
    evidence = f"{kind} {facts.pillow.version}, JPEG library {facts.pillow.jpeg}"
    if facts.pillow.turbo is False:
        return warn(f"{evidence}: not libjpeg-turbo, it decodes slowly", install)
    return ok(f"{evidence} (libjpeg-turbo)")
