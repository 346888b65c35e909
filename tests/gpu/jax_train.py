"""A small JAX training loop that prints what it computed, to the last bit.

    export XLA_PYTHON_CLIENT_ALLOCATOR=platform      (or cuda_async)
    export XLA_FLAGS="--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0"
    python3 tests/gpu/jax_train.py [sharded]

With `sharded` each batch is divided among all devices, and XLA sums the slopes
by NCCL. The line printed bare and under weir must be equal. The time is printed to stderr.
"""

import hashlib
import sys
import time

import jax
import jax.numpy as jnp
import numpy

STEPS = 40
SIZES = (256, 512, 768, 1024)


def loss_of(weights, x, y):
    for w in weights[:-1]:
        x = jnp.tanh(x @ w)
    return jnp.mean((x @ weights[-1] - y) ** 2)


@jax.jit
def step(weights, x, y):
    loss, slopes = jax.value_and_grad(loss_of)(weights, x, y)
    return [w - 0.01 * g for w, g in zip(weights, slopes)], loss


def main():
    start = time.time()
    if jax.devices()[0].platform != "gpu":
        sys.exit("jax_train.py: JAX sees no GPU")
    random = numpy.random.default_rng(3)
    shapes = [(512, 1024), (1024, 1024), (1024, 64)]
    weights = [jnp.asarray(random.standard_normal(s) * 0.03, jnp.float32)
               for s in shapes]
    place = jnp.asarray
    if "sharded" in sys.argv:
        mesh = jax.make_mesh((jax.device_count(),), ("batch",))
        spec = jax.sharding.PartitionSpec
        weights = jax.device_put(
            weights, jax.sharding.NamedSharding(mesh, spec()))
        rows = jax.sharding.NamedSharding(mesh, spec("batch"))

        def place(array, dtype):
            return jax.device_put(jnp.asarray(array, dtype), rows)

    losses = []
    for i in range(STEPS):
        n = SIZES[i % len(SIZES)]
        x = place(random.standard_normal((n, 512)), jnp.float32)
        y = place(random.standard_normal((n, 64)), jnp.float32)
        weights, loss = step(weights, x, y)
        losses.append(float(loss))
    digest = hashlib.sha256()
    for w in weights:
        digest.update(numpy.asarray(w).tobytes())
    print(losses[0], losses[-1], digest.hexdigest())
    print(f"{time.time() - start:.2f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
