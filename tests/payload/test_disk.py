"""What a training writes is bounded: in bytes a day, and in files."""

from pathlib import Path

from gapless import wire
from gapless.model.recording import Process
from gapless.store.logs.logs import open_log, read_processes
from tests.payload import loading

EPOCHS, STEPS = 4, 500
SHORT = f"""
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range({EPOCHS}):
        for batch in DataLoader(Numbers(), 4, num_workers=2):
            net(batch.float()).sum().backward()
            optimizer.step()
    """
LONG = f"""
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    class Many(Numbers):
        def __len__(self):
            return {STEPS}
    for loader in (DataLoader(Many()), DataLoader(Many(), num_workers=2)):
        for batch in loader:
            net(batch.float()).sum().backward()
            optimizer.step()
    """


def read_spool(spool: Path) -> list[Process]:
    all_processes: list[Process] = []
    for path in sorted(spool.glob("*.log")):
        log = open_log(path)
        assert (log.gaps, log.tail) == ((), 0)
        all_processes += read_processes(path.name, log)[0]
    return all_processes


def count_marks(process: Process, kind: int, flags: int = 0) -> tuple[int, int]:
    """Count the marks of a kind that were kept, and those that were added up."""
    marks, sums = process.marks, process.mark_sums
    n_kept = int(((marks.kind == kind) & (marks.flags == flags)).sum())
    if sums is None:
        return n_kept, 0
    rows = (sums.columns["kind"] == kind) & (sums.columns["flags"] == flags)
    return n_kept, int(sums.columns["count"][rows].sum())


def test_a_loader_that_is_made_anew_each_epoch_makes_no_new_logs(tmp_path: Path) -> None:
    loading.run_script(tmp_path, SHORT, stacks_hz=0)
    names = {path.name for path in (tmp_path / "spool").glob("*.log")}
    assert names <= {
        "rank0.log",
        *(f"rank0-worker{worker}{slot}.log" for worker in (0, 1) for slot in ("", "-2", "-3")),
    }
    all_processes = read_spool(tmp_path / "spool")
    assert len(all_processes) == 1 + 2 * EPOCHS
    writers = {
        (process.loader, process.worker) for process in all_processes if process.role == "worker"
    }
    assert writers == {(loader, worker) for loader in range(EPOCHS) for worker in (0, 1)}
    assert sum(len(process.batches) for process in all_processes) == 2 * EPOCHS
    assert all(process.end is not None for process in all_processes)


def test_without_room_all_is_added_up_and_nothing_is_lost(tmp_path: Path) -> None:
    loading.run_script(tmp_path, LONG, allowance=0, stacks_hz=0)
    training, *workers = sorted(read_spool(tmp_path / "spool"), key=lambda process: process.role)
    assert training.mark_sums is not None
    n_kept, n_summed = count_marks(training, wire.STEP)
    assert n_kept + n_summed == 2 * STEPS
    assert n_summed > STEPS, "detail has ended"
    assert sum(count_marks(training, wire.NEXT)) == 2 * STEPS
    assert sum(count_marks(training, wire.DISPATCH)) == STEPS
    assert count_marks(training, wire.NEXT, wire.EXHAUSTED) == (2, 0), "they are rare"
    assert count_marks(training, wire.ITER) == (2, 0)
    _check_tiling(training)
    summed_bytes = (tmp_path / "spool" / "rank0.log").stat().st_size
    assert summed_bytes < 44 * 4 * STEPS
    assert len(workers) == 2
    for worker in workers:
        assert worker.batch_sums is not None
        columns = worker.batch_sums.columns
        assert int(columns["samples"].sum()) == int(columns["count"].sum()) > 0
        assert (columns["wall"] <= columns["end"] - columns["start"]).all()


def _check_tiling(process: Process) -> None:
    """See that the time in marks of the stepping thread fits into the stretches."""
    assert process.mark_sums is not None
    columns = process.mark_sums.columns
    spans = sorted(set(zip(columns["start"].tolist(), columns["end"].tolist(), strict=True)))
    is_main = (columns["flags"] & wire.NOT_MAIN) == 0
    is_charged = (columns["kind"] == wire.NEXT) | (columns["kind"] == wire.STEP)
    for start, end in spans:
        rows = is_main & is_charged & (columns["start"] == start)
        assert 0 < columns["total"][rows].sum() <= end - start
