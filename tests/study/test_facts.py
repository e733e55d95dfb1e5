"""The facts of a run: what was recorded of real trainings, and what is made of marks."""

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from gapless import wire
from gapless.catalogue.declare import custom_settings, listing
from gapless.catalogue.declare.fix import describe_proposal
from gapless.model.edit import Applicability
from gapless.model.facts import Facts, Loader
from gapless.recorded.facts import facts
from gapless.store.run.recordings import load
from tests.payload import loading
from tests.study.recording import Log, recording

TRAINING = """
import threading
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.set_num_threads(1)

class Images(Dataset):
    def __init__(self):
        self.lock = threading.Lock()
    def __len__(self):
        return 64
    def __getitem__(self, index):
        time.sleep(0.001)
        return {"x": torch.randn(3, 4, 4), "y": index % 4}

class Lines(IterableDataset):
    def __iter__(self):
        for number in range(24):
            yield torch.full((3,), number)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide = nn.Conv2d(3, 4, 3, padding=1)
        self.last = nn.Linear(64, 4)
    def forward(self, x):
        return self.last(checkpoint(self.wide, x, use_reentrant=False).flatten(1))

def main():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    valid = DataLoader(Lines(), batch_size=4)
    for epoch in range(2):
        loader = DataLoader(Images(), batch_size=4, shuffle=True)
        model.train()
        for at, batch in enumerate(loader):
            nn.functional.cross_entropy(model(batch["x"]), batch["y"]).backward()
            if at % 2:
                optimizer.step()
                optimizer.zero_grad()
        model.eval()
        for batch in valid:
            batch.sum()
        torch.save(model.state_dict(), "model.pt")

main()
"""
WORKERS = """
class Words(IterableDataset):
    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        for number in range(info.id, 16, info.num_workers):
            yield random.random()

for batch in DataLoader(Words(), batch_size=2, num_workers=2, prefetch_factor=3):
    pass
"""


def record_facts(folder: Path, script: str) -> Facts:
    loading.run_script(folder, script)
    shutil.copytree(folder / "spool", folder / "run/logs")
    return facts(load(folder / "run"))


@pytest.fixture(scope="module")
def run_facts(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    return record_facts(tmp_path_factory.mktemp("training"), TRAINING)


def test_the_loader_that_trains_is_told_from_the_one_that_does_not(run_facts: Facts) -> None:
    images, lines = sorted(run_facts.loaders, key=lambda loader: loader.dataset)
    assert (images.trains, lines.trains) == (True, False)
    assert (images.batch_size, images.batches, images.iterations) == (4, 32, 2)
    assert (images.random, lines.random) == (True, False)
    assert images.blocked is not None
    assert images.blocked > 0  # it sleeps
    assert images.waited_ns > 128 * 1_000_000
    assert (images.batch_bytes, images.pinnable) == (4 * 3 * 16 * 4 + 4 * 8, True)
    assert (images.picklable, lines.picklable) == (False, None)
    assert (images.asks_worker_info, lines.asks_worker_info) == (None, False)
    assert images.start_method in {"fork", "forkserver"}
    assert images.cuda_in_dataset is False
    assert images.location is not None
    assert images.location.function == "main"
    assert images.sample is not None
    assert images.sample.function == "__getitem__"
    assert images.sample.file == images.location.file
    assert images.collate is None  # torch's own


def test_loaders_made_anew_for_each_epoch_are_one(run_facts: Facts) -> None:
    assert len(run_facts.loaders) == 2


def test_what_trains_is_told(run_facts: Facts) -> None:
    (optimizer,) = run_facts.optimizers
    assert optimizer.name == "torch.optim.sgd.SGD"
    assert (optimizer.foreach, optimizer.fused) == (False, None)
    assert (optimizer.tensors, optimizer.calls, optimizer.device) == (4, 16, "cpu")
    (model,) = run_facts.models
    assert model.name == "__main__.Net"
    assert (model.convolutions, model.channels_last, model.compiled) == (1, False, False)
    assert model.checkpoints is True
    assert (run_facts.world.micro_batches, run_facts.world.steps, run_facts.world.ranks) == (
        2.0,
        16,
        1,
    )
    assert run_facts.world.torch is not None
    assert run_facts.world.step_ns is not None


def test_the_machine_and_the_calls_are_told(run_facts: Facts) -> None:
    assert run_facts.machine.device is None
    assert run_facts.machine.cpus
    assert run_facts.machine.cpu_list
    assert run_facts.machine.intra_op_threads == 1
    assert run_facts.machine.memory_bytes
    assert run_facts.machine.bf16 is not None
    assert run_facts.machine.environment["OMP_NUM_THREADS"] == "1"
    assert run_facts.precision is not None
    assert run_facts.precision.settings["matmul_precision"] == "highest"
    assert run_facts.calls["checkpoint"] == 2
    assert run_facts.calls["evaluation"] == 2
    assert run_facts.calls["zero_grad_to_zero"] == 0
    assert run_facts.calls["logging"] == 0


def test_fixes_speak_of_a_real_run(run_facts: Facts) -> None:
    descriptions = {
        proposal.fix: describe_proposal(proposal)
        for fix in listing.FIXES
        for proposal in fix(run_facts)
    }
    assert descriptions["more-workers"].startswith("equivalent: num_workers 0 → ")
    assert descriptions["one-thread"] == "nothing to change: intra-op threads are already 1"
    assert descriptions["no-checkpoint"] == "trial: each kind of checkpoint is written once"
    assert descriptions["checkpointing-off"].startswith("same: ")
    assert descriptions["foreach"].startswith("equivalent: SGD at script.py:")
    assert descriptions["set-to-none"].startswith("nothing to change: ")
    lines = next(loader for loader in run_facts.loaders if loader.iterable)
    assert lines.location is not None
    text = f"DataLoader@script.py:{lines.location.line}.num_workers=2"
    assert "never asks get_worker_info" in describe_proposal(
        custom_settings.propose_setting(text, run_facts)
    )


def test_what_workers_made_is_told(tmp_path: Path) -> None:
    (loader,) = record_facts(tmp_path, WORKERS).loaders
    assert (loader.num_workers, loader.prefetch_factor, loader.iterable) == (2, 3, True)
    assert (loader.asks_worker_info, loader.random) == (True, True)
    assert loader.start_method
    assert loader.batches == 8


def test_of_a_run_that_recorded_nothing_hardly_anything_is_true() -> None:
    empty_facts = facts(recording())
    assert empty_facts.world.steps == 0
    assert empty_facts.loaders == ()
    proposals = listing.propose_ceilings(empty_facts)
    assert proposals
    assert [proposal.applicability for proposal in proposals] == [Applicability.ABLATION] * len(
        proposals
    )


def loaders_of(log: Log) -> dict[str, Loader]:
    return {loader.dataset: loader for loader in facts(recording(log)).loaders}


def mark_batches(log: Log, loader: int, *starts: float) -> None:
    for start in starts:
        log.add_mark("next", start, start + 1, subject=loader)


def training_log() -> Log:
    log = Log()
    log.add_fact("optimizer", 0, ("train.py", 3), **{"class": "torch.optim.sgd.SGD"})
    log.add_fact("loader", 0, ("train.py", 1), dataset="a", num_workers=2)
    log.add_fact("loader", 1, ("train.py", 2), dataset="b", num_workers=0)
    log.add_steps(*range(10, 310, 10))
    mark_batches(log, 0, *range(12, 302, 10))
    return log


def test_an_evaluation_that_is_not_told_of_asks_for_its_batches_in_one_step() -> None:
    log = training_log()
    mark_batches(log, 1, *(152 + tenth / 10 for tenth in range(40)))
    loaders = loaders_of(log)
    assert (loaders["a"].trains, loaders["b"].trains) == (True, False)


def test_an_evaluation_after_each_step_is_none_of_the_training() -> None:
    log = training_log()
    log.add_fact("model", 0, None)
    for start in range(12, 302, 10):
        log.add_mark("mode", start + 1, value=0)
        mark_batches(log, 1, start + 2)
        log.add_mark("mode", start + 4, value=1)
    loaders = loaders_of(log)
    assert (loaders["a"].trains, loaders["b"].trains) == (True, False)


def test_two_loaders_may_train() -> None:
    log = training_log()
    mark_batches(log, 1, *range(13, 303, 20))
    loaders = loaders_of(log)
    assert (loaders["a"].trains, loaders["b"].trains) == (True, True)


def test_a_loader_that_was_not_asked_trains_nothing_that_is_known() -> None:
    assert loaders_of(training_log())["b"].trains is None


def test_the_share_of_a_fetch_off_the_processor_leaves_waits_for_one_out() -> None:
    log = training_log()
    worker = Log(role="worker", pid=11, worker=0, loader=0)
    worker.add_fetch(10, 20, cpu=2_000_000, run_queue=3_000_000, random=0)
    worker.add_fetch(20, 30, cpu=2_000_000, run_queue=3_000_000, random=1)
    worker.add_fetch(30, 40)  # of which nothing is known
    (loader,) = (
        candidate for candidate in facts(recording(log, worker)).loaders if candidate.dataset == "a"
    )
    assert loader.blocked == pytest.approx(0.5)
    assert loader.random is True


def test_ranks_of_a_host_are_counted() -> None:
    first_rank, second_rank = training_log(), replace(training_log(), rank=1, pid=12)
    first_rank.world = second_rank.world = 2
    first_rank.add_fact("distributed", 0, None, world=4, local_world=2)
    world = facts(recording(first_rank, second_rank)).world
    assert (world.ranks, world.local_ranks) == (4, 2)


def test_marks_that_were_summed_are_counted() -> None:
    log = training_log()
    log.add_mark_sum("next", (310, 400), 20, total=30)
    log.add_mark_sum("next", (310, 400), 1, flags=wire.EXHAUSTED)
    log.add_mark_sum("sync", (310, 400), 7)
    log.add_mark("sync", 305)
    run_facts = facts(recording(log))
    (loader,) = (candidate for candidate in run_facts.loaders if candidate.dataset == "a")
    assert (loader.batches, loader.waited_ns) == (29 + 20, 59_000_000)
    assert run_facts.calls["synchronize"] == 8


def test_a_device_is_told_as_it_was_recorded() -> None:
    log = training_log()
    log.add_fact("machine", 0, None, device="NVIDIA H200", capability=[9, 0], devices=2, cpus=16)
    log.add_fact("model", 0, ("train.py", 2), device="cuda:1", convolutions=0, compiled=True)
    log.add_fact("calls", 0, None, checkpointing=0, steps=0, passes=0)
    log.add_fact("ddp", 0, ("train.py", 9), bucket_cap_mb=25.0)
    run_facts = facts(recording(log))
    assert (run_facts.machine.device, run_facts.machine.capability) == ("NVIDIA H200", (9, 0))
    assert [optimizer.device for optimizer in run_facts.optimizers] == ["cuda:1"]
    assert run_facts.models[0].checkpoints is None  # what is compiled calls nothing that is counted
    assert run_facts.world.micro_batches is None
    assert [(wrapper.kind, wrapper.settings) for wrapper in run_facts.parallel] == [
        ("ddp", {"bucket_cap_mb": 25.0})
    ]


def test_a_run_that_ended_in_its_first_step_has_no_step_time() -> None:
    log = Log()
    log.add_fact("optimizer", 0, ("train.py", 3), **{"class": "torch.optim.sgd.SGD"})
    log.add_steps(10)
    assert (facts(recording(log)).world.step_ns, facts(recording(log)).world.steps) == (None, 1)


def test_parameters_that_got_no_gradient_are_known_of_an_optimizer() -> None:
    log = Log()
    values = {
        "class": "torch.optim.sgd.SGD",
        "tensors": 10,
        "ungraded": 4,
        "ungraded_parameters": 9,
    }
    log.add_fact("optimizer", 0, ("train.py", 3), **values)
    log.add_steps(10)
    (optimizer,) = facts(recording(log)).optimizers
    assert (optimizer.ungraded, optimizer.ungraded_parameters) == (4, 9)
