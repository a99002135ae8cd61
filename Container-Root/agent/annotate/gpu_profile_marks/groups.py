"""Marks of an optimizer's parameter groups. Python 3.8, stdlib only.

torch's optimizers take one group after the other, and begin each with `_init_group`. A step of
several groups has a method of that name on the instance while it runs. Other optimizers have one
range for all groups.
"""

from __future__ import annotations

from typing import Any

from gpu_profile_marks.ranges import RANGES, SWITCH, make_mark

_METHOD = "_init_group"
_GROUP = object()


def open_groups(optimizer: Any) -> None:  # noqa: ANN401 - a torch optimizer
    """Have each group of this step begin a range, `optimizer AdamW group 1`."""
    if len(optimizer.param_groups) > 1 and callable(getattr(optimizer, _METHOD, None)):
        vars(optimizer)[_METHOD] = _wrap_method(optimizer, getattr(optimizer, _METHOD))


def close_groups(optimizer: Any) -> None:  # noqa: ANN401 - a torch optimizer
    if isinstance(vars(optimizer).get(_METHOD), _MarkedMethod):
        del vars(optimizer)[_METHOD]


class _MarkedMethod:
    """The method `_init_group` of one optimizer, with marks."""

    def __init__(self, optimizer: Any, begin: Any) -> None:  # noqa: ANN401 - torch
        self._groups = optimizer.param_groups
        self._name = type(optimizer).__name__
        self._begin = begin

    def __call__(self, group: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - torch
        if SWITCH.on:
            try:
                self._mark(group)
            except Exception as error:
                SWITCH.fail(error)
        return self._begin(group, *args, **kwargs)

    def _mark(self, group: Any) -> None:  # noqa: ANN401 - a dict
        # By identity: `index` would compare the tensors of the groups.
        places = (place for place, known in enumerate(self._groups) if known is group)
        number = next(places, None)
        RANGES.pop(_GROUP)
        if number is not None:
            RANGES.push(_GROUP, make_mark(f"optimizer {self._name} group {number}"))


def _wrap_method(optimizer: Any, begin: Any) -> _MarkedMethod:  # noqa: ANN401 - torch
    if isinstance(begin, _MarkedMethod):  # a step that raised an exception left it
        return begin
    return _MarkedMethod(optimizer, begin)
