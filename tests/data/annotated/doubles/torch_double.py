"""Stands for torch: the functions that our marks use, and programs' calls of our hooks."""

import itertools
import sys
import types


def _module(name, **values):
    module = types.ModuleType(name)
    vars(module).update(values)
    sys.modules[name] = module
    return module


class Hooks(dict):
    def register(self, name):
        return lambda hook, **_: self.update({name: hook})


HOOKS = Hooks()


class Tensor:
    grad_fn = None


class Module:
    def named_children(self):
        return []

    def compile(self):
        self._compiled_call_impl = lambda: "compiled"

    def _wrapped_call_impl(self):
        HOOKS["before_forward"](self, ())
        result = self.forward()
        HOOKS["after_forward"](self, (), result)
        return result

    __call__ = _wrapped_call_impl

    def forward(self):
        return Tensor()


class Optimizer:
    param_groups = ()

    def step(self):
        HOOKS["before_step"](self, (self,), {})
        HOOKS["after_step"](self, (self,), {})


class GradScaler:
    def step(self, optimizer):
        return "scaled"


class Loader:
    def __next__(self):
        return "batch"


def backward():
    return "gradients"


def compile(model=None):
    return lambda: "compiled"


TRACER = {"set": lambda tracer: None}
NUMBERS = {"next": itertools.count().__next__}
__path__ = []
compiler = _module("torch.compiler", is_compiling=lambda: False)
cuda = _module("torch.cuda", is_initialized=lambda: False)
amp = _module("torch.amp", GradScaler=GradScaler)
autograd = _module("torch.autograd", backward=backward)
_C = types.SimpleNamespace(
    _autograd=types.SimpleNamespace(_get_sequence_nr=lambda: NUMBERS["next"]()),
    _current_graph_task_id=lambda: -1,
    _dynamo=types.SimpleNamespace(
        eval_frame=types.SimpleNamespace(set_eval_frame=lambda tracer: TRACER["set"](tracer))
    ),
)
_of_module = _module(
    "torch.nn.modules.module",
    register_module_forward_pre_hook=HOOKS.register("before_forward"),
    register_module_forward_hook=HOOKS.register("after_forward"),
)
OPERATORS = {id(backward): "aten::backward"}
_builtins = types.SimpleNamespace(
    _find_builtin=lambda function: OPERATORS.get(id(function)),
    _register_builtin=lambda function, name: OPERATORS.update({id(function): name}),
)
jit = _module("torch.jit", _builtins=_builtins)
distributed = _module("torch.distributed", is_available=lambda: False)
nn = _module("torch.nn", Module=Module, modules=types.SimpleNamespace(module=_of_module))
_of_optimizer = _module(
    "torch.optim.optimizer",
    register_optimizer_step_pre_hook=HOOKS.register("before_step"),
    register_optimizer_step_post_hook=HOOKS.register("after_step"),
)
optim = _module("torch.optim", Optimizer=Optimizer, optimizer=_of_optimizer)
_loaders = _module("torch.utils.data.dataloader", _BaseDataLoaderIter=Loader)
_data = _module("torch.utils.data", dataloader=_loaders)
utils = _module("torch.utils", data=_data)
