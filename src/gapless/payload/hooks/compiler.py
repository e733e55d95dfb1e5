"""Keep torch.compile from compiling what is ours.

Where a compiled region breaks off (at a backward pass, say), its compiler looks at every function
that is called until the region goes on: ours too, and warns of what it cannot trace there. So our
files are among those that it passes over. What it meets while it traces is followed as before: of
ours that is a question whether it traces, and the original.
"""

from __future__ import annotations

from typing import Any

from .. import declare, recorder
from ..tracebacks import OURS, PASSED_OVER

_NEEDED = ("get_mod_inlinelist", "SKIP_DIRS", "_recompile_re")
_FILES = (OURS, PASSED_OVER)


@declare.hook("torch._dynamo.trace_rules")
def _pass_over(rules: Any) -> None:
    if not all(hasattr(rules, name) for name in _NEEDED):  # a torch before 2.3
        return
    inlined = rules.get_mod_inlinelist()  # one set, kept; the rules of frames come after it
    rules.SKIP_DIRS.extend(_FILES)
    inlined.update(_FILES)
    rules._recompile_re()

    def undo() -> None:
        rules.SKIP_DIRS[:] = [folder for folder in rules.SKIP_DIRS if folder not in _FILES]
        inlined.difference_update(_FILES)
        rules._recompile_re()

    recorder.on_stop(undo)
