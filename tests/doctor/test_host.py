"""Checks of what the kernel gives, on drawn /proc and /sys."""

from pathlib import Path

import pytest

from gapless.catalogue.declare.cpu_lists import format_cpu_list
from gapless.doctor.gpus import GpuSurvey
from gapless.doctor.host_files import parse_numbers
from gapless.doctor.subject import BusyProcess, DataFolder, Limit, ProcessorUse, Space
from tests.doctor.drawing import SURVEY, check, draw

CPUS = "sys/devices/system/cpu"
NODES = "sys/devices/system/node"
PAGES = "sys/kernel/mm/transparent_hugepage"
GIB = 1 << 30


@pytest.mark.parametrize(
    ("files", "verdict", "words"),
    [
        ({}, "ok", "4 of 4 processors (0-3), a quota cannot be seen"),
        ({"sys/fs/cgroup/cpu.max": "max 100000"}, "ok", "no quota"),
        ({"sys/fs/cgroup/cpu.max": "800000 100000"}, "ok", "a quota of 8"),
        ({"sys/fs/cgroup/cpu.max": "150000 100000"}, "warn", "a quota of 1.5 processors"),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/cpu.max": "200000 100000",
                "sys/fs/cgroup/a/cpu.stat": "nr_periods 100\nnr_throttled 30\n",
            },
            "bad",
            "held back in 30% of its periods",
        ),
        (
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/docker/x\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "300000",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
            },
            "warn",
            "a quota of 3 processors",
        ),
    ],
)
def test_a_quota_below_what_programs_see_is_named(
    files: dict[str, str], verdict: str, words: str, tmp_path: Path
) -> None:
    result = check("processors", draw(tmp_path, files))
    assert result.verdict == verdict
    assert words in result.evidence


def test_few_processors_for_the_gpus_are_named(tmp_path: Path) -> None:
    two_gpus = GpuSurvey(SURVEY.gpus * 2)
    result = check("processors", draw(tmp_path, survey=two_gpus))
    assert (result.verdict, "for 2 GPUs" in result.evidence) == ("warn", True)
    single = draw(tmp_path, allowed_cpus=frozenset({3}))
    assert check("processors", single).verdict == "warn"
    assert check("processors", draw(tmp_path, allowed_cpus=None)).verdict == "unknown"


def test_numa_balancing_counts_where_there_are_nodes_and_gpus(tmp_path: Path) -> None:
    one_node = {f"{NODES}/node0/cpulist": "0-3", "proc/sys/kernel/numa_balancing": "1"}
    assert check("numa", draw(tmp_path / "one", one_node, survey=SURVEY)).verdict == "ok"
    two_nodes = {**one_node, f"{NODES}/node1/cpulist": "4-7"}
    result = check("numa", draw(tmp_path / "two", two_nodes, survey=SURVEY))
    assert result.verdict == "warn"
    assert result.remedy == "sudo sysctl kernel.numa_balancing=0"
    assert "2 nodes, of which this process may use 1" in result.evidence
    assert check("numa", draw(tmp_path / "two")).verdict == "ok"
    assert check("numa", draw(tmp_path / "none")).verdict == "unknown"


@pytest.mark.parametrize(
    ("files", "verdict"),
    [
        ({}, "unknown"),
        ({"cpu0/cpufreq/scaling_governor": "performance"}, "ok"),
        ({"cpu0/cpufreq/scaling_governor": "powersave"}, "warn"),
        (
            {
                "cpu0/cpufreq/scaling_governor": "powersave",
                "cpu0/cpufreq/scaling_driver": "intel_pstate",
            },
            "ok",
        ),
        (
            {
                "cpu0/cpufreq/scaling_governor": "powersave",
                "cpu0/cpufreq/scaling_driver": "amd-pstate-epp",
                "cpu0/cpufreq/energy_performance_preference": "power",
            },
            "warn",
        ),
        (
            {
                "cpu0/cpufreq/scaling_governor": "performance",
                "intel_pstate/no_turbo": "1",
            },
            "warn",
        ),
        ({"cpu0/cpufreq/scaling_governor": "performance", "cpufreq/boost": "0"}, "warn"),
    ],
)
def test_a_clock_that_saves_power_is_named(
    files: dict[str, str], verdict: str, tmp_path: Path
) -> None:
    named_files = {f"{CPUS}/{name}": text for name, text in files.items()}
    assert check("frequency", draw(tmp_path, named_files)).verdict == verdict


def test_threads_of_one_core_are_counted(tmp_path: Path) -> None:
    siblings = {
        f"{CPUS}/cpu{number}/topology/thread_siblings_list": f"{number % 2},{number % 2 + 2}"
        for number in range(4)
    }
    assert "threads of 2 cores" in check("smt", draw(tmp_path / "two", siblings)).evidence
    assert check("smt", draw(tmp_path / "none")).verdict == "unknown"


def memory_files(total: int, free: int, **others: str) -> dict[str, str]:
    text = f"MemTotal: {total >> 10} kB\nMemAvailable: {free >> 10} kB\n"
    return {"proc/meminfo": text, **others}


@pytest.mark.parametrize(
    ("files", "verdict", "words"),
    [
        ({}, "unknown", "cannot be read"),
        (memory_files(64 * GIB, 32 * GIB), "ok", "32.0 GiB of 64.0 GiB available"),
        (memory_files(64 * GIB, 5 * GIB), "warn", "5.0 GiB"),
        (memory_files(64 * GIB, GIB // 2), "bad", "512.0 MiB"),
        (
            memory_files(
                64 * GIB,
                32 * GIB,
                **{
                    "sys/fs/cgroup/memory.max": str(8 * GIB),
                    "sys/fs/cgroup/memory.current": str(8 * GIB),
                    "sys/fs/cgroup/memory.stat": f"inactive_file {4 * GIB}\n",
                },
            ),
            "ok",
            "8.0 GiB, of which 4.0 GiB is left",  # the page cache can be dropped
        ),
        (
            memory_files(
                64 * GIB,
                32 * GIB,
                **{"sys/fs/cgroup/memory.events": "low 0\noom_kill 2\n"},
            ),
            "bad",
            "killed 2 processes",
        ),
    ],
)
def test_memory_is_that_of_the_machine_and_of_the_group(
    files: dict[str, str], verdict: str, words: str, tmp_path: Path
) -> None:
    result = check("memory", draw(tmp_path, files))
    assert (result.verdict, words in result.evidence) == (verdict, True), result


def test_swap_that_is_used_is_named(tmp_path: Path) -> None:
    def swap(name: str, total: int, free: int) -> str:
        text = f"MemTotal: {64 << 20} kB\nSwapTotal: {total >> 10} kB\nSwapFree: {free >> 10} kB\n"
        return check("swap", draw(tmp_path / name, {"proc/meminfo": text})).verdict

    assert swap("none", 0, 0) == "ok"
    assert swap("little", 8 * GIB, 7 * GIB) == "ok"
    assert swap("much", 8 * GIB, 2 * GIB) == "warn"
    assert check("swap", draw(tmp_path / "hidden")).verdict == "unknown"


@pytest.mark.parametrize(
    ("enabled", "defrag", "verdict"),
    [
        ("always [madvise] never", "always defer [madvise] never", "ok"),
        ("always madvise [never]", "always defer [madvise] never", "warn"),
        ("[always] madvise never", "[always] defer madvise never", "warn"),
        ("[always] madvise never", "always [defer+madvise] never", "ok"),
    ],
)
def test_huge_pages(enabled: str, defrag: str, verdict: str, tmp_path: Path) -> None:
    files = {f"{PAGES}/enabled": enabled, f"{PAGES}/defrag": defrag}
    assert check("huge-pages", draw(tmp_path, files)).verdict == verdict


@pytest.mark.parametrize(
    ("space", "verdict"),
    [
        (None, "unknown"),
        (Space(64 << 20, 64 << 20), "bad"),
        (Space(16 * GIB, 100 << 20), "warn"),
        (Space(16 * GIB, 15 * GIB), "ok"),
    ],
)
def test_shared_memory(space: Space | None, verdict: str, tmp_path: Path) -> None:
    result = check("shared-memory", draw(tmp_path, shared_memory=space))
    assert result.verdict == verdict
    assert (result.remedy is None) == (verdict in {"ok", "unknown"})


@pytest.mark.parametrize(("limit", "verdict"), [(2, "warn"), (8, "ok"), (32, "ok")])
def test_shared_memory_is_memory_of_the_group(limit: int, verdict: str, tmp_path: Path) -> None:
    group = {"memory.max": str(limit * GIB), "memory.current": str(GIB + (1 << 20))}
    files = {f"sys/fs/cgroup/{name}": text for name, text in group.items()}
    result = check("shared-memory", draw(tmp_path, files, shared_memory=Space(16 * GIB, 15 * GIB)))
    assert (result.verdict, "control group" in result.evidence) == (verdict, limit < 16)


def test_locked_memory_counts_where_there_is_infiniband(tmp_path: Path) -> None:
    limit = Limit(8 << 20, 8 << 20)
    assert check("locked-memory", draw(tmp_path, locked_memory=limit)).verdict == "ok"
    files = {"sys/class/infiniband/mlx5_0/node_type": "1"}
    assert check("locked-memory", draw(tmp_path, files, locked_memory=limit)).verdict == "warn"
    free = Limit(None, None)
    assert check("locked-memory", draw(tmp_path, locked_memory=free)).verdict == "ok"


@pytest.mark.parametrize(
    ("limit", "verdict", "remedy"),
    [
        (None, "unknown", None),
        (Limit(None, None), "ok", None),
        (Limit(100_000, 100_000), "ok", None),
        (Limit(1024, 500_000), "warn", "ulimit -n 65536"),
        (Limit(1024, 4096), "warn", "ulimit -n 4096"),
        (Limit(128, None), "bad", "ulimit -n 65536"),
    ],
)
def test_open_files(limit: Limit | None, verdict: str, remedy: str | None, tmp_path: Path) -> None:
    result = check("open-files", draw(tmp_path, open_files=limit))
    assert (result.verdict, result.remedy) == (verdict, remedy)


def test_pressure_of_the_last_minute(tmp_path: Path) -> None:
    line = "{} avg10=0.00 avg60={} avg300=0.00 total=1"

    def pressure(name: str, cpu: str, memory: str) -> str:
        files = {
            "proc/pressure/cpu": line.format("some", cpu),
            "proc/pressure/memory": "\n".join(
                (line.format("some", "90.00"), line.format("full", memory))
            ),
        }
        return check("pressure", draw(tmp_path / name, files)).verdict

    assert pressure("calm", "3.10", "0.00") == "ok"
    assert pressure("busy", "60.00", "0.00") == "warn"
    assert pressure("full", "3.10", "20.00") == "bad"
    assert check("pressure", draw(tmp_path / "none")).verdict == "unknown"


def test_processes_of_others_are_named(tmp_path: Path) -> None:
    files = {"proc/loadavg": "2.50 1.00 0.50 1/100 999"}
    busy = (BusyProcess("updatedb", 7, 0.3), BusyProcess("clang", 8, 1.0))
    result = check("neighbours", draw(tmp_path, files, use=ProcessorUse(busy)))
    assert result.verdict == "warn"
    assert "clang (8) 100%, updatedb (7) 30%" in result.evidence
    assert result.remedy == "ps -o pid,user,etime,args -p 8,7"
    assert check("neighbours", draw(tmp_path, files, use=ProcessorUse())).verdict == "ok"


def test_neighbours_that_cannot_be_seen(tmp_path: Path) -> None:
    """As from a container, or where /proc shows a user its own processes only."""
    files = {"proc/loadavg": "5.1 4.0 3.0 5/200 999"}
    use = ProcessorUse((), hidden=1.7)
    few, many = frozenset({0, 1}), frozenset(range(64))
    result = check("neighbours", draw(tmp_path, files, use=use, allowed_cpus=few))
    assert result.verdict == "warn"
    assert "keeps 1.7 processors busy" in result.evidence
    assert check("neighbours", draw(tmp_path, files, use=use, allowed_cpus=many)).verdict == "ok"
    assert check("neighbours", draw(tmp_path, files)).verdict == "unknown"


def disk(tmp_path: Path, scheduler: str, rotational: str) -> dict[str, str]:
    """Draw a partition of a disk, as /sys links it."""
    folder = "sys/devices/pci/block/sda"
    device = tmp_path / "sys/dev/block/8:1"
    device.parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / folder / "sda1").mkdir(parents=True, exist_ok=True)
    device.symlink_to(tmp_path / folder / "sda1")
    return {
        f"{folder}/queue/scheduler": scheduler,
        f"{folder}/queue/rotational": rotational,
        f"{folder}/queue/read_ahead_kb": "128",
        "proc/self/mountinfo": "27 1 8:1 / / rw - ext4 /dev/sda1 rw\n",
    }


@pytest.mark.parametrize(
    ("scheduler", "rotational", "verdict"),
    [("[none] mq-deadline", "0", "ok"), ("none [bfq]", "0", "warn"), ("[bfq]", "1", "warn")],
)
def test_the_disk_of_the_data(
    scheduler: str, rotational: str, verdict: str, tmp_path: Path
) -> None:
    folder = DataFolder("data", (8, 1), Space(100 * GIB, 50 * GIB))
    subject = draw(tmp_path, disk(tmp_path, scheduler, rotational), folder=folder)
    result = check("storage", subject)
    assert result.verdict == verdict
    assert "ext4 /dev/sda1" in result.evidence


def test_a_full_file_system_is_named(tmp_path: Path) -> None:
    folder = DataFolder("data", (8, 1), Space(100 * GIB, 1 << 20))
    assert check("storage", draw(tmp_path, folder=folder)).verdict == "warn"
    elsewhere = DataFolder("data", (0, 44), Space(100 * GIB, 50 * GIB))
    assert "without a disk" in check("storage", draw(tmp_path, folder=elsewhere)).evidence
    gone = DataFolder("data", why="data: Stale file handle")
    assert check("storage", draw(tmp_path, folder=gone)).evidence == "data: Stale file handle"


def test_an_old_kernel_and_what_it_runs_in(tmp_path: Path) -> None:
    files = {".dockerenv": "", "proc/cpuinfo": "flags\t: fpu hypervisor lm\n"}
    result = check("kernel", draw(tmp_path, files, release="6.8.0-45-generic"))
    assert result.evidence == "Linux 6.8.0-45-generic in a container in a virtual machine"
    assert check("kernel", draw(tmp_path, release="5.4.0-1")).verdict == "warn"
    assert check("kernel", draw(tmp_path, release="strange")).verdict == "unknown"


def test_lists_of_processors_are_read_and_written() -> None:
    assert parse_numbers("0-3,8\n") == {0, 1, 2, 3, 8}
    assert format_cpu_list(frozenset({0, 1, 2, 3, 8, 10, 11})) == "0-3,8,10-11"
    assert parse_numbers(None) == frozenset()
