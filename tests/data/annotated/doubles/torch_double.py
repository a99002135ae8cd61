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

    def call(self, name, *arguments):
        if name in self:
            self[name](*arguments)


HOOKS = Hooks()


class Tensor:
    grad_fn = None


class Module:
    def __init__(self):
        self._modules, self._parameters = {}, {}
        self._forward_hooks, self._forward_pre_hooks = {}, {}

    def register_parameter(self, name, parameter):
        self._parameters[name] = parameter
        HOOKS.call("parameter", self, name, parameter)

    def add_module(self, name, module):
        self._modules[name] = module
        HOOKS.call("module", self, name, module)

    def register_forward_pre_hook(self, hook, prepend):
        self._forward_pre_hooks[len(self._forward_pre_hooks)] = hook

    def register_forward_hook(self, hook, always_call):
        self._forward_hooks[len(self._forward_hooks)] = hook

    def parameters(self):
        parts = [each.parameters() for each in self._modules.values()]
        return [*self._parameters.values(), *itertools.chain.from_iterable(parts)]

    def named_children(self):
        return []

    def compile(self):
        self._compiled_call_impl = lambda: "compiled"

    def _wrapped_call_impl(self):
        HOOKS.call("before_forward", self, ())
        for hook in self._forward_pre_hooks.values():
            hook(self, ())
        result = self.forward()
        HOOKS.call("after_forward", self, (), result)
        for hook in self._forward_hooks.values():
            hook(self, (), result)
        return result

    __call__ = _wrapped_call_impl

    def train(self, mode=True):
        for module in self._modules.values():
            module.train(mode)
        return self

    def eval(self):
        return self.train(False)

    def forward(self):
        return Tensor()


class Optimizer:
    param_groups = ()

    def __init__(self, parameters=()):
        if parameters:
            self.param_groups = [{"params": list(parameters)}]

    def step(self):
        HOOKS["before_step"](self, (self,), {})
        HOOKS["after_step"](self, (self,), {})


class GradScaler:
    def step(self, optimizer):
        return "scaled"


class Loader:
    def __next__(self):
        return "batch"


def empty(*_, **__):
    return Tensor()


def backward():
    return "gradients"


def compile(model=None):
    return lambda: "compiled"


TRACER = {"set": lambda tracer: None}
NUMBERS = {"next": itertools.count().__next__}
__path__ = []
compiler = _module("torch.compiler", is_compiling=lambda: False)
CAPTURES = {"now": False}


class CUDAGraph:
    def replay(self):
        return "replayed"


def is_current_stream_capturing():
    if not CAPTURES["now"]:
        raise RuntimeError("no driver")
    return True


cuda = _module(
    "torch.cuda",
    is_initialized=lambda: CAPTURES["now"],
    is_current_stream_capturing=is_current_stream_capturing,
    CUDAGraph=CUDAGraph,
)
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
    register_module_module_registration_hook=HOOKS.register("module"),
    register_module_parameter_registration_hook=HOOKS.register("parameter"),
)
OPERATORS = {id(backward): "aten::backward"}
_builtins = types.SimpleNamespace(
    _find_builtin=lambda function: OPERATORS.get(id(function)),
    _register_builtin=lambda function, name: OPERATORS.update({id(function): name}),
)
_recursive = types.SimpleNamespace(
    get_hook_stubs=lambda module: [*module._forward_pre_hooks.values(), *module._forward_hooks.values()]
)
jit = _module(
    "torch.jit", _builtins=_builtins, _recursive=_recursive, ScriptModule=type("S", (Module,), {})
)
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
