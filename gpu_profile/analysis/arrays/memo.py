"""Memoise a function of one object, with entries that vanish together with the object."""

from collections.abc import Callable, Hashable
from functools import wraps
from threading import RLock
from typing import Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

Owner = TypeVar("Owner")
Others = ParamSpec("Others")
Value = TypeVar("Value")


def once_each(
    function: Callable[Concatenate[Owner, Others], Value],
) -> Callable[Concatenate[Owner, Others], Value]:
    """Cache the function's value for each object and the other arguments, as long as that object
    lives (weak reference).

    Of threads that ask at the same time one computes the value, and the others wait for it.
    """
    cache: WeakKeyDictionary[Owner, dict[Hashable, Value]] = WeakKeyDictionary()
    lock = RLock()

    @wraps(function)
    def remembered(owner: Owner, /, *others: Others.args, **named: Others.kwargs) -> Value:
        key = (*others, *named.items())
        with lock:
            values = cache.setdefault(owner, {})
            if key not in values:
                values[key] = function(owner, *others, **named)
            return values[key]

    return remembered
