"""What kind of thing an event records, as the small integers of ``Events.category``.

Kineto's ``cat`` strings of every generation and vendor map onto these; the map itself belongs to
the reader (``formats``).
"""

from typing import Final

OTHER_KIND: Final = 0
CPU_OP: Final = 1
USER_ANNOTATION: Final = 2  # record_function on the host: ProfilerStep#, …, the user's own
PYTHON_FUNCTION: Final = 3
RUNTIME: Final = 4  # cuda_runtime, hip runtime, mtia_runtime, xpu_runtime …
DRIVER: Final = 5  # cuda_driver …
KERNEL: Final = 6
MEMCPY: Final = 7
MEMSET: Final = 8
GPU_USER_ANNOTATION: Final = 9  # the shadow of a user annotation on a device: not work
SYNC: Final = 10  # cuda_sync records on device tracks: not work
OVERHEAD: Final = 11  # the profiler's own, pid −1
MARKER: Final = 12  # gapless's own marks on a host thread
OS_CALL: Final = 13  # a call of the operating system's runtime: read, poll, sem_wait

LABELS: Final = (
    "other",
    "cpu_op",
    "user_annotation",
    "python_function",
    "runtime",
    "driver",
    "kernel",
    "memcpy",
    "memset",
    "gpu_user_annotation",
    "sync",
    "overhead",
    "marker",
    "os_call",
)
ACTIVITIES: Final = (KERNEL, MEMCPY, MEMSET)
CALLS: Final = (RUNTIME, DRIVER)
HOST_CALLS: Final = (CPU_OP, RUNTIME, DRIVER, PYTHON_FUNCTION, USER_ANNOTATION, MARKER, OS_CALL)
