"""A JAX MLP; the cause fetches its activations to the host at each step."""
# causes: idle, pageable_copy
import jax
import jax.numpy as jnp
import numpy as np
from turns import Turns


def run(turns: Turns) -> None:
    keys = jax.random.split(jax.random.PRNGKey(0), 6)
    weights = [0.02 * jax.random.normal(key, (4096, 4096), jnp.bfloat16) for key in keys]
    batch = jax.random.normal(keys[0], (8192, 4096), jnp.bfloat16)

    def loss(weights, x):  # type: ignore[no-untyped-def]
        for weight in weights:
            x = jax.nn.relu(x @ weight)
        return jnp.mean(x.astype(jnp.float32) ** 2), x

    @jax.jit
    def train(weights, x):  # type: ignore[no-untyped-def]
        gradients, hidden = jax.grad(loss, has_aux=True)(weights, x)
        updates = zip(weights, gradients, strict=True)
        return [weight - 1e-3 * gradient for weight, gradient in updates], hidden

    hidden = batch
    turns.synchronize = lambda: jax.block_until_ready((weights, hidden))
    while turns.step():
        weights, hidden = train(weights, batch)
        if turns.planted:
            np.asarray(hidden).mean()
