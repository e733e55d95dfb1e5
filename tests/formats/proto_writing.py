"""Protocol Buffers as bytes: profiles of XLA and traces of Perfetto, made in memory."""

import struct
from collections.abc import Mapping, Sequence

Content = int | float | str | bytes


def varint(number: int) -> bytes:
    """Return the bytes of a number; a negative one as int64 writes it."""
    number &= (1 << 64) - 1
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def message(*fields: tuple[int, Content]) -> bytes:
    """Return a message of some fields: integers as varints, texts and bytes with their length."""
    parts: list[bytes] = []
    for number, content in fields:
        if isinstance(content, float):
            parts.append(varint(number << 3 | 1) + struct.pack("<d", content))
        elif isinstance(content, int):
            parts.append(varint(number << 3) + varint(content))
        else:
            data = content.encode() if isinstance(content, str) else content
            parts.append(varint(number << 3 | 2) + varint(len(data)) + data)
    return b"".join(parts)


Stats = Mapping[str, int | str]
Event = tuple[str, int, int, Stats]  # name, start and duration in ns, statistics


class PlaneWriter:
    """A plane of a profile."""

    def __init__(self, name: str, stats: Stats | None = None) -> None:
        self._name, self._stats = name, dict(stats or {})
        self._names: dict[str, int] = {}
        self._stat_names: dict[str, int] = {}
        self._lines: list[bytes] = []

    def add_line(self, name: str, events: Sequence[Event], *, at_ns: int = 1000) -> "PlaneWriter":
        """Add a line with its events, whose times count from ``at_ns``."""
        rows = [
            message(
                (1, self._names.setdefault(label, len(self._names) + 1)),
                (2, start * 1000),
                (3, length * 1000),
                *((4, self._stat(key, value)) for key, value in stats.items()),
            )
            for label, start, length, stats in events
        ]
        number = len(self._lines) + 7
        self._lines.append(message((1, number), (2, name), (3, at_ns), *((4, row) for row in rows)))
        return self

    def _stat(self, name: str, value: int | str) -> bytes:
        number = self._stat_names.setdefault(name, len(self._stat_names) + 1)
        return message((1, number), (4 if isinstance(value, int) else 5, value))

    def bytes(self) -> bytes:
        """Return the plane as a field of the file."""
        stats = [(6, self._stat(key, value)) for key, value in self._stats.items()]
        kinds = [
            (4, message((1, number), (2, message((1, number), (2, label)))))
            for label, number in self._names.items()
        ]
        stat_names = [
            (5, message((1, number), (2, message((1, number), (2, label)))))
            for label, number in self._stat_names.items()
        ]
        lines = [(3, line) for line in self._lines]
        return message((1, message((2, self._name), *lines, *kinds, *stat_names, *stats)))


def gpu_profile(steps: int = 6, *, period: int = 1_000_000) -> bytes:
    """Return a profile of JAX on a GPU: load, dispatch, copy, compute, a step."""
    host: list[Event] = []
    api: list[Event] = []
    kernels: list[Event] = []
    for step in range(steps):
        at = step * period
        host += [
            ("train", at, period - 1000, {"step_num": step}),
            ("load_batch", at + 1000, 400_000, {}),
            ("decode", at + 2000, 300_000, {}),
            ("PjitFunction(update)", at + 410_000, 90_000, {}),
            ("$train.py:7 step", at + 405_000, 100_000, {}),
        ]
        links = [{"correlation_id": 2 * step + number} for number in (1, 2)]
        api += [
            ("cuMemcpyHtoDAsync_v2", at + 420_000, 9_000, links[0]),
            ("cuLaunchKernelEx", at + 440_000, 9_000, links[1]),
        ]
        details = "kind_src:pageable kind_dst:device size:4096 dest:0 async:1"
        kernels += [
            ("MemcpyH2D", at + 430_000, 20_000, {**links[0], "memcpy_details": details}),
            (
                "gemm_fusion_dot.3",
                at + 452_000,
                300_000,
                {**links[1], "kernel_details": "regs:32 grid:8,1,1 block:128,1,1"},
            ),
        ]
    device = PlaneWriter(
        "/device:GPU:0",
        {"device_vendor": "Nvidia", "compute_cap_major": 9, "compute_cap_minor": 0},
    )
    device.add_line("Stream #14(Compute,MemcpyH2D)", kernels)
    device.add_line("XLA Ops", [("gemm", 0, 300_000, {})])
    threads = PlaneWriter("/host:CPU").add_line("python", host)
    threads.add_line("Host Threads/77", api)
    facts = PlaneWriter("Task Environment", {"profile_start_time": 1_700_000_000 * 10**9})
    return device.bytes() + threads.bytes() + facts.bytes()


def tensorflow_profile(steps: int = 6, *, period: int = 1_000_000) -> bytes:
    """Return a profile of TensorFlow on the CPU that waits for decoded images."""
    main: list[Event] = []
    compute: list[Event] = []
    pipeline: list[Event] = []
    for step in range(steps):
        at = step * period
        main += [
            ("train", at, period - 1000, {"step_num": step, "_r": 1}),
            ("IteratorGetNextOp::DoCompute", at + 1000, 600_000, {}),
            ("Iterator::Root::Prefetch", at + 2000, 590_000, {}),
            ("FunctionRun", at + 610_000, 300_000, {}),
        ]
        compute += [
            ("ThreadpoolListener::StartRegion", at + 610_000, 0, {}),
            ("dense/MatMul:MatMul", at + 620_000, 280_000, {}),
        ]
        pipeline += [
            ("ReadFile:ReadFile", at + 10_000, 90_000, {}),
            ("DecodeJpeg:DecodeJpeg", at + 100_000, 400_000, {}),
        ]
    threads = PlaneWriter("/host:CPU").add_line("python", main)
    threads.add_line("tf_Compute/5", compute).add_line("tf_data_private_threadpool/6", pipeline)
    return threads.bytes()


def executor_profile(steps: int = 6, *, period: int = 1_000_000) -> bytes:
    """Return a profile of JAX on the CPU: calls that go on, while an executor computes."""
    main: list[Event] = []
    work: list[Event] = []
    for step in range(steps):
        at = step * period
        main += [
            ("train", at, period - 1000, {"step_num": step}),
            ("load_batch", at + 1000, 500_000, {}),
            ("PjitFunction(update)", at + 510_000, 90_000, {}),
            ("PjitFunction(update)", at + 511_000, 80_000, {}),
        ]
        stats = {"hlo_op": "dot.4", "hlo_module": "jit_update", "run_id": 70 + step, "_src": "x.cc"}
        work.append(("dot.4", at + 550_000, 400_000, stats))
        work.append(("end: dot.4", at + 950_000, 0, {"_src": "x.cc"}))
    threads = PlaneWriter("/host:CPU").add_line("python", main)
    threads.add_line("tf_XLAEigen/3", work).add_line("tf_PjRtCompilerThreadPool/9", [])
    return threads.bytes()


def perfetto_trace(steps: int = 6, *, period: int = 1_000_000) -> bytes:
    """Return a trace as rocprofv3 writes it: calls, kernels, ranges, incremental clocks."""
    process = message((1, 1), (3, message((1, 42), (6, "train"))))
    thread = message((1, 2), (5, 1), (4, message((1, 42), (2, 43), (5, "main"))))
    device = message((1, 3), (2, "COMPUTE AGENT [4] QUEUE [2] GPU"))
    packets = [
        message((10, 1), (60, process)),
        message((10, 1), (60, thread)),
        message((10, 1), (60, device)),
        message((10, 1), (13, 1), (6, _clocks())),
        message((10, 1), (59, message((58, 64)))),
        message((10, 1), (12, message((2, message((1, 5), (2, "gemm_kernel")))))),
    ]
    now = 0
    for at, event in sorted(_slices(steps, period), key=lambda row: row[0]):
        packets.append(message((8, at - now), (10, 1), (11, event)))
        now = at
    return b"".join(message((1, packet)) for packet in packets)


def _clocks() -> bytes:
    shown = ((6, 5_000_000), (1, 1_700_000_000 * 10**9))
    own = message((1, 64), (2, 0), (3, 1), (4, 1))
    return message(*((1, message((1, clock), (2, at))) for clock, at in shown), (1, own))


def _slices(steps: int, period: int) -> list[tuple[int, bytes]]:
    rows: list[tuple[int, bytes]] = []
    for step in range(steps):
        at = step * period
        link = message((10, "corr_id"), (3, step + 1))
        called = (22, "hip_api"), (4, link)
        rows += [
            (at, message((9, 1), (11, 2), (23, f"step {step}"), (22, "marker_api"))),
            (
                at + 100,
                message((9, 1), (11, 2), (23, "hipLaunchKernel"), *called),
            ),
            (at + 900, message((9, 2), (11, 2))),
            (at + 1000, message((9, 1), (11, 3), (10, 5), (22, "kernel_dispatch"), (4, link))),
            (at + 600_000, message((9, 2), (11, 3))),
            (at + period - 10, message((9, 2), (11, 2))),
            (at + period - 5, message((9, 3), (11, 2), (23, "a point"))),
        ]
    return rows
