"""Record small profiles of TensorFlow, some with a planted cause: ``python … FOLDER``."""

import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow as tf

OUT = Path(sys.argv[1])
RNG = np.random.default_rng(0)
X = RNG.standard_normal((4096, 256)).astype("f")
Y = RNG.standard_normal((4096, 1)).astype("f")
IMAGES = OUT / "images"
IMAGES.mkdir(parents=True, exist_ok=True)
for n in range(48):
    pic = tf.cast(tf.random.uniform((384, 384, 3), maxval=255, seed=n), tf.uint8)
    tf.io.write_file(str(IMAGES / f"{n}.jpg"), tf.io.encode_jpeg(pic))


def model(inputs: int = 256) -> Any:
    m = tf.keras.Sequential(
        [
            tf.keras.layers.Input((inputs,)),
            *[tf.keras.layers.Dense(512, "relu") for _ in range(3)],
            tf.keras.layers.Dense(1),
        ]
    )
    return m


def step_of(m: Any) -> Any:
    opt = tf.keras.optimizers.SGD(0.001)
    opt.build(m.trainable_variables)

    @tf.function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((m(x, training=True) - y) ** 2)
        opt.apply_gradients(zip(tape.gradient(loss, m.trainable_variables), m.trainable_variables))
        return loss

    return step


def loop(name: str, data: Any, inputs: int = 256, count: int = 8) -> None:
    m = model(inputs)
    step = step_of(m)
    it = iter(data)
    for _ in range(2):
        step(*next(it))
    tf.profiler.experimental.start(str(OUT / name))
    for n in range(count):
        with tf.profiler.experimental.Trace("train", step_num=n, _r=1):
            x, y = next(it)
            loss = step(x, y)
            loss.numpy()
    tf.profiler.experimental.stop()
    print(name, flush=True)


base = tf.data.Dataset.from_tensor_slices((X, Y)).repeat()
loop("resident", tf.data.Dataset.from_tensors((X[:256], Y[:256])).repeat())
loop("slices_prefetch", base.shuffle(1024).batch(256).prefetch(2))
loop("slices_no_prefetch", base.shuffle(1024).batch(256))


def slow(x: Any, y: Any) -> Any:
    time.sleep(0.0005)
    return x, y


loop(
    "input_bound_py_sleep",
    base.map(lambda x, y: tf.numpy_function(slow, [x, y], [tf.float32, tf.float32]))
    .map(lambda x, y: (tf.ensure_shape(x, (256,)), tf.ensure_shape(y, (1,))))
    .batch(64)
    .prefetch(1),
)


def decode(path: Any) -> Any:
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    image = tf.image.resize(tf.cast(image, tf.float32), (16, 16))
    return tf.reshape(image, (-1,)), tf.zeros((1,))


files = tf.data.Dataset.list_files(str(IMAGES / "*.jpg"), shuffle=False).repeat()
loop("input_bound_decode", files.map(decode).batch(16), inputs=768, count=6)
loop(
    "input_decode_parallel",
    files.map(decode, num_parallel_calls=2).batch(16).prefetch(2),
    inputs=768,
    count=6,
)


def gen() -> Any:
    while True:
        time.sleep(0.03)
        yield X[:64], Y[:64]


loop(
    "input_bound_generator",
    tf.data.Dataset.from_generator(
        gen, output_signature=(tf.TensorSpec((64, 256)), tf.TensorSpec((64, 1)))
    ),
)

m = model()
m.compile("sgd", "mse")
m.fit(base.batch(128).prefetch(2), steps_per_epoch=4, verbose=0)
tf.profiler.experimental.start(str(OUT / "keras_fit"))
m.fit(base.batch(128).prefetch(2), steps_per_epoch=8, verbose=0)
tf.profiler.experimental.stop()
m.fit(
    base.map(lambda x, y: tf.numpy_function(slow, [x, y], [tf.float32, tf.float32]))
    .map(lambda x, y: (tf.ensure_shape(x, (256,)), tf.ensure_shape(y, (1,))))
    .batch(32),
    steps_per_epoch=2,
    verbose=0,
)
tf.profiler.experimental.start(str(OUT / "keras_fit_input_bound"))
m.fit(
    base.map(lambda x, y: tf.numpy_function(slow, [x, y], [tf.float32, tf.float32]))
    .map(lambda x, y: (tf.ensure_shape(x, (256,)), tf.ensure_shape(y, (1,))))
    .batch(32),
    steps_per_epoch=8,
    verbose=0,
)
tf.profiler.experimental.stop()

m = model()
opt_step = step_of(m)
tf.profiler.experimental.start(str(OUT / "retraces"))
for n in range(4):
    with tf.profiler.experimental.Trace("train", step_num=n, _r=1):
        opt_step(tf.constant(X[: 64 + n]), tf.constant(Y[: 64 + n])).numpy()
tf.profiler.experimental.stop()
print("done")
