"""Where the training thread's own time goes, by sampled stacks that stand for time."""

import pytest

from gapless.capture.source_lines import WRAPPER
from gapless.model.recording import StackCount
from gapless.payload import tracebacks
from gapless.recorded.training.fetch_waits import fetch_waits
from gapless.recorded.training.hooks import hook_lines
from gapless.recorded.training.host_code import host_code
from gapless.recorded.training.lines import call_lines, hot_lines, loading_lines
from tests.study.recording import Log


def test_lines_are_hot_by_the_time_that_their_stacks_stand_for() -> None:
    log = Log()
    code, main = ("data.py", 88, "Tokenizer.encode"), ("train.py", 12, "main")
    torch = ("site-packages/torch/nn/functional.py", 9, "linear")
    log.stacks.append(StackCount("training", (code, main), 0, ran_ns=600))
    log.stacks.append(StackCount("training", (torch, main), 112, ran_ns=300))
    log.stacks.append(StackCount("training", (main,), 9, 0, 100, (("sleep", 100),)))
    hottest, second = hot_lines([log.to_process()])
    assert (hottest.line, hottest.share, second.line, second.share) == (88, 0.6, 12, 0.4)
    python_code, sleep_code = host_code([log.to_process()])
    assert (python_code.kind, python_code.function, python_code.line, python_code.share) == (
        "python",
        "Tokenizer.encode",
        88,
        0.6,
    )
    assert (sleep_code.kind, sleep_code.function, sleep_code.line, sleep_code.share) == (
        "sleep",
        "main",
        12,
        0.1,
    )


def test_a_function_is_named_that_most_of_the_time_passed_below_with_the_library() -> None:
    log = Log()
    main, step = ("train.py", 50, "main"), ("train.py", 12, "step")
    numpy = ("/x/lib/python3.11/site-packages/numpy/fft/_pocketfft.py", 3, "fft")
    for line, ran_ns in ((70, 40), (71, 50)):
        helper = ("metric.py", line, f"part_{line}")
        log.stacks.append(StackCount("training", (numpy, helper, step, main), 0, ran_ns=ran_ns))
    loader = ("/x/site-packages/torch/utils/data/dataloader.py", 7, "__next__")
    log.stacks.append(StackCount("training", (("data.py", 3, "get"), loader, main), 0, ran_ns=900))
    (code,) = host_code([log.to_process()])
    assert (code.function, code.line, code.library, code.inside) == ("step", 12, "numpy", 1.0)
    assert code.share == pytest.approx(90 / 990)


def test_a_handler_that_interrupts_whatever_runs_is_the_function() -> None:
    log = Log()
    main, handler = ("train.py", 50, "main"), ("train.py", 7, "tick")
    for line in range(4):
        caller = ("net.py", line, f"Part{line}.forward")
        log.stacks.append(StackCount("training", (handler, caller, main), 3, ran_ns=20))
        log.stacks.append(StackCount("training", (caller, main), 2, ran_ns=10))
    (code,) = host_code([log.to_process()])
    assert (code.function, code.line, code.inside) == ("tick", 7, pytest.approx(2 / 3))


def test_a_mode_that_operators_pass_through_is_no_place_where_time_goes() -> None:
    log = Log()
    main, watch = ("train.py", 50, "main"), ("train.py", 26, "Watch.__torch_function__")
    relu = ("/x/site-packages/torch/nn/functional.py", 9, "relu")
    for frames in ((watch, main), (relu, watch, relu, main)):
        log.stacks.append(StackCount("training", frames, 0, ran_ns=50))
    process = log.to_process()
    assert [(hot_line.line, hot_line.share) for hot_line in hot_lines([process])] == [(50, 1.0)]
    assert {call.line for call in call_lines([process])} == {50}
    assert [code.line for code in host_code([process])] == [50]


def test_lines_are_told_at_which_a_loader_makes_batches_and_chooses_their_samples() -> None:
    log = Log()
    main = ("train.py", 50, "main")
    folder = "/x/site-packages/torch/utils/data/"
    following = (folder + "dataloader.py", 7, "__next__")
    fetching = (folder + "_utils/fetch.py", 54, "fetch")
    indices = (folder + "dataloader.py", 9, "_BaseDataLoaderIter._next_index")
    numpy = ("/x/site-packages/numpy/random/mtrand.py", 3, "choice")
    data, sampler = ("data.py", 3, "Data.__getitem__"), ("data.py", 30, "Weighted.__iter__")
    for ran_ns, frames in (
        (300, (data, fetching, following, main)),
        (500, (numpy, sampler, indices, following, main)),
        (100, (fetching, following, main)),  # torch's own work: none of the user's within it
        (100, (("train.py", 9, "step"), main)),
    ):
        log.stacks.append(StackCount("training", frames, 0, ran_ns=ran_ns))
    lines = loading_lines([log.to_process()])
    assert [(hot_line.thread, hot_line.line, hot_line.share) for hot_line in lines] == [
        ("choosing", 30, 0.5),
        ("making", 3, 0.3),
    ]


def test_fetches_are_known_to_wait_for_what_is_no_file_at_the_line_of_the_users() -> None:
    log = Log()
    folder = "/x/site-packages/torch/utils/data/_utils/"
    fetching, looping = (
        (folder + "fetch.py", 54, "fetch"),
        (folder + "worker.py", 9, "_worker_loop"),
    )
    client, data = ("client.py", 40, "ask"), ("data.py", 3, "Data.__getitem__")
    waiting = ("/x/lib/python3.11/threading.py", 327, "Condition.wait")
    for kind, ns, frames in (
        ("socket", 600, (client, data, fetching, looping)),
        ("lock", 100, (waiting, data, fetching, looping)),
        ("lock", 50, (data, fetching, looping)),  # in C: for threads that compute, perhaps
        ("file", 150, (data, fetching, looping)),
        ("socket", 900, (("/x/lib/queue.py", 9, "get"), looping)),  # for the next batch to make
    ):
        log.stacks.append(StackCount("worker", frames, 10, 0, ns, ((kind, ns),)))
    log.stacks.append(StackCount("worker", (data, fetching, looping), 10, ran_ns=100))
    waits = fetch_waits([log.to_process()])
    assert [(wait.kind, wait.line, wait.function, wait.share) for wait in waits] == [
        ("socket", 40, "ask", 0.6),
        ("lock", 3, "Data.__getitem__", 0.1),
    ]
    assert {wait.looks for wait in waits} == {50}


def test_stacks_of_before_time_was_measured_tell_of_no_code() -> None:
    log = Log()
    log.stacks.append(StackCount("training", (("a.py", 3, "f"),), 5))
    assert host_code([log.to_process()]) == ()
    assert hot_lines([log.to_process()])[0].share == 1.0


def test_the_recorders_own_work_is_no_time_of_the_trainings() -> None:
    log = Log()
    recorder_frame = ("/x/site-packages/gapless/payload/windows/save.py", 5, "save")
    profiler = ("/x/site-packages/torch/profiler/profiler.py", 7, "stop")
    main = ("train.py", 25, "main")
    log.stacks.append(StackCount("training", (profiler, recorder_frame, main), 9, ran_ns=900))
    log.stacks.append(StackCount("training", (("train.py", 9, "metric"), main), 1, ran_ns=60))
    log.stacks.append(StackCount("training", (profiler, main), 1, ran_ns=40))
    (code,) = host_code([log.to_process()])
    assert (code.function, code.share) == ("metric", 0.6)
    assert [line.share for line in hot_lines([log.to_process()])] == [0.6, 0.4]


def test_of_a_function_that_calls_torch_as_well_one_line_is_meant() -> None:
    log = Log()
    torch = ("/x/site-packages/torch/nn/modules/linear.py", 7, "forward")
    log.stacks.append(StackCount("training", (torch, ("train.py", 8, "main")), 0, ran_ns=100))
    for line, ran_ns in ((7, 60), (9, 40)):
        log.stacks.append(StackCount("training", (("train.py", line, "main"),), 0, ran_ns=ran_ns))
    (code,) = host_code([log.to_process()])
    assert (code.line, code.inside, code.share) == (7, 0.6, 0.5)


def test_what_a_wrapper_of_the_recorders_calls_is_the_trainings() -> None:
    log = Log()
    engine = ("/x/site-packages/torch/autograd/graph.py", 979, "_engine_run_backward")
    wrapper = ("<gapless:importlib_bootstrap>", 87, "_counting_passes.backward")
    main = ("train.py", 25, "main")
    log.stacks.append(StackCount("training", (engine, wrapper, main), 3, ran_ns=300))
    log.stacks.append(StackCount("training", (wrapper, main), 1, ran_ns=500))
    log.stacks.append(StackCount("training", (("train.py", 9, "metric"), main), 1, ran_ns=100))
    (code,) = host_code([log.to_process()])
    assert (code.function, code.share) == ("metric", 0.25)
    assert [line.share for line in hot_lines([log.to_process()])] == [0.75, 0.25]


def test_the_wrappers_of_the_recorder_go_by_the_name_that_the_study_knows() -> None:
    assert tracebacks.PASSED_OVER == WRAPPER


def test_what_waits_for_a_process_is_no_socket() -> None:
    log = Log()
    wait = ("/x/lib/python3.11/selectors.py", 415, "select")
    talk = ("/x/lib/python3.11/subprocess.py", 2115, "_communicate")
    main = ("train.py", 25, "main")
    log.stacks.append(StackCount("training", (wait, talk, main), 3, 0, 300, (("socket", 300),)))
    log.stacks.append(StackCount("training", (main,), 1, ran_ns=100))
    (wait_code,) = (code for code in host_code([log.to_process()]) if code.kind != "python")
    assert (wait_code.kind, wait_code.line) == ("process", 25)


def test_a_process_that_starts_is_waited_for_too() -> None:
    log = Log()
    start = ("/x/lib/python3.11/subprocess.py", 1883, "Popen._execute_child")
    log.stacks.append(
        StackCount("training", (start, ("train.py", 8, "main")), 3, 0, 300, (("other", 300),))
    )
    log.stacks.append(StackCount("training", (("train.py", 9, "main"),), 1, ran_ns=100))
    (wait_code,) = (code for code in host_code([log.to_process()]) if code.kind != "python")
    assert (wait_code.kind, wait_code.line) == ("process", 8)


def test_a_lock_of_python_is_a_wait_for_another_thread() -> None:
    log = Log()
    wait = ("/x/lib/python3.11/threading.py", 327, "Condition.wait")
    queue = ("/x/lib/python3.11/queue.py", 171, "Queue.get")
    main = ("train.py", 9, "main")
    in_c = ("/x/site-packages/numpy/linalg/_linalg.py", 5, "svd")
    log.stacks.append(StackCount("training", (wait, queue, main), 6, 0, 600, (("lock", 600),)))
    parallel = ("/x/site-packages/torch/nn/parallel/parallel_apply.py", 5, "parallel_apply")
    future = ("/x/lib/python3.11/concurrent/futures/_base.py", 451, "Future.result")
    compiler = ("/x/site-packages/torch/_inductor/async_compile.py", 5, "wait")
    torch_stacks = ((in_c, main), (wait, parallel, main), (wait, future, compiler, main))
    for stack in torch_stacks:
        log.stacks.append(StackCount("training", stack, 3, 0, 100, (("lock", 100),)))
    log.stacks.append(StackCount("training", (main,), 1, ran_ns=100))
    codes = host_code([log.to_process()])
    assert [(code.kind, code.line, code.share) for code in codes] == [
        ("lock", 9, 0.6),
        ("python", 9, 0.1),
    ]


def test_a_thread_stands_where_it_waits_also_once_it_is_awake() -> None:
    log = Log()
    wait, next_line, main = ("env.py", 13, "step"), ("env.py", 14, "step"), ("train.py", 25, "main")
    log.stacks.append(StackCount("training", (wait, main), 6, 0, 600, (("sleep", 600),)))
    log.stacks.append(StackCount("training", (wait, main), 1, ran_ns=100))
    log.stacks.append(StackCount("training", (next_line, main), 3, ran_ns=300))
    sleeping = host_code([log.to_process()])[0]
    assert (sleeping.kind, sleeping.share, sleeping.stood, sleeping.looks) == (
        "sleep",
        0.6,
        0.7,
        10,
    )


def test_lines_are_told_at_which_what_was_called_a_module_by_its_forward() -> None:
    log = Log()
    folder = "/x/site-packages/torch/nn/modules/"
    calls = (folder + "module.py", 7, "Module._call_impl")
    wraps = (folder + "module.py", 5, "Module._wrapped_call_impl")
    forward, layer = ("model.py", 12, "Net.forward"), (folder + "linear.py", 3, "Linear.forward")
    for line, ran_ns in ((48, 300), (49, 500)):
        outer = ("train.py", line, "train")
        log.stacks.append(
            StackCount("training", (layer, calls, forward, calls, wraps, outer), 0, ran_ns=ran_ns)
        )
    log.stacks.append(StackCount("training", (("train.py", 50, "train"),), 0, ran_ns=200))
    lines = call_lines([log.to_process()])
    assert [(call_line.line, call_line.callee, call_line.share) for call_line in lines] == [
        (12, "Linear.forward", 0.8),
        (49, "Net.forward", 0.5),
        (48, "Net.forward", 0.3),
    ]


def test_what_a_library_calls_back_is_told_if_it_is_the_forward_pass() -> None:
    log = Log()
    solver = ("/x/site-packages/torchdiffeq/_impl/odeint.py", 80, "odeint")
    calls = ("/x/site-packages/torch/nn/modules/module.py", 7, "Module._call_impl")
    layer = ("/x/site-packages/torch/nn/modules/linear.py", 130, "Linear.forward")
    forward, line = ("train.py", 12, "Net.forward"), ("train.py", 48, "train")
    log.stacks.append(StackCount("training", (solver, line), 0, ran_ns=300))
    log.stacks.append(
        StackCount("training", (layer, calls, forward, calls, solver, line), 0, ran_ns=100)
    )
    shares = {call.callee: (call.share, call.forward) for call in call_lines([log.to_process()])}
    assert shares == {"odeint": (1.0, 0.25), "Linear.forward": (0.25, 0.0)}


def test_hooks_are_what_modules_and_the_engine_call_beside_their_work() -> None:
    log = Log()
    folder = "/x/site-packages/torch/"
    calls = (folder + "nn/modules/module.py", 7, "Module._call_impl")
    engine = (folder + "autograd/graph.py", 9, "_engine_run_backward")
    apply = (folder + "autograd/function.py", 3, "BackwardCFunction.apply")
    outer, forward = ("train.py", 50, "train"), ("model.py", 12, "Net.forward")
    sort = (folder + "_tensor.py", 2, "Tensor.sort")
    keep_hook, watch_hook = ("train.py", 20, "keep.<locals>.hook"), ("train.py", 30, "watch")
    own_backward = ("ops.py", 8, "Round.backward")
    adam = (folder + "optim/adam.py", 5, "Adam.step")
    timer = ("deco.py", 5, "timed.<locals>.inner")
    for frames, ran_ns in (
        ((sort, keep_hook, calls, outer), 300),  # behind a forward pass, with what it calls
        ((watch_hook, engine, outer), 200),  # of a tensor
        ((sort, forward, calls, outer), 250),  # a forward pass itself
        ((own_backward, apply, engine, outer), 50),  # an operator of the user's own
        ((adam, watch_hook, engine, outer), 50),  # an optimizer's step, within the backward pass
        ((forward, timer, calls, outer), 50),  # a forward pass that is decorated
        ((outer,), 100),
    ):
        log.stacks.append(StackCount("training", frames, 3, ran_ns=ran_ns))
    hooks = hook_lines([log.to_process()])
    assert [(hook.line, hook.function, hook.share) for hook in hooks] == [
        (20, "keep.<locals>.hook", 0.3),
        (30, "watch", 0.2),
    ]
    assert not hook_lines([Log().to_process()])


def test_a_module_whose_forward_is_none_of_pythons_is_called_all_the_same() -> None:
    log = Log()
    calls = ("/x/site-packages/torch/nn/modules/module.py", 7, "Module._call_impl")
    log.stacks.append(StackCount("training", (calls, ("train.py", 28, "train")), 3, ran_ns=9))
    assert [(call_line.line, call_line.callee) for call_line in call_lines([log.to_process()])] == [
        (28, "Module._call_impl")
    ]
