"""Hooks on the modules that own an optimizer's parameters: the level `steps`. Python 3.8, stdlib.

A global hook makes each call of each module 1.7 us slower. These are set when an optimizer is made,
before the program compiles the model, and stay: torch.compile would compile again otherwise.
"""

from __future__ import annotations

import itertools
import time
import weakref
from typing import TYPE_CHECKING, Any

from gpu_profile_marks.hooks import Hook, in_file_of, make_hook
from gpu_profile_marks.modules import after_forward, before_forward, is_compiling
from gpu_profile_marks.ranges import SWITCH

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_S = 1.0  # of all searches: a program may make an optimizer in each step
_FEWEST_DEAD = 10_000  # modules that are kept in mind before the dead ones are dropped
_MOST_MODULES = 64  # that get hooks for one model


class OwnerHooks:
    """Sets hooks on the outermost modules that own the parameters of the process's optimizers."""

    def __init__(self, torch: Any) -> None:  # noqa: ANN401 - torch
        self._scripted = torch.jit.ScriptModule
        self._known: dict[int, Any] = {}
        self._most_known = _FEWEST_DEAD
        self._hooked: dict[int, Any] = {}
        self._left_s = _MOST_S
        self._before = make_hook(torch, before_forward)
        self._after = make_hook(torch, after_forward)

    def know_modules(self, of_module: Any) -> None:  # noqa: ANN401 - torch.nn.modules.module
        """Know each module that gets a parameter or a module: no search through all objects, which
        would keep tensors of other threads alive.
        """
        of_module.register_module_module_registration_hook(self._know)
        of_module.register_module_parameter_registration_hook(self._know)

    def _know(self, module: Any, _name: str, _part: Any) -> None:  # noqa: ANN401 - torch
        if is_compiling() or not SWITCH.is_alive():
            return
        known = self._known.get(id(module))
        if known is None or known() is not module:
            if len(self._known) >= self._most_known:
                self._known = {key: ref for key, ref in self._known.items() if ref() is not None}
                self._most_known = max(_FEWEST_DEAD, 2 * len(self._known))
            self._known[id(module)] = weakref.ref(module)

    def hook_compiled(self, compiled: Any) -> None:  # noqa: ANN401 - torch
        """Set hooks on what torch.compile made of a module that has hooks, which run in it only
        while it is traced.
        """
        modules = vars(compiled).get("_modules") if hasattr(compiled, "__dict__") else None
        inner = modules.get("_orig_mod") if modules else None
        if inner is not None and self._is_hooked(inner):
            self._hook(compiled)

    def hook_owners(self, optimizer: Any) -> None:  # noqa: ANN401 - a torch optimizer
        if self._left_s < 0:
            return
        began = time.perf_counter()
        groups = optimizer.param_groups
        parameters = {id(parameter) for group in groups for parameter in group["params"]}
        # The model of a second optimizer may have hooks already: no search is needed.
        self._hooked = {key: find for key, find in self._hooked.items() if find() is not None}
        for find in self._hooked.values():
            parameters -= {id(parameter) for parameter in find().parameters()}
        if not parameters:
            return
        modules = [module for find in self._known.values() if (module := find()) is not None]
        for root in _find_roots(modules, parameters):
            self.hook_called(root)
        self._left_s -= time.perf_counter() - began

    def hook_called(self, root: Any) -> list[Any]:  # noqa: ANN401 - a torch.nn.Module
        """Set hooks on a module, or on those in it that are called in its place. Returns those."""
        called = list(itertools.islice(self._list_called(root), _MOST_MODULES))
        for module in called:
            if not self._is_hooked(module):
                self._hook(module)
        return called

    def _list_called(self, module: Any) -> Iterator[Any]:  # noqa: ANN401 - a torch.nn.Module
        """Yield a module that has a forward, else those in it that have.

        Lightning calls methods of its outermost module that are no forward.
        """
        called = _has_forward(module)
        if called:
            yield module
        if not called or hasattr(type(module), "training_step"):
            for child in vars(module)["_modules"].values():
                if child is not None:
                    yield from self._list_called(child)

    def _is_hooked(self, module: Any) -> bool:  # noqa: ANN401 - a torch.nn.Module
        entry = self._hooked.get(id(module))
        return entry is not None and entry() is module

    def _hook(self, module: Any) -> None:  # noqa: ANN401 - a torch.nn.Module
        if isinstance(module, self._scripted):  # torch refuses hooks on those
            return
        self._hooked[id(module)] = weakref.ref(module)
        # First before the forward: what the user's own hooks launch there is inside.
        module.register_forward_pre_hook(self._before, prepend=True)
        module.register_forward_hook(self._after, always_call=True)


def _find_roots(modules: list[Any], parameters: set[int]) -> list[Any]:
    """Return the modules around the owners of these parameters that are in no other module.

    `modules` lacks those that copy.deepcopy made, as the layers of nn.TransformerEncoder.
    """
    around: dict[int, list[Any]] = {}
    by_id = {id(module): module for module in modules}
    todo = list(modules)
    while todo:
        module = todo.pop()
        for child in vars(module)["_modules"].values():
            around.setdefault(id(child), []).append(module)
            if child is not None and id(child) not in by_id:
                by_id[id(child)] = child
                todo.append(child)
    todo = [
        module
        for module in by_id.values()
        if any(id(parameter) in parameters for parameter in vars(module)["_parameters"].values())
    ]
    roots: dict[int, Any] = {}
    seen: set[int] = set()
    while todo:
        module = todo.pop()
        if id(module) not in seen:
            seen.add(id(module))
            outer = around.get(id(module), [])
            todo += outer
            if not outer:
                roots[id(module)] = module
    return list(roots.values())


def _has_forward(module: Any) -> bool:  # noqa: ANN401 - a torch.nn.Module
    """Return whether somebody wrote its forward: those of torch's and Lightning's bases raise."""
    if "forward" in vars(module):
        return True
    forward = getattr(type(module), "forward", None)
    name = getattr(forward, "__name__", "")
    package = getattr(forward, "__module__", "") or ""
    base = package.endswith("core.module") and "lightning" in package
    return name != "_forward_unimplemented" and not base


def leave_hooks_to_python(torch: Any) -> None:  # noqa: ANN401 - torch
    """Have torch.jit.script leave our hooks out: it would compile their source."""
    recursive = getattr(torch.jit, "_recursive", None)
    list_hooks = getattr(recursive, "get_hook_stubs", None)
    if recursive is None or list_hooks is None:
        return

    def get_hook_stubs(module: Any) -> Any:  # noqa: ANN401 - torch
        hooks = vars(module)["_forward_hooks"], vars(module)["_forward_pre_hooks"]
        kept = [dict(each) for each in hooks]
        for each in hooks:
            for key in [key for key, hook in each.items() if isinstance(hook, Hook)]:
                del each[key]
        try:
            return list_hooks(module)
        finally:
            for each, before in zip(hooks, kept):  # noqa: B905 - strict is of 3.10
                each.clear()
                each.update(before)

    recursive.get_hook_stubs = in_file_of(list_hooks, get_hook_stubs)
