"""Memoise a function of one object, with entries that vanish together with the object."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

Owner = TypeVar("Owner")
Value = TypeVar("Value")


def once_each(function: Callable[[Owner], Value]) -> Callable[[Owner], Value]:
    """Cache the function's value for each object, as long as that object lives (weak reference)."""
    cache: WeakKeyDictionary[Owner, Value] = WeakKeyDictionary()

    @wraps(function)
    def remembered(owner: Owner) -> Value:
        if owner not in cache:
            cache[owner] = function(owner)
        return cache[owner]

    return remembered
