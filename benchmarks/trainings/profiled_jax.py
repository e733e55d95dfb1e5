"""Record small profiles of JAX, each a kind of training, some with a planted cause.

``OUT=folder python -m benchmarks.trainings.profiled_jax`` writes ``$OUT/jax_profiles.tgz``, within
90 s; on the CPU with smaller models, so that those that wait for their input do.
"""

import itertools
import os
import shutil
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import jax
import jax.numpy as jnp
import numpy as np

OUT = Path(os.environ.get("OUT", "."))
WORK = OUT / "jax_profiles"
BEGAN = time.monotonic()
LIMIT_S = 80
MAX_BYTES = 12_000_000


def options(python_level: int) -> dict[str, Any]:
    try:
        chosen = jax.profiler.ProfileOptions()
        chosen.python_tracer_level = python_level
        return {"profiler_options": chosen}
    except AttributeError:
        return {}


def layers(width: int, depth: int, seed: int = 0) -> list[Any]:
    keys = jax.random.split(jax.random.PRNGKey(seed), depth)
    return [jax.random.normal(key, (width, width), jnp.float32) * width**-0.5 for key in keys]


def forward(params: Any, x: Any) -> Any:
    for weight in params:
        x = jax.nn.gelu(x @ weight)
    return x


@jax.jit
def mlp_step(params: Any, x: Any, y: Any) -> Any:
    loss, grads = jax.value_and_grad(lambda p: jnp.mean((forward(p, x) - y) ** 2))(params)
    return [p - 0.01 * g for p, g in zip(params, grads)], loss


def attention(x: Any, width: int = 256, heads: int = 8) -> Any:
    b, n, _ = x.shape
    q = x.reshape(b, n, heads, width // heads)
    return jax.nn.dot_product_attention(q, q, q).reshape(b, n, width)


@jax.jit
def attention_step(params: Any, x: Any, y: Any) -> Any:
    def loss_of(p: Any) -> Any:
        h = x
        for weight in p:
            h = h + attention(h) @ weight
        return jnp.mean((h - y) ** 2)

    loss, grads = jax.value_and_grad(loss_of)(params)
    return [p - 0.01 * g for p, g in zip(params, grads)], loss


@jax.jit
def conv_step(params: Any, x: Any, y: Any) -> Any:
    def loss_of(p: Any) -> Any:
        h = x
        for kernel in p:
            h = jax.nn.relu(
                jax.lax.conv_general_dilated(
                    h, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
                )
            )
        return jnp.mean((h - y) ** 2)

    loss, grads = jax.value_and_grad(loss_of)(params)
    return [p - 0.01 * g for p, g in zip(params, grads)], loss


RNG = np.random.default_rng(0)


ON_CPU = jax.default_backend() == "cpu"
WIDTH, ROWS = (256, 128) if ON_CPU else (1024, 512)
PARTS = 4 if ON_CPU else 1  # of a side of what convolutions and attention get


def batch(width: int = WIDTH, rows: int = ROWS) -> Any:
    return (
        RNG.standard_normal((rows, width), dtype=np.float32),
        RNG.standard_normal((rows, width), dtype=np.float32),
    )


def slow_batch() -> Any:
    with jax.profiler.TraceAnnotation("load_batch"):
        time.sleep(0.03)
        return batch()


def decoded_batch() -> Any:
    with jax.profiler.TraceAnnotation("load_batch"):
        with jax.profiler.TraceAnnotation("decode"):
            raw = RNG.integers(0, 255, (2048, 1024), dtype=np.uint8)
            image = np.sort(raw, axis=1).astype(np.float32)
        x, y = batch()
        return x + image[: len(x), :WIDTH] * 1e-9, y


def run(
    name: str,
    step: Callable[..., Any],
    params: Any,
    make_batch: Callable[[], Any],
    count: int = 8,
    python_level: int = 0,
    after: Callable[[Any], Any] = lambda _: None,
    annotate: bool = True,
) -> None:
    if time.monotonic() - BEGAN > LIMIT_S:
        print("left out for time:", name)
        return
    fixed = make_batch()
    params, loss = step(params, *fixed)
    jax.block_until_ready(loss)
    try:
        with jax.profiler.trace(str(WORK / name), **options(python_level)):
            for number in range(count):
                if annotate:
                    with jax.profiler.StepTraceAnnotation("train", step_num=number):
                        params, loss = step(params, *make_batch())
                        after(loss)
                else:
                    params, loss = step(params, *make_batch())
                    after(loss)
            jax.block_until_ready(loss)
    except Exception as error:
        print("failed:", name, repr(error)[:300])
        return
    print(f"{name}: {time.monotonic() - BEGAN:.1f} s")


def recompiling(
    params: Any, x: Any, y: Any, row_counts: Any = itertools.count(ROWS - 1, -1)
) -> Any:
    rows = next(row_counts)
    return mlp_step(params, x[:rows], y[:rows])


def main() -> None:
    print(jax.__version__, jax.devices(), sys.version.split()[0])
    mlp, small = layers(WIDTH, 6), layers(256, 4)
    device_batch = tuple(map(jnp.asarray, batch()))
    run("mlp_device_resident", mlp_step, mlp, lambda: device_batch, count=10)
    run("mlp_host_batches", mlp_step, mlp, batch)
    run("mlp_input_bound_sleep", mlp_step, mlp, slow_batch)
    run("mlp_input_bound_decode", mlp_step, mlp, decoded_batch)
    run("mlp_loss_read_each_step", mlp_step, mlp, lambda: device_batch, after=float)
    run("mlp_no_steps_marked", mlp_step, mlp, lambda: device_batch, annotate=False)
    run("mlp_recompiles", recompiling, mlp, lambda: device_batch, count=4)
    run("mlp_python_tracer", mlp_step, small, lambda: batch(256, 128), count=4, python_level=1)
    tokens = tuple(
        jnp.asarray(RNG.standard_normal((16, 256 // PARTS, 256), dtype=np.float32)) for _ in "xy"
    )
    run("attention", attention_step, small, lambda: tokens)
    kernels = [jnp.asarray(RNG.standard_normal((3, 3, 32, 32), dtype=np.float32)) * 0.05] * 4
    images = tuple(
        jnp.asarray(RNG.standard_normal((16, 64 // PARTS, 64 // PARTS, 32), dtype=np.float32))
        for _ in "xy"
    )
    run("conv", conv_step, kernels, lambda: images)
    run(
        "conv_input_bound",
        conv_step,
        kernels,
        lambda: (time.sleep(0.02), tuple(np.array(part) for part in images))[1],
    )
    eager = lambda params, x, y: (params, jnp.mean((forward(params, x) - y) ** 2))
    run("eager_small_ops", eager, small, lambda: tuple(part[:128, :256] for part in device_batch))
    archive = OUT / "jax_profiles.tgz"
    with tarfile.open(archive, "w:gz") as tar:
        size = 0
        for path in sorted(WORK.rglob("*")):
            if path.is_file():
                size += path.stat().st_size
                tar.add(path, path.relative_to(OUT))
    shutil.rmtree(WORK)
    print(archive.stat().st_size, "bytes compressed,", size, "plain")
    if archive.stat().st_size > MAX_BYTES:
        print("larger than", MAX_BYTES)


main()
