"""People who cross a square in JAX, pushed by those around them; in each tenth step some more arrive.

The cause appends them to the array of people, so the simulation is compiled anew for its length.
The fix has an array that is long enough, and a mask of who is there.
"""
# causes: compile
import jax
import jax.numpy as jnp
import numpy as np
from turns import Turns

PEOPLE, ARRIVING, MOST, PERIOD, TIMES, SIDE, PAUSE = 12_000, 8, 12_800, 10, 40, 120.0, 0.02


def add_pushes(x, y, is_here):  # type: ignore[no-untyped-def]
    """How people near a person push, in both directions."""
    dx, dy = x[:, None] - x[None], y[:, None] - y[None]
    distance = jnp.sqrt(dx * dx + dy * dy + 1e-6)
    push = 20 * jnp.exp((0.6 - distance) / 0.3) / distance
    if is_here is not None:
        push = jnp.where(is_here[None], push, 0)
    return (push * dx).sum(1), (push * dy).sum(1)


@jax.jit
def move(people, is_here):  # type: ignore[no-untyped-def]
    """People (place, speed and aim) after some times, and how fast they are."""

    def move_once(_, people):  # type: ignore[no-untyped-def]
        x, y, speed_x, speed_y, aim_x, aim_y = (people[:, column] for column in range(6))
        push_x, push_y = add_pushes(x, y, is_here)
        way = jnp.sqrt((aim_x - x) ** 2 + (aim_y - y) ** 2) + 0.1
        speed_x = speed_x + PAUSE * (2 * (1.3 * (aim_x - x) / way - speed_x) + push_x)
        speed_y = speed_y + PAUSE * (2 * (1.3 * (aim_y - y) / way - speed_y) + push_y)
        speed_x, speed_y = jnp.clip(speed_x, -3, 3), jnp.clip(speed_y, -3, 3)
        columns = (x + PAUSE * speed_x, y + PAUSE * speed_y, speed_x, speed_y, aim_x, aim_y)
        return jnp.stack(columns, 1)

    people = jax.lax.fori_loop(0, TIMES, move_once, people)
    pace = jnp.hypot(people[:, 2], people[:, 3])
    return people, pace.mean() if is_here is None else (pace * is_here).sum() / is_here.sum()


def bring(random: np.random.Generator, count: int) -> np.ndarray:
    """People at rest somewhere, who want to go somewhere."""
    places, aims = random.uniform(0, SIDE, (2, count, 2))
    return np.concatenate([places, np.zeros((count, 2)), aims], 1).astype(np.float32)


class Appended:
    """An array of those who are there."""

    def __init__(self, random: np.random.Generator) -> None:
        self.people = jnp.asarray(bring(random, PEOPLE))

    def add(self, people: np.ndarray) -> None:
        self.people = jnp.concatenate([self.people, people])

    def move(self) -> jax.Array:
        self.people, pace = move(self.people, None)
        return pace


class Masked:
    """An array for all who may come, and how many are there."""

    def __init__(self, random: np.random.Generator) -> None:
        self.people, self.count = jnp.asarray(bring(random, MOST)), PEOPLE
        self.places = np.arange(MOST)

    def add(self, people: np.ndarray) -> None:
        if self.count + len(people) <= MOST:
            self.people = jax.lax.dynamic_update_slice(self.people, people, (self.count, 0))
            self.count += len(people)

    def move(self) -> jax.Array:
        self.people, pace = move(self.people, jnp.asarray(self.places < self.count))
        return pace


def run(turns: Turns) -> None:
    turns.period = PERIOD
    random = np.random.default_rng(0)
    crowds: dict[bool, Appended | Masked] = {True: Appended(random), False: Masked(random)}
    steps = {True: 0, False: 0}
    paces: list[float] = []
    turns.synchronize = lambda: jax.block_until_ready([crowd.people for crowd in crowds.values()])
    while turns.step():
        crowd = crowds[turns.planted]
        steps[turns.planted] += 1
        if steps[turns.planted] % PERIOD == 0:
            crowd.add(bring(random, ARRIVING))
        paces.append(float(crowd.move()))
