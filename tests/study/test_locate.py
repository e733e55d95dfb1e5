"""The line of a loss is the user's, and as near to the cause as what was recorded tells."""

import pytest
from msgspec.structs import replace

from gapless.catalogue.examples.evidence import evidence_of, with_recorded
from gapless.catalogue.examples.example_facts import (
    LOADER_LINE,
    OPTIMIZER_LINE,
    gpu,
    loader,
    worker_loader,
)
from gapless.catalogue.examples.parts import kernel, source_line
from gapless.model.change import (
    Change,
    CopyChange,
    Drop,
    HostChange,
    LoaderChange,
    Merge,
    Omit,
    Scale,
)
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.finding import Detection
from gapless.model.footprint import SyncUse
from gapless.model.host_code import CallLine, HostCode, HotLine
from gapless.model.study import Site
from gapless.pricing.locate import line_of_leaf, locate

TORCH = "/venv/lib/python3.12/site-packages/torch/optim/adamw.py"
UNCHANGED = Estimate(1.0, 1.0, 1.0)


def site(name: str, function: str, ns: int, file: str = "train.py", line: int = 10) -> Site:
    return Site(name, file, line, function, ns, 1)


def locate_change(
    change: Change, *parts: object, location: Location | None = None
) -> Location | None:
    evidence = evidence_of(gpu(loader()), {"busy.math": 50, "idle.sync.return": 50}, *parts)
    return locate(Detection("G901", "slow", "It is slow.", (change,), location), evidence)


def test_the_rules_own_line_holds_unless_it_is_a_librarys() -> None:
    location = Location("train.py", 70)
    assert locate_change(Drop(("idle.gc",)), location=location) == location
    assert locate_change(LoaderChange(0), location=Location(TORCH, 70)) == LOADER_LINE


def test_what_the_machine_does_lies_at_no_line() -> None:
    evidence = evidence_of(gpu(loader()), {"busy.math": 50}, site("idle.host.python", "main", 70))
    changes = (HostChange(("idle.host",), UNCHANGED),)
    assert locate(Detection("G204", "slow", "", changes), evidence) == Location(
        "train.py", 10, "main"
    )
    assert locate(Detection("G804", "taken", "", changes), evidence) is None
    location = Location("train.py", 70)
    assert locate(Detection("G803", "unused", "", changes, location), evidence) == location


@pytest.mark.parametrize("change", [LoaderChange(0, wait=False), Drop(("idle.data",))])
def test_a_loaders_line_is_where_it_was_made(change: Change) -> None:
    assert locate_change(change) == LOADER_LINE
    assert locate_change(LoaderChange(7)) is None


def test_threads_of_the_process_lie_at_no_loaders_line() -> None:
    assert locate_change(LoaderChange(0, intra_op_threads=2)) is None
    assert locate_change(LoaderChange(0, intra_op_threads=1, num_workers=1)) == LOADER_LINE


def test_an_optimizers_line_is_where_it_was_made() -> None:
    assert locate_change(Merge(("Optimizer.step#*",), 3)) == OPTIMIZER_LINE


def test_a_call_is_blamed_on_the_users_function_that_most_of_it_is_in() -> None:
    location = locate_change(
        Omit(("aten::item",)),
        site("aten::item", "log", 30, line=20),
        site("aten::item", "main", 70, line=10),
        site("aten::add", "loss", 900, line=30),
        site("aten::item", "adamw", 900, file=TORCH),
    )
    assert location == Location("train.py", 10, "main")


def test_what_many_functions_share_is_blamed_on_the_one_that_calls_them() -> None:
    sites = [site("idle.host.python", f"f{number}", 10, line=number) for number in range(1, 4)]
    assert locate_change(HostChange(("idle.host",), UNCHANGED), *sites) is None
    calls = [
        source_line("train.py", 3, "main", total=99),
        source_line("train.py", 8, "train", total=90),
        source_line(TORCH, 9, "step", total=60),
        source_line("train.py", 20, "loss", total=30),
    ]
    assert locate_change(HostChange(("idle.host",), UNCHANGED), *sites, *calls) == Location(
        "train.py", 8, "train"
    )


def test_a_sampled_stack_gives_the_line_within_the_function() -> None:
    hot = HotLine("training", "/project/train.py", 17, "main", 40, 0.9)
    other_function = HotLine("training", "/project/train.py", 5, "other", 90, 0.9)
    worker = HotLine("worker", "/project/train.py", 18, "main", 90, 0.9)
    change = Drop(("idle.sync",))
    location = locate_change(
        change, site("idle.sync.return", "main", 70), worker, other_function, hot
    )
    assert location == Location("/project/train.py", 17, "main")


@pytest.mark.parametrize(("waited", "line"), [(0.0, 20), (0.3, 21)])
def test_a_wait_is_at_no_pass(waited: float, line: int) -> None:
    passes = HotLine("training", "train.py", 17, "main", 300, 0.5)
    own = HotLine("training", "train.py", 20, "main", 40, 0.2)
    reading = HotLine("training", "train.py", 21, "main", 40, 0.3, waited)
    backward = CallLine("train.py", 17, "main", "torch/_tensor.py", "Tensor.backward", 0.5)
    looks = HostCode("python", 0.1, 1.0, "train.py", 20, "main", None, 0.1, 400)
    wait = site("idle.sync.return", "main", 70)
    shown = (own, backward, looks) if not waited else (own, reading, backward, looks)
    location = locate_change(Drop(("idle.sync",)), wait, passes, *shown)
    assert location == Location("train.py", line, "main")


@pytest.mark.parametrize(
    "read", ["idle.sync.return", "copy.d2h.pageable", "aten::_local_scalar_dense"]
)
def test_a_copy_to_a_device_is_not_at_the_line_that_reads_back(read: str) -> None:
    passes = HotLine("training", "train.py", 17, "main", 300, 0.5)
    copying = HotLine("training", "train.py", 12, "main", 40, 0.1, 0.08)
    reading = HotLine("training", "train.py", 21, "main", 40, 0.3, 0.3)
    change, copy = CopyChange(pinned=True), site("aten::copy_", "main", 70)
    location = locate_change(change, copy, site(read, "main", 70), passes, reading, copying)
    assert location == Location("train.py", 17, "main")
    location = locate_change(change, copy, site(read, "log", 70, line=40), passes, copying)
    assert location == Location("train.py", 12, "main")


def test_a_copy_without_samples_of_its_wait_is_not_at_a_line_of_python() -> None:
    passes = HotLine("training", "train.py", 17, "main", 300, 0.5)
    own = HotLine("training", "train.py", 20, "main", 40, 0.2)
    backward = CallLine("train.py", 17, "main", "torch/_tensor.py", "Tensor.backward", 0.5)
    looks = HostCode("python", 0.1, 1.0, "train.py", 20, "main", None, 0.1, 400)
    parts = site("aten::copy_", "main", 70), passes, own, backward, looks
    assert locate_change(CopyChange(pinned=True), *parts) == Location("train.py", 17, "main")


@pytest.mark.parametrize(
    ("function", "other"),
    [
        ("Encoder.forward", ("proj/utils.py", 80, "Decoder.forward")),  # a class
        ("forward", ("other/pkg/utils.py", 80, "forward")),  # a file
        ("forward", ("proj/utils.py", 80, "Decoder.forward")),  # windows name no classes
        ("forward", ("proj/utils.py", 5, "forward")),  # above it
    ],
)
def test_a_wait_stays_in_its_function(function: str, other: tuple[str, int, str]) -> None:
    own = HotLine("training", "/project/proj/utils.py", 33, "Encoder.forward", 20, 0.1, 0.05)
    namesake = HotLine("training", *other, 90, 0.5, 0.4)
    wait = site("idle.sync.return", function, 70, "proj/utils.py", 30)
    begins = source_line("proj/utils.py", 79, "forward", total=9)
    location = locate_change(Drop(("idle.sync",)), wait, begins, namesake, own)
    assert location == Location("/project/proj/utils.py", 33, function)
    location = locate_change(Drop(("idle.sync",)), wait, begins, namesake)
    assert location == Location("proj/utils.py", 30, function)


def test_python_of_the_function_that_steps_is_at_the_line_that_does_not_train() -> None:
    passes = HotLine("training", "train.py", 17, "main", 300, 0.75)
    own = HotLine("training", "train.py", 20, "main", 40, 0.1)
    backward = CallLine("train.py", 17, "main", "torch/_tensor.py", "Tensor.backward", 0.75)
    looks = HostCode("python", 0.1, 1.0, "train.py", 20, "main", None, 0.1, 400)
    parts = site("idle.host.python", "main", 70), passes, own, backward, looks
    for leaves, line in ((("idle.host.python",), 20), (("idle.host.optimizer", "idle."), 17)):
        location = locate_change(HostChange(leaves, UNCHANGED), *parts)
        assert location is not None
        assert location.line == line


def test_a_function_that_had_begun_before_the_window_is_not_named_by_where_it_stood() -> None:
    hot = HotLine("training", "/project/train.py", 17, "main", 40, 0.9)
    change = Drop(("idle.sync",))
    sync_site = site("idle.sync.return", "main", 70, line=59)  # at the optimizer's step
    function_line = source_line("train.py", 59, "main", calls=0, total=9)
    assert locate_change(change, sync_site, hot) == Location(
        "train.py", 59, "main"
    )  # another, of the same name
    assert locate_change(change, sync_site, hot, function_line) == Location(
        "/project/train.py", 17, "main"
    )


def test_calls_that_python_sees_have_their_own_line() -> None:
    user_sync = SyncUse("train.py", 77, "main", 10, 1000, 1.0, 100.0)
    torch_sync = SyncUse(TORCH, 5, "step", 10, 9000, 1.0, 100.0)
    sites = site("cudaStreamSynchronize", "main", 70)
    assert locate_change(
        Omit(("torch.cuda.synchronize",)), torch_sync, user_sync, sites
    ) == Location("train.py", 77, "main")
    assert locate_change(Omit(("aten::item",)), user_sync) is None
    location = Location("train.py", 99)
    assert locate_change(Omit(("aten::item",), location), user_sync) == location


def test_copies_and_kernels_are_blamed_on_who_calls_their_operators() -> None:
    assert locate_change(CopyChange(pinned=True), site("aten::to", "main", 70)) == Location(
        "train.py", 10, "main"
    )
    gemm = kernel("sgemm", calls=10, ms=5.0, leaf="busy.math", operator="aten::mm")
    scale = Scale(UNCHANGED, ("busy.math",))
    assert locate_change(scale, gemm, site("aten::mm", "forward", 70, line=30)) == Location(
        "train.py", 30, "forward"
    )
    assert locate_change(Scale(UNCHANGED, names=("other",)), gemm) is None


def test_of_several_loaders_the_one_that_was_waited_for_most_is_meant() -> None:
    second_location = Location("train.py", 45)
    evidence = evidence_of(
        gpu(loader(waited_ns=5), worker_loader(id=1, location=second_location, waited_ns=9)),
        {"busy.math": 50, "idle.data.decode": 50},
    )
    assert (
        locate(Detection("G901", "slow", "", (Drop(("idle.data",)),)), evidence) == second_location
    )


def test_a_window_without_a_whole_step_leaves_its_function() -> None:
    evidence = evidence_of(
        gpu(),
        {"step": 20},
        CallLine("train.py", 30, "train", "torch/_tensor.py", "Tensor.backward", 0.4),
        HostCode("python", 0.3, 0.9, "train.py", 34, "train", None, 0.3, 400),
        site("idle.host.python", "train", 5),
        in_windows={},
    )
    account = evidence.recorded.account
    assert account is not None
    evidence = with_recorded(evidence, account=replace(account, on_device=True))
    assert line_of_leaf(evidence, ("idle.host.python",)) == Location("train.py", 10, "train")
