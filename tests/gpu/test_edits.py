# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Edits on a GPU: each takes effect there and comes off again. ``-s`` prints what was seen."""

import copy
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from gapless.model.edit import Edit, SetArgument, SetGlobal, Skip, Wrap
from tests.payload.laying import apply_edits

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),
]

ATTENTION = "torch.nn.functional.scaled_dot_product_attention"
SCALER = (
    Wrap("torch.nn.Module", "autocast", {"dtype": "float16"}),
    Wrap("torch.optim.Optimizer", "grad-scaler"),
)


class Net(nn.Module):
    """Convolutions and a matrix product."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(16, 64, 3, padding=1),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, padding=1),
        )
        self.last = nn.Linear(64, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.last(self.layers(images).mean((2, 3)))


@pytest.fixture(autouse=True)
def seed() -> Iterator[None]:
    torch.manual_seed(0)
    yield
    torch.compiler.reset()
    torch.cuda.empty_cache()


def images() -> torch.Tensor:
    return torch.randn(32, 16, 32, 32, device="cuda")


def train_losses(steps: int = 4) -> list[float]:
    """Train a new model; give its losses."""
    torch.manual_seed(1)
    net = Net().cuda()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.001)
    inputs, losses = images(), list[float]()
    for _ in range(steps):
        loss = net(inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def count_events(action: Callable[[], object]) -> Counter[str]:
    """Return the names of kernels and of calls of CUDA during an action, and how many."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    action()
    with torch.profiler.profile(activities=activities) as profile:
        action()
        torch.cuda.current_stream().synchronize()
    return Counter({event.key: event.count for event in profile.key_averages()})


def kernel_names(counts: Counter[str], *words: str) -> list[str]:
    return sorted({name[:80] for name in counts if any(word in name.lower() for word in words)})


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_autocast(dtype: str) -> None:
    plain = train_losses()
    edits = [Wrap("torch.nn.Module", "autocast", {"dtype": dtype})] if dtype[0] == "b" else SCALER
    with apply_edits(*edits) as counters:
        edited = train_losses()
        counts = count_events(lambda: train_losses(1))
        assert counters.unobserved == []
        assert min(counters.times(index) for index in range(len(edits))) > 0
    print(f"{dtype} losses", (plain, edited))
    print(f"{dtype} kernels", kernel_names(counts, "bf16", "bfloat16", "f16", "half")[:6])
    assert edited == pytest.approx(plain, rel=0.1)
    assert edited != plain
    assert train_losses() == pytest.approx(plain, rel=0.01)


def test_tf32_rounds_products_and_meets_the_newer_names() -> None:
    left_factor, right_factor = (torch.randn(1024, 1024, device="cuda") for _ in range(2))
    exact = (left_factor.double() @ right_factor.double()).float()

    def error() -> float:
        return ((left_factor @ right_factor) - exact).abs().max().item()

    plain = error()
    with apply_edits(SetGlobal("torch.set_float32_matmul_precision", "high")) as counters:
        rounded = error()
        matmul: Any = torch.backends.cuda.matmul
        if hasattr(torch.backends, "fp32_precision"):
            matmul.fp32_precision = "ieee"
            counters.edge()
            assert error() == rounded
        assert matmul.allow_tf32
        compiled: Any = torch.compile(Net().cuda())
        compiled(images())  # asks by the older name
        assert counters.unobserved == []
    print("TF32: error of products without and with it", (plain, rounded))
    assert rounded > 10 * plain
    assert error() == plain


def test_convolutions_run_channels_last() -> None:
    plain = train_losses()
    with apply_edits(Wrap("torch.nn.Module", "channels-last")) as counters:
        edited = train_losses()
        counts = count_events(lambda: train_losses(1))
        assert counters.times() > 0
        assert counters.unobserved == []
    print("channels-last losses", (plain, edited))
    print("channels-last kernels", kernel_names(counts, "nhwc")[:6])
    assert edited == pytest.approx(plain, rel=0.02)


def test_cudnn_benchmark_and_debug_switches() -> None:
    edits = (
        SetGlobal("torch.backends.cudnn.benchmark", value=True),
        Skip("torch.cuda.set_sync_debug_mode"),
        SetGlobal("torch.set_anomaly_enabled", value=False),
    )
    with apply_edits(*edits) as counters:
        torch.cuda.set_sync_debug_mode(1)
        torch.autograd.set_detect_anomaly(mode=True)
        train_losses()
        assert torch.backends.cudnn.benchmark
        assert torch.cuda.get_sync_debug_mode() == 0
        assert not torch.is_anomaly_enabled()
        assert counters.unobserved == []
    assert not torch.backends.cudnn.benchmark


@pytest.mark.parametrize("backend", ["flash", "efficient", "cudnn", "math"])
def test_attention_uses_the_backend(backend: str) -> None:
    query = torch.randn(2, 8, 512, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)

    def attend() -> torch.Tensor:
        result = nn.functional.scaled_dot_product_attention(query, query, query, is_causal=True)
        result.sum().backward()
        return result

    plain = attend()
    with apply_edits(Wrap(ATTENTION, "sdpa", {"backend": backend})) as counters:
        counts = count_events(attend)
        edited = attend()
        assert counters.unobserved == []
        assert counters.times() == 3
    words = {"flash": "flash", "efficient": "fmha", "cudnn": "cudnn", "math": "softmax"}
    print(f"sdpa {backend}", kernel_names(counts, words[backend]))
    assert torch.allclose(plain, edited, atol=0.05)
    assert kernel_names(counts, words[backend])


def test_optimizers_need_fewer_kernels() -> None:
    name, launches = "torch.optim.AdamW", dict[str, int]()
    plain = train_losses()
    for value in ("foreach", "fused"):
        with apply_edits(SetArgument(name, value, value=True)) as counters:
            assert train_losses() == pytest.approx(plain, rel=0.01)
            assert counters.unobserved == []
    for title, edits in {
        "loop": [SetArgument(name, "foreach", value=False)],
        "foreach": [SetArgument(name, "foreach", value=True)],
        "fused": [SetArgument(name, "fused", value=True)],
    }.items():
        with apply_edits(*edits):
            launches[title] = count_events(lambda: train_losses(1))["cudaLaunchKernel"]
    print("launches of a training of one step", launches)
    assert max(launches["fused"], launches["foreach"]) < launches["loop"]


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_a_model_is_compiled(mode: str) -> None:
    plain = train_losses(8)
    with apply_edits(Wrap("torch.nn.Module", "compile", {"mode": mode})) as counters:
        edited = train_losses(8)
        counts = count_events(lambda: train_losses(4))
        assert counters.unobserved == []
        assert counters.times() == 16
    print(f"compile {mode} losses", (plain, edited))
    print(
        f"compile {mode}", {name: count for name, count in counts.items() if "GraphLaunch" in name}
    )
    assert edited == pytest.approx(plain, rel=0.02)
    assert (counts["cudaGraphLaunch"] > 0) is (mode == "reduce-overhead")


def test_graphs_are_not_captured_with_tensors_on_the_cpu() -> None:
    with apply_edits(Wrap("torch.nn.Module", "compile", {"mode": "reduce-overhead"})) as counters:
        net = Net().cuda()
        net.register_buffer("scale", torch.ones(()))
        torch.optim.SGD(net.parameters(), lr=0.1)
        net(images())
        assert counters.times() == 0
        assert "CUDA graphs cannot hold tensors on cpu" in counters.unobserved[0]


def test_waits_are_left_out_but_for_torchs_own() -> None:
    def step() -> None:
        doubled = torch.ones(8, device="cuda") * 2
        torch.cuda.synchronize()
        del doubled
        torch.cuda.empty_cache()

    def graph() -> torch.Tensor:
        graph, inputs = torch.cuda.CUDAGraph(), torch.ones(8, device="cuda")
        with torch.cuda.graph(graph):
            result = inputs * 2
        graph.replay()
        return result

    names = "cudaDeviceSynchronize", "cudaFree"
    plain = count_events(step)
    with apply_edits(Skip("torch.cuda.synchronize"), Skip("torch.cuda.empty_cache")) as counters:
        edited = count_events(step)
        assert (counters.times(0), counters.times(1)) == (2, 2)
        assert graph().tolist() == [2.0] * 8
        assert (counters.times(0), counters.times(1)) == (2, 2)
    print("waits", [{name: counts[name] for name in names} for counts in (plain, edited)])
    assert edited["cudaDeviceSynchronize"] < plain["cudaDeviceSynchronize"]


def test_edits_go_together() -> None:
    edits: list[Edit] = [
        Wrap("torch.nn.Module", "autocast", {"dtype": "bfloat16"}),
        Wrap("torch.nn.Module", "channels-last"),
        Wrap("torch.nn.Module", "compile", {"mode": "default"}),
        SetArgument("torch.optim.AdamW", "fused", value=True),
        SetGlobal("torch.set_float32_matmul_precision", "high"),
    ]
    plain = train_losses()
    with apply_edits(*edits) as counters:
        edited = train_losses()
        counters.edge()
        print("together", [counters.times(index) for index in range(len(edits))])
        assert counters.unobserved == []
        assert min(counters.times(index) for index in range(len(edits))) > 0
    print("together losses", (plain, edited))
    assert edited == pytest.approx(plain, rel=0.1)
    assert train_losses() == pytest.approx(plain, rel=0.01)


def test_a_model_that_is_moved_after_its_optimizer_was_made() -> None:
    with apply_edits(Wrap("torch.nn.Module", "autocast", {"dtype": "bfloat16"})) as counters:
        net = Net()
        torch.optim.SGD(net.parameters(), lr=0.1)
        net.cuda()
        result = net(images())
        assert result.dtype is torch.float32
        assert counters.times() == 1
        plain = copy.deepcopy(net)
        assert not torch.equal(plain(images()), result)


NEWER = hasattr(torch.backends, "fp32_precision")  # torch 2.9, which has the newer name too
PROBE = """
import torch
one = torch.empty(64 << 20, device="cuda")
print([segment["is_expandable"] for segment in torch.cuda.memory._snapshot()["segments"]])
"""


@pytest.mark.parametrize("name", ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"])
def test_segments_of_memory_can_grow(name: str) -> None:
    def run(value: str) -> str:
        inherited = {
            key: text for key, text in os.environ.items() if not key.endswith("_ALLOC_CONF")
        }
        command = [sys.executable, "-c", PROBE]
        return subprocess.check_output(command, text=True, env={**inherited, name: value}).strip()

    segments = {value: run(f"expandable_segments:{value}") for value in ("False", "True")}
    print(name, segments)
    expected = {"False": "[False]", "True": "[True]"}
    assert segments == expected or (name == "PYTORCH_ALLOC_CONF" and not NEWER)
