"""Threads and processes, from a /proc that is drawn."""

import time
from pathlib import Path

import pytest

from gapless.live.activity import Activity, ActivityMeter, describe_wait, read_clock
from gapless.live.gpus import GpuShare
from gapless.live.machine_watcher import CoreMeter, MachineWatcher
from gapless.live.outside.attaching import busiest_threads, read_threads
from gapless.live.outside.target import exact_command
from gapless.live.outside.thread_use import ThreadMeter
from gapless.live.processes import ProcessTable

S = 10**9


def draw_process(
    proc: Path, pid: int, *, ran_ticks: int = 0, state: str = "S", parent: int = 1,
    schedstat: str | None = None, wchan: str = "0", command: str = "python train.py",
    maps: str = "", io: tuple[int, int] = (0, 0),
) -> None:  # fmt: skip
    """Write the files of a process."""
    folder, task = proc / str(pid), proc / str(pid) / "task" / str(pid)
    task.mkdir(parents=True, exist_ok=True)
    fields = [
        state,
        parent,
        1,
        1,
        0,
        -1,
        0,
        0,
        0,
        0,
        0,
        ran_ticks,
        0,
        0,
        0,
        20,
        0,
        3,
        0,
        500 + pid,
        0,
        64,
    ]
    text = f"{pid} (a ) name) {' '.join(map(str, fields))}"
    for place in (folder, task):
        (place / "stat").write_text(text)
    if schedstat is not None:
        (task / "schedstat").write_text(schedstat)
    (task / "wchan").write_text(wchan)
    (folder / "cmdline").write_bytes(command.replace(" ", "\0").encode() + b"\0")
    (folder / "maps").write_text(maps)
    (folder / "io").write_text(f"rchar: 9\nread_bytes: {io[0]}\nwrite_bytes: {io[1]}\n")


def test_a_thread_is_described_by_what_the_kernel_counted(tmp_path: Path) -> None:
    meter = ActivityMeter(tmp_path)
    draw_process(tmp_path, 7, schedstat="0 0 1")
    assert meter.look(7, 0) is None
    draw_process(tmp_path, 7, schedstat=f"{S // 10} {S // 2} 9", wchan="futex_wait_queue")
    activity = meter.look(7, S)
    assert activity is not None
    assert activity == Activity("S", 0.1, 0.5, "futex_wait_queue")
    assert activity.describe() == "waits for a processor 50 % of the time"
    gone = meter.look(8, S)
    assert gone is not None
    assert gone.describe() == "ended"


@pytest.mark.parametrize(
    ("activity", "words"),
    [
        (Activity("R", 0.9, 0.0, None), "works"),
        (Activity("S", 0.02, 0.0, "pipe_read"), "waits for a pipe"),
        (
            Activity("S", 0.3, 0.0, "do_poll.constprop.0"),
            "works 30 % of the time, else waits for a message",
        ),
        (Activity("D", 0.02, None, "folio_wait_bit_common"), "waits for a disk"),
        (Activity("S", 0.02, None, None), "waits"),
        (Activity("T", 0.0, None, None), "stopped"),
    ],
)  # fmt: skip
def test_words(activity: Activity, words: str) -> None:
    assert activity.describe() == words


def test_without_schedstat_ticks_are_counted(tmp_path: Path) -> None:
    draw_process(tmp_path, 7, ran_ticks=250)
    clock = read_clock(7, proc=tmp_path)
    assert clock is not None
    assert (clock.ran_ns, clock.ready_ns, clock.waits_in) == (int(2.5 * S), None, None)


@pytest.mark.parametrize("name", ["rpc_wait_bit_killable", "nfs_wait_client"])
def test_network_file_systems_are_named(name: str) -> None:
    assert describe_wait(name) == "a file system"
    assert describe_wait("who_knows") is None


def test_the_account_of_a_thread_sums_to_the_time(tmp_path: Path) -> None:
    meter = ThreadMeter(7, tmp_path)
    draw_process(tmp_path, 7, schedstat="0 0 1")
    assert meter.look(0)
    assert meter.use() is None
    states = [("D", "io_schedule"), ("S", "do_poll"), ("S", "do_poll"), ("R", "0")]
    for number, (state, wchan) in enumerate(states, start=1):
        counts = f"{number * S // 10} {number * S // 20} 1"
        draw_process(tmp_path, 7, state=state, wchan=wchan, schedstat=counts)
        meter.look(number * S)
    use = meter.use()
    assert use is not None
    assert use.wall_ns == 4 * S
    assert (use.on_processor_ns, use.ready_ns) == (4 * S // 10, 4 * S // 20)
    assert use.on_processor_ns + (use.ready_ns or 0) + use.disk_ns + use.otherwise_ns == use.wall_ns
    assert sum(use.waits.values()) == use.otherwise_ns
    assert use.waits["a message"] == 2 * use.disk_ns
    assert use.looks == 5


def test_threads_are_told_apart(tmp_path: Path) -> None:
    def draw(ran_ms: dict[int, int]) -> None:
        for thread, milliseconds in ran_ms.items():
            draw_process(tmp_path, 7)
            task = tmp_path / "7" / "task" / str(thread)
            task.mkdir(exist_ok=True)
            (task / "stat").write_text((tmp_path / "7" / "stat").read_text())
            (task / "schedstat").write_text(f"{milliseconds * 10**6} 0 1")
            (task / "comm").write_text(f"thread {thread}\n")

    draw({7: 100, 8: 0, 9: 5})
    first = read_threads(7, tmp_path)
    draw({7: 600, 8: 900, 9: 5, 10: 250})
    shares = busiest_threads(first, read_threads(7, tmp_path), S)
    assert [(share.name, share.processors) for share in shares] == [
        ("thread 8", 0.9),
        ("thread 7", 0.5),
        ("thread 10", 0.25),
    ]
    assert read_threads(99, tmp_path) == {}


def test_trainings_come_first(tmp_path: Path) -> None:
    table = ProcessTable(tmp_path)
    for seconds in (0, 2):
        draw_process(tmp_path, 7, ran_ticks=20 * seconds, maps="… libtorch_cpu.so", io=(seconds, 0))
        draw_process(tmp_path, 8, ran_ticks=100 * seconds, command="make all")
        draw_process(tmp_path, 9, command="sleep 100")
        draw_process(tmp_path, 10, state="Z")
        views = table.look(seconds * S, {})
    training, other, idle = views
    assert (training.pid, training.is_training, training.on_processor) == (7, True, 0.2)
    assert (training.read_per_s, training.threads, training.command) == (1.0, 3, "python train.py")
    assert (other.pid, other.is_training, other.on_processor) == (8, False, 1.0)
    assert (idle.pid, idle.on_processor) == (9, 0.0)


def test_without_proc_there_are_no_processes(tmp_path: Path) -> None:
    assert ProcessTable(tmp_path / "nowhere").look(0, {}) == ()


def test_who_computes_on_a_gpu_is_a_training(tmp_path: Path) -> None:
    draw_process(tmp_path, 9, command="./a.out")
    (view,) = ProcessTable(tmp_path).look(0, {9: GpuShare(5 << 30, 0.4)})
    assert (view.is_training, view.gpu_memory, view.on_processor) == (True, 5 << 30, None)
    assert view.gpu_busy == 0.4


def test_what_came_since_the_last_look_took_all_of_it_since_then(tmp_path: Path) -> None:
    table = ProcessTable(tmp_path)
    draw_process(tmp_path, 7, ran_ticks=500)
    (first,) = table.look(0, {})
    assert (first.on_processor, first.read_per_s, table.processors) == (None, None, None)
    draw_process(tmp_path, 8, ran_ticks=150, io=(4000, 0))
    new, old = table.look(2 * S, {})
    assert (new.pid, new.on_processor, new.read_per_s) == (8, 0.75, 2000.0)
    assert (old.pid, old.on_processor) == (7, 0.0)
    assert table.processors == 0.75


def test_each_processor_is_told_apart(tmp_path: Path) -> None:
    def draw(first_ticks: int, second_ticks: int) -> None:
        rows = [
            f"cpu{number} {ticks} 0 0 900 50 0 0 0 0 0"
            for number, ticks in enumerate((first_ticks, second_ticks))
        ]
        (tmp_path / "stat").write_text("\n".join(["cpu 9 9 9 9 9 9 9 9 9 9", *rows, "intr 1 2"]))

    cores = CoreMeter(tmp_path)
    draw(100, 100)
    assert cores.look(0) == ()
    draw(300, 150)
    assert cores.look(2 * S) == (1.0, 0.25)
    assert CoreMeter(tmp_path / "nowhere").look(0) == ()


def test_the_command_of_a_rank_is_its_launchers(tmp_path: Path) -> None:
    draw_process(tmp_path, 7, command="bash", parent=1)
    draw_process(
        tmp_path, 8, command="python -m torch.distributed.run --nproc-per-node 2 a.py", parent=7
    )
    draw_process(tmp_path, 9, command="python a.py", parent=8)
    expected = "gapless run python -m torch.distributed.run --nproc-per-node 2 a.py"
    assert exact_command(9, tmp_path) == expected


def test_the_second_look_at_a_machine_has_rates_whatever_the_first_took() -> None:
    watcher = MachineWatcher()
    assert "cpu.unlisted" not in watcher.look().machine
    time.sleep(0.05)
    view = watcher.look()
    assert any(process.on_processor is not None for process in view.processes)
    assert 0 <= view.machine["cpu.unlisted"] <= view.machine["cpu.total"]
