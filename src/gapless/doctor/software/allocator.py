"""How memory is allocated, on the GPU and on the host."""

import re
from typing import Final

from gapless.doctor.answers import CheckAnswer, ok, warn
from gapless.doctor.subject import CheckSubject

_NAMES: Final = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
_HOST_NAMES: Final = ("LD_PRELOAD", "MALLOC_CONF", "MALLOC_ARENA_MAX", "THP_MEM_ALLOC_ENABLE")
_SPLIT: Final = re.compile(r"max_split_size_mb\s*:\s*(\d+)")
_SMALL_SPLIT_MB: Final = 64  # max_split_size_mb below it leaves most blocks unused


def examine(subject: CheckSubject) -> CheckAnswer:
    """Look at the settings of torch's allocator, and at the allocator of the host.

    Small ``max_split_size_mb`` and a low ``garbage_collection_threshold`` give memory back to the
    driver all the time; ``expandable_segments:True`` fights fragmentation at less cost.
    """
    environment = subject.environment
    settings = {name: environment[name] for name in _NAMES if environment.get(name)}
    host = {name: environment[name] for name in _HOST_NAMES if environment.get(name)}
    words = ", ".join(f"{name}={value}" for name, value in {**settings, **host}.items())
    for name, value in settings.items():
        split = _SPLIT.search(value)
        if split is not None and int(split[1]) < _SMALL_SPLIT_MB:
            evidence = f"{words}: blocks of more than {split[1]} MB are never reused in part"
            return warn(evidence, f"export {name}=expandable_segments:True")
    return ok(words or "torch's and the C library's defaults")
