"""A mixture of Gaussians fitted in JAX; the cause factors the covariances one by one, outside of jit.

The fix does so for all components in one compiled function.
"""
# causes: tiny_kernels, host_bound
import jax
import jax.numpy as jnp
import numpy as np
from turns import Turns

POINTS, SIZE, PARTS, RIDGE = 300_000, 32, 64, 0.1


@jax.jit
def share_points(
    points: jax.Array, centers: jax.Array, inverses: jax.Array, offsets: jax.Array
) -> jax.Array:
    """How much of each point belongs to each component."""

    def score(center: jax.Array, inverse: jax.Array, offset: jax.Array) -> jax.Array:
        return offset - 0.5 * jnp.square((points - center) @ inverse.T).sum(1)

    return jax.nn.softmax(jax.vmap(score)(centers, inverses, offsets), 0)


@jax.jit
def measure(points: jax.Array, shares: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The weight, center and covariance of each component."""

    def measure_one(share: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        weight = share.sum() + 1.0
        center = share @ points / weight
        apart = points - center
        covariance = (apart * share[:, None]).T @ apart / weight
        return weight / POINTS, center, covariance

    return jax.vmap(measure_one)(shares)


def factor(weight: jax.Array, covariance: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The inverse of a covariance's root, and the logarithm of the component's height."""
    root = jnp.linalg.cholesky(covariance + RIDGE * jnp.eye(SIZE))
    inverse = jax.scipy.linalg.solve_triangular(root, jnp.eye(SIZE), lower=True)
    return inverse, jnp.log(weight) - jnp.log(jnp.diagonal(root)).sum()


factor_all = jax.jit(jax.vmap(factor))


def factor_one_by_one(weights: jax.Array, covariances: jax.Array) -> tuple[jax.Array, jax.Array]:
    pairs = [factor(weights[part], covariances[part]) for part in range(PARTS)]
    return jnp.stack([one for one, _ in pairs]), jnp.stack([one for _, one in pairs])


def run(turns: Turns) -> None:
    random = np.random.default_rng(0)
    points = jnp.asarray(random.standard_normal((POINTS, SIZE), np.float32))
    centers = points[:PARTS]
    inverses = jnp.tile(jnp.eye(SIZE), (PARTS, 1, 1))
    offsets = jnp.zeros(PARTS)
    turns.synchronize = lambda: jax.block_until_ready(inverses)
    while turns.step():
        shares = share_points(points, centers, inverses, offsets)
        weights, centers, covariances = measure(points, shares)
        fit = factor_one_by_one if turns.planted else factor_all
        inverses, offsets = fit(weights, covariances)
