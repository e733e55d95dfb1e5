"""Moments, stated."""

from msgspec.structs import replace

from gapless.live.view import (
    LiveView,
    LoaderView,
    PaceView,
    ProcessView,
    RankView,
    RunView,
    WorkerView,
)
from gapless.model.account import Account

MS = 10**6
GIB = float(1 << 30)


def account(steps: int, data_ms: int, compute_ms: int) -> Account:
    """Return an account of steps that wait for data and compute."""
    data_ns, compute_ns = steps * data_ms * MS, steps * compute_ms * MS
    return Account(
        wall_ns=data_ns + compute_ns,
        steps=steps,
        leaves={"idle.data.decode": data_ns, "busy.math": compute_ns},
        groups={"data": data_ns, "compute": compute_ns, "unknown": 0, "observer": 0},
        parts={"data": {"idle.data.decode": data_ns}, "compute": {"busy.math": compute_ns}},
        rows=(),
    )


def worker(number: int, doing: str = "works") -> WorkerView:
    return WorkerView(
        number, 70 + number, doing, 0.9, 0.0, 70 * MS, {"decode": 0.9, "collate": 0.1}
    )


def process(pid: int, command: str, *, is_training: bool) -> ProcessView:
    rates = (2e8, 0.0) if is_training else (None, None)
    return ProcessView(
        pid, "me", command, is_training, "R", 2.5 * is_training, 0.3, 9, 3 << 30, *rates, None
    )


RUN = RunView(
    id="2026-11-21T10-15-03-3f9a",
    path="/nowhere/2026-11-21T10-15-03-3f9a",
    command=("python", "train.py", "--epochs", "90"),
    status="running",
    exit_code=None,
    elapsed_ns=92 * 10**9,
    behind_ns=40 * MS,
    steps=2300,
    recent=PaceView(750, 40 * MS, 40 * MS, 38 * MS, 45 * MS, 1600.0),
    whole=PaceView(2200, 50 * MS, 49 * MS, 38 * MS, 80 * MS, 1280.0),
    recent_account=account(750, 30, 10),
    account=account(2200, 38, 12),
    account_age_ns=8 * 10**9,
    refined_by=12,
    windows=2,
    no_windows=None,
    cause="75 % of each step the training thread waits for data, which 2 workers load",
    ranks=(RankView(0, 70, 2300, 30 * MS, 40 * MS, 0.75, "waits for a message"),),
    loaders=(
        LoaderView(0, 0, "/src/train.py", 41, 2, 1, 4, (worker(0), worker(1, "waits for a disk"))),
    ),
    notes=(),
)
MACHINE = {
    "cpu.total": 310.0, "cpu.tree": 285.0, "cpu.foreign": 20.0, "cpu.wait": 3.0,
    "memory.available": 40 * GIB, "memory.total": 64 * GIB,
    "memory.shared_used": 1 * GIB, "memory.shared_total": 32 * GIB,
    "disk.nvme0n1.read": 250e6, "disk.nvme0n1.written": 0.0, "disk.nvme0n1.busy": 63.0,
    "network.eth0.received": 1200.0, "network.eth0.sent": 0.0, "network.lo.received": 5.0,
    "gpu0.sm": 23.0, "gpu0.memory_used": 61 * GIB, "gpu0.memory_total": 80 * GIB,
    "gpu0.power": 212.0, "gpu0.clock_sm": 1410.0, "gpu0.temperature": 84.0,
    "gpu0.memory_util": 12.0, "gpu0.pcie_rx": 2.5e9, "gpu0.pcie_tx": 1e8, "gpu0.throttle": 32.0,
}  # fmt: skip
WATCHED = LiveView(
    host="box",
    taken_unix_ns=1_800_000_000 * 10**9,
    run=RUN,
    machine=MACHINE,
    held={"gpu0": ("heat",)},
    gpu_names={"gpu0": "NVIDIA A100"},
    processors=8,
    processes=(),
    notes=(),
)
UNWATCHED = replace(
    WATCHED,
    run=None,
    machine={name: value for name, value in MACHINE.items() if not name.startswith("gpu")},
    held={},
    gpu_names={},
    processes=(
        process(70, "python train.py", is_training=True),
        process(9, "[kswapd0]\x1b[31m", is_training=False),
    ),
    notes=("GPUs: NVML: no driver",),
    cores=(1.0, 1.0, 0.5, 0.4, 0.1, 0.1, 0.0, 0.0),
)
