"""Pictures of a galaxy behind a cluster that bends its light, in JAX; the cause is formulas without `jax.jit`."""
# causes: unfused_elementwise
import jax
import jax.numpy as jnp
import numpy as np
from turns import Turns

SIDE, LENSES, SPAN = 8192, 8, 30.0


def prepare(lenses: np.ndarray) -> list[tuple[np.float32, ...]]:
    """What `bend` needs of each lens: middle, scale, flatness squared, core, turn, and roundness lost."""
    middle_x, middle_y, strength, flat, core, angle = lenses.T
    lost = np.sqrt(1 - flat**2)
    scale = strength * np.sqrt(flat) / lost
    columns = middle_x, middle_y, scale, flat**2, core, np.cos(angle), np.sin(angle), lost
    return list(zip(*(column.astype(np.float32) for column in columns), strict=True))


def bend(x, y, from_x, from_y, lens):  # type: ignore[no-untyped-def]
    """Where light comes from that an isothermal ellipse with a core bends too (Kormann and others, 1994)."""
    middle_x, middle_y, scale, flat, core, cos, sin, lost = lens
    along = cos * (x - middle_x) + sin * (y - middle_y)
    across = cos * (y - middle_y) - sin * (x - middle_x)
    psi = jnp.sqrt(flat * (core**2 + along**2) + across**2)
    by_along = scale * jnp.arctan(lost * along / (psi + core))
    by_across = scale * jnp.arctanh(lost * across / (psi + flat * core))
    return from_x - cos * by_along + sin * by_across, from_y - sin * by_along - cos * by_across


def shine(x, y, galaxy):  # type: ignore[no-untyped-def]
    """The light of a Sersic profile."""
    middle_x, middle_y, radius, flat, index = galaxy
    far = jnp.sqrt(flat * (x - middle_x) ** 2 + (y - middle_y) ** 2 / flat + 1e-6) / radius
    return jnp.exp(-(2 * index - 0.33) * (far ** (1 / index) - 1))


def blur(picture, telescope):  # type: ignore[no-untyped-def]
    return jnp.fft.irfft2(jnp.fft.rfft2(picture) * telescope, picture.shape)


def run(turns: Turns) -> None:
    random = np.random.default_rng(0)
    places = jnp.linspace(-SPAN, SPAN, SIDE)
    x, y = jnp.meshgrid(places, places)
    low, high = (-20, -20, 0.5, 0.5, 0.05, 0.0), (20, 20, 3.0, 0.9, 0.5, 3.0)
    lenses = prepare(random.uniform(low, high, (LENSES, 6)))
    rows, columns = jnp.fft.fftfreq(SIDE)[:, None], jnp.fft.rfftfreq(SIDE)
    telescope = jnp.exp(-200 * (rows**2 + columns**2))
    bend_compiled, shine_compiled, blur_compiled = (jax.jit(each) for each in (bend, shine, blur))
    picture, steps = x, 0
    turns.synchronize = lambda: jax.block_until_ready(picture)
    while turns.step():
        bend_now, shine_now = (bend, shine) if turns.planted else (bend_compiled, shine_compiled)
        from_x, from_y = x, y
        for lens in lenses:
            from_x, from_y = bend_now(x, y, from_x, from_y, lens)
        galaxy = tuple(np.float32([0.05 * (steps % 40), 0.3, 1, 0.7, 2]))
        picture = blur_compiled(shine_now(from_x, from_y, galaxy), telescope)
        steps += 1
