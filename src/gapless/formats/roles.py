"""Names by which ranges of any profiler are known: steps, hand-overs of batches, operators.

They are the words of the frameworks and of those who mark their own loops; none is one program's.
"""

import re
from typing import Final

_STEP: Final = re.compile(
    r"(?:(?:train(?:ing|er)?|global|one|mini)[ _.:/-]*)*"
    r"(?:step|iter|iteration|train_?batch)s?[ _.:#=/-]*(?:num(?:ber)?)?[ _.:#=-]*\d*"
    r"|ProfilerStep\#\d+"
    r"|.*\brun_training_(?:batch|step)"  # Lightning
    r"|.*\btrainer?[._](?:training_)?step",
    re.IGNORECASE,
)
_NOUN: Final = (
    r"(?:the[ _])?(?:next[ _])?(?:train(?:ing)?[ _])?(?:mini[ _-]?)?"
    r"(?:data|batch|input|sample)(?:es|s)?"
)
_INPUT: Final = re.compile(
    rf"(?:get|load|fetch|next|read|wait(?:ing)?[ _]for)[ _.:-]*{_NOUN}[ _.:#=-]*\d*"
    rf"|{_NOUN}[ _.:-]*(?:load(?:er|ing)?|fetch(?:ing)?|wait(?:ing)?|read(?:ing)?)[ _.:#=-]*\d*"
    r"|.*\b(?:train_)?dataloader_next"  # Lightning
    r"|.*\bdata[ _-]?load(?:er|ing)"
    r"|IteratorGetNext.*|.*IteratorGetNextOp.*|Iterator::GetNext",  # TensorFlow
    re.IGNORECASE,
)
_OPERATOR: Final = re.compile(
    r"(?P<name>(?:aten|autograd|c10d|c10|torch|prims|_C|nccl|xla)::.*?|\w+Backward\d*)"
    r"(?:, (?:seq|op_id|sizes|input_op_ids)\b.*)?"
)
_EMITTED: Final = re.compile(r"(?P<name>.+?), (?:seq|op_id) = -?\d+.*")  # torch's emit_nvtx
_MAX_NAME: Final = 1000  # letters of a name that are looked at


def is_step(name: str) -> bool:
    """Return whether a range of this name is a step of a training."""
    return _STEP.fullmatch(name[:_MAX_NAME].strip()) is not None


def is_input(name: str) -> bool:
    """Return whether a range of this name hands over a batch, or makes one for the caller."""
    return _INPUT.fullmatch(name[:_MAX_NAME].strip()) is not None


def operator_name(name: str) -> str | None:
    """Return the operator that a range is, without its numbers; ``None`` if it is none."""
    for pattern in (_EMITTED, _OPERATOR):
        match = pattern.fullmatch(name[:_MAX_NAME])
        if match is not None:
            return match["name"]
    return None
