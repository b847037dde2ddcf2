"""Keras 3 on JAX/CPU, the model of mlp.yaml. usage: keras_mlp.py single|dp DEVICES; prints milliseconds a step, the best epoch's mean."""
import os
import sys
import time

strategy, devices = sys.argv[1], int(sys.argv[2])
os.environ["KERAS_BACKEND"] = "jax"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
import keras
import numpy as np

if strategy == "dp":
    keras.distribution.set_distribution(keras.distribution.DataParallel())
rows, steps = 256, 40
rng = np.random.default_rng(0)
x = rng.standard_normal((rows * steps, 1024), dtype=np.float32)
y = rng.standard_normal((rows * steps, 10), dtype=np.float32)
model = keras.Sequential([keras.Input((1024,)), keras.layers.Dense(4096, activation="relu"), keras.layers.Dense(10)])
model.compile(optimizer="adam", loss="mse")
model.fit(x[:rows], y[:rows], batch_size=rows, epochs=1, verbose=0)
best = 1e9
for _ in range(3):
    start = time.time()
    model.fit(x, y, batch_size=rows, epochs=1, shuffle=False, verbose=0)
    best = min(best, (time.time() - start) / steps)
print(f"{best * 1e3:.3f}")
