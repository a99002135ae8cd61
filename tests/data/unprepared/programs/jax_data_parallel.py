"""JAX: one process, all GPUs, a batch split over them."""

import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import jax, jax.numpy as jnp, numpy as np, step_log
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
split, whole = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
keys = jax.random.split(jax.random.key(0), 8)
params = jax.device_put([jax.random.normal(k, (2048, 2048)) * 0.02 for k in keys], whole)


def loss(params, x, y):
    for w in params:
        x = jax.nn.gelu(x @ w)
    return jnp.mean((x - y) ** 2)


@jax.jit
def step(params, x, y):
    value, grads = jax.value_and_grad(loss)(params, x, y)
    return value, [p - 0.1 * g for p, g in zip(params, grads)]


random = np.random.default_rng(0)
batches = [
    jax.device_put(random.standard_normal((8192, 2048), dtype=np.float32), split) for _ in range(4)
]
for i in range(30):
    step_log.begin()
    x = batches[i % 4]
    value, params = step(params, x, x)
    value.block_until_ready()
    step_log.end()
print(float(value))
