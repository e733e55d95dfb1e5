"""The interpreter, and packages beside torch."""

from typing import Final

from gapless.doctor.answers import CheckAnswer, bad, ok, unknown, warn
from gapless.doctor.subject import CheckSubject

_NAME_IT: Final = "gapless doctor --python /path/to/python"
_MIN_VERSION: Final = (3, 9)
_PACKAGE: Final = "nvidia-dali-cuda"


def examine_interpreter(subject: CheckSubject) -> CheckAnswer:
    """Find the interpreter: of the last run here, else the first python on PATH; it must start."""
    report = subject.interpreter
    if report.python is None:
        return unknown(report.origin, _NAME_IT)
    if report.facts is None:
        evidence = f"{report.python} ({report.origin}): {report.why}"
        return warn(evidence, _NAME_IT) if report.is_guess else bad(evidence, _NAME_IT)
    version = report.facts.python
    evidence = f"{report.python} ({report.origin}), Python {version}"
    numbers = tuple(int(number) for number in version.split(".")[:2] if number.isdecimal())
    if numbers < _MIN_VERSION:
        return bad(f"{evidence}: gapless records from 3.9 on", _NAME_IT)
    return ok(evidence)


def examine_torchvision(subject: CheckSubject) -> CheckAnswer:
    """Look whether torchvision was built for this torch: else its operators are missing."""
    facts = subject.interpreter.facts
    if facts is None:
        return unknown(subject.interpreter.why or subject.interpreter.origin)
    version = facts.packages.get("torchvision")
    if version is None:
        return ok("not installed")
    if facts.torch is None:
        return unknown(f"torchvision {version} without torch")
    evidence = f"torchvision {version} with torch {facts.torch}"
    remedy = f"{subject.interpreter.python} -m pip install --force-reinstall torch torchvision"
    wanted = (facts.vision_needs or "").removeprefix("==").partition("+")[0]
    if wanted and wanted != facts.torch.partition("+")[0]:
        return bad(f"{evidence}; it was built for torch {wanted}", remedy)
    builds = {text.partition("+")[2] for text in (version, facts.torch)} - {""}
    if len(builds) > 1:
        return warn(f"{evidence}: of different builds", remedy)
    return ok(evidence)


def examine_dali(subject: CheckSubject) -> CheckAnswer:
    """Look whether DALI, where it is installed, is for torch's major version of CUDA."""
    facts = subject.interpreter.facts
    if facts is None:
        return unknown(subject.interpreter.why or subject.interpreter.origin)
    name = next((name for name in facts.packages if name.startswith(_PACKAGE)), None)
    if name is None:
        return ok("not installed")
    evidence = f"{name} {facts.packages[name]}"
    major = name.removeprefix(_PACKAGE)[:2]
    if facts.cuda is not None and facts.cuda.partition(".")[0] != major:
        python = subject.interpreter.python
        wanted = f"{_PACKAGE}{facts.cuda.partition('.')[0]}0"
        return warn(
            f"{evidence}, while torch is built with CUDA {facts.cuda}",
            f"{python} -m pip uninstall {name}; {python} -m pip install {wanted}",
        )
    return ok(evidence)


def examine_pillow(subject: CheckSubject) -> CheckAnswer:
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
