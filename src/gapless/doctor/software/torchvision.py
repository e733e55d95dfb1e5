"""torchvision."""

from gapless.doctor.answers import CheckAnswer, bad, ok, unknown, warn
from gapless.doctor.subject import CheckSubject


def examine(subject: CheckSubject) -> CheckAnswer:
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
