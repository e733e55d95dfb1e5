"""Sampled stacks of a whole program as a tree of calls."""

from typing import Final

from gapless import wire
from gapless.capture.source_lines import WRAPPER
from gapless.model.calls import CallTree
from gapless.model.recording import StackCount
from gapless.recorded.training.calls import call_trees
from gapless.recorded.training.processes import trainings
from tests.study.recording import Log, recording

SCRIPT: Final = ("/code/train.py", 30, "<module>")
MAIN: Final = ("/code/train.py", 12, "main")
PAYLOAD: Final = "/x/site-packages/gapless/payload/"
STEP: Final = ("/code/train.py", 20, "step")


def trained(*stacks: StackCount) -> Log:
    """Return a process that makes two steps, and was seen in some stacks."""
    log = Log()
    for end in (100, 200):
        log.add_mark("step", end - 5, end)
    log.stacks += stacks
    return log


def trees_of(*logs: Log) -> tuple[CallTree, ...]:
    return call_trees(trainings(recording(*logs)))


def named(tree: CallTree) -> dict[str, int]:
    """Return the time of each function with all that it calls."""
    return {node.function: tree.total_ns[number] for number, node in enumerate(tree.nodes)}


def test_set_up_and_training_are_one_tree_whose_times_sum() -> None:
    log = trained(
        StackCount("setup", (SCRIPT,), 2, 0, 40),
        StackCount("training", (STEP, MAIN, SCRIPT), 3, 50, 10),
        StackCount("training", (("/code/train.py", 14, "main"), SCRIPT), 1, 100),
    )
    log.rare_stacks.append(StackCount("training", (), 4, 7, 3))
    (tree,) = trees_of(log)
    assert named(tree) == {"<module>": 200, "main": 160, "step": 60}
    assert (tree.seen_ns, tree.looks, tree.rare_ns, tree.setup_ns) == (210, 10, 10, 40)
    assert tree.life_ns == log.to_process().end
    main = next(node for node in tree.nodes if node.function == "main")
    assert (main.line, main.own_ns, main.own_looks, main.package) == (14, 100, 1, None)
    chains = {tuple(call.function for call in chain): node.own_ns for chain, node in tree.chains()}
    assert chains == {
        ("<module>",): 40,
        ("<module>", "main"): 100,
        ("<module>", "main", "step"): 60,
    }


def test_wrappers_of_the_recorder_are_passed_over_and_its_own_work_is_a_node() -> None:
    torch = ("/x/site-packages/torch/optim/sgd.py", 3, "SGD.step")
    importing = ("/x/site-packages/gapless/payload/imports.py", 9, "exec_module")
    (tree,) = trees_of(
        trained(
            StackCount("training", (torch, (WRAPPER, 5, "call"), MAIN, SCRIPT), 1, 5),
            StackCount("setup", (torch, importing, MAIN, SCRIPT), 1, 20),
            StackCount(
                "training", (torch, (PAYLOAD + "windows/save.py", 5, "save"), MAIN, SCRIPT), 1, 300
            ),
        )
    )
    assert named(tree) == {"<module>": 325, "main": 325, "SGD.step": 25, "this recorder": 300}
    (step,) = [node for node in tree.nodes if node.function == "SGD.step"]
    assert step.package == "torch"


def test_a_stack_that_was_cut_hangs_from_what_was_not_kept() -> None:
    deep = tuple(("/code/deep.py", 3, f"f{depth}") for depth in range(wire.MAX_FRAMES))
    (tree,) = trees_of(trained(StackCount("training", deep, 1, 5)))
    (root,) = tree.roots
    assert (tree.nodes[root].function, tree.nodes[root].line) == (
        "calls further out, which were not kept",
        0,
    )
    assert len(tree.nodes) == wire.MAX_FRAMES + 1


def test_workers_are_one_tree_that_begins_with_their_loop() -> None:
    fetch = ("/x/site-packages/torch/utils/data/_utils/fetch.py", 54, "fetch")
    loop = ("/x/site-packages/torch/utils/data/_utils/worker.py", 334, "_worker_loop")
    workers = [
        Log(role="worker", pid=20 + number, worker=number, loader=0, end=500) for number in (0, 1)
    ]
    for worker in workers:
        worker.stacks.append(StackCount("worker", (fetch, loop, MAIN, SCRIPT), 2, 30))
    main_tree, worker_tree = trees_of(trained(StackCount("training", (MAIN,), 1, 5)), *workers)
    assert (main_tree.title, worker_tree.title) == ("main thread", "2 workers together")
    assert named(worker_tree) == {"_worker_loop": 60, "fetch": 60}
    assert worker_tree.life_ns == 1_000_000_000


def test_ranks_are_trees_of_their_own() -> None:
    logs = [trained(StackCount("training", (MAIN,), 1, 5)) for _ in range(2)]
    logs[1].rank, logs[1].pid = 1, 11
    assert [tree.title for tree in trees_of(*logs)] == ["rank 0", "rank 1"]


def test_without_stacks_that_stand_for_time_there_is_no_tree() -> None:
    assert trees_of(trained(StackCount("training", (MAIN,), 9))) == ()
