"""What a host frame is charged as, by its name."""

import pytest

from gapless.accounting.host.tags import NOT_A_FRAME, PYTHON, tag_events
from gapless.model import category as c
from gapless.model.leaf import LEAVES
from tests.accounting.drawing import Drawing, Frame, draw

NAMES = [
    ("torch/profiler/profiler.py(815): step", c.PYTHON_FUNCTION, "idle.profiler"),
    ("torch/profiler/profiler.py(800): stop", c.PYTHON_FUNCTION, "idle.profiler"),
    ("gapless: sampling", c.MARKER, "idle.profiler"),
    ("gapless:step", c.USER_ANNOTATION, "idle.profiler"),
    ("gapless:clock", c.USER_ANNOTATION, "idle.profiler"),
    ("gapless:iter", c.USER_ANNOTATION, "idle.data.start-up"),
    ("gapless:save", c.USER_ANNOTATION, "idle.io_main.checkpoint"),
    ("gapless:logging", c.USER_ANNOTATION, "idle.io_main.logging"),
    ("gapless:eval", c.USER_ANNOTATION, "idle.io_main.eval"),
    ("gapless:gc", c.USER_ANNOTATION, "idle.gc"),
    ("gapless:saved", c.USER_ANNOTATION, "idle.profiler"),
    ("Python GC", c.MARKER, "idle.gc"),
    ("Python GC", c.OTHER_KIND, "idle.gc"),
    ("<built-in method gc.collect>", c.PYTHON_FUNCTION, "idle.gc"),
    ("<built-in method load of gc>", c.PYTHON_FUNCTION, "python"),
    ("cudaMalloc", c.RUNTIME, "idle.alloc"),
    ("cudaFree", c.RUNTIME, "idle.alloc"),
    ("cudaMallocAsync", c.RUNTIME, "idle.alloc"),
    ("hipMalloc", c.RUNTIME, "idle.alloc"),
    ("cuMemCreate", c.DRIVER, "idle.alloc"),
    ("cuMemUnmap", c.DRIVER, "idle.alloc"),
    ("cuMemsetD8Async", c.DRIVER, "idle.host.dispatch"),
    ("cudaHostAlloc", c.RUNTIME, "idle.alloc.host"),
    ("cudaMallocHost", c.RUNTIME, "idle.alloc.host"),
    ("cudaFreeHost", c.RUNTIME, "idle.alloc.host"),
    ("cudaHostRegister", c.RUNTIME, "idle.alloc.host"),
    ("cuMemHostAlloc", c.DRIVER, "idle.alloc.host"),
    ("cuMemAllocHost_v2", c.DRIVER, "idle.alloc.host"),
    ("torch/_dynamo/convert_frame.py(1): _compile", c.PYTHON_FUNCTION, "idle.compile"),
    ("torch/_dynamo/eval_frame.py(1): _fn", c.PYTHON_FUNCTION, "python"),
    ("torch/_inductor/compile_fx.py(1): compile_fx", c.PYTHON_FUNCTION, "idle.compile"),
    ("triton/compiler/compiler.py(1): compile", c.PYTHON_FUNCTION, "idle.compile"),
    ("_compile.compile_inner (dynamo_timed)", c.CPU_OP, "idle.compile"),
    ("cuModuleLoadData", c.DRIVER, "idle.compile"),
    ("cuLibraryLoadData", c.DRIVER, "idle.compile"),
    ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 2, "idle.data.main"),
    ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 2, "idle.data.unstaged"),
    ("enumerate(DataLoader)#Other.__next__", c.CPU_OP, "idle.data.unstaged"),
    ("cudaStreamSynchronize", c.RUNTIME, "idle.sync.return"),
    ("cudaDeviceSynchronize", c.RUNTIME, "idle.sync.return"),
    ("hipEventSynchronize", c.RUNTIME, "idle.sync.return"),
    ("cuCtxSynchronize", c.DRIVER, "idle.sync.return"),
    ("cudaEventSynchronizeLater", c.RUNTIME, "idle.host.dispatch"),
    ("torch/serialization.py(650): save", c.PYTHON_FUNCTION, "idle.io_main.checkpoint"),
    ("safetensors/torch.py(1): save_file", c.PYTHON_FUNCTION, "idle.io_main.checkpoint"),
    ("torch/serialization.py(650): load", c.PYTHON_FUNCTION, "python"),
    ("torch/utils/tensorboard/writer.py(1): SummaryWriter", 3, "idle.io_main.logging"),
    ("wandb/sdk/wandb_run.py(1): log", c.PYTHON_FUNCTION, "idle.io_main.logging"),
    ("wandb", c.USER_ANNOTATION, ""),
    ("wandb", c.CPU_OP, "idle.host.dispatch"),
    ("aten::pin_memory", c.CPU_OP, "idle.h2d.host"),
    ("aten::to", c.CPU_OP, "idle.host.dispatch"),
    ("c10d::allreduce_", c.CPU_OP, "idle.comm.host"),
    ("record_param_comms", c.CPU_OP, "idle.comm.host"),
    ("nccl:all_reduce", c.USER_ANNOTATION, "idle.comm.host"),
    ("gloo:all_reduce", c.USER_ANNOTATION, "idle.comm.host"),
    ("Optimizer.step#Adam.step", c.USER_ANNOTATION, "idle.host.optimizer"),
    ("Optimizer.zero_grad#Adam.zero_grad", c.USER_ANNOTATION, "idle.host.optimizer"),
    ("ProfilerStep#3", c.USER_ANNOTATION, ""),
    ("my range", c.USER_ANNOTATION, ""),
    ("anything", c.OTHER_KIND, ""),
    ("aten::add", c.CPU_OP, "idle.host.dispatch"),
    ("cudaLaunchKernel", c.RUNTIME, "idle.host.dispatch"),
    ("train.py(3): step", c.PYTHON_FUNCTION, "python"),
    ("aten::add", c.KERNEL, ""),
]


@pytest.mark.parametrize(("name", "kind", "leaf"), NAMES)
def test_a_frame_is_charged_by_its_name(name: str, kind: int, leaf: str) -> None:
    tags = tag_events(draw(Drawing(frames=[Frame("op", 0, 5, name=name, category=kind)])).trace)
    order, code = int(tags.order[0]), int(tags.leaf[0])
    if leaf in ("", "python"):
        assert order == (PYTHON if leaf else NOT_A_FRAME)
    else:
        assert (order < PYTHON, LEAVES[code]) == (True, leaf)


def test_a_point_is_no_frame() -> None:
    tags = tag_events(draw(Drawing(frames=[Frame("op", 5, 5), Frame("op", 5, 4)])).trace)
    assert tags.order.tolist() == [NOT_A_FRAME, NOT_A_FRAME]
