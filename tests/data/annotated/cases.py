#!/usr/bin/env python3
"""Run small training programs with or without marks: cases.py MARKS LEVEL CASE...

MARKS is the folder of gpu_profile_marks, LEVEL none, steps or modules. Prints one JSON line a case:
{"case", "losses": [hex of each], "counters": torch.compile's, "marks": [[depth, name, number],
...], "nodes": [[what a node of autograd belongs to, the range that is open when it runs], ...],
"operators": {name: calls}}.
"""

import ctypes
import dataclasses
import gc
import json
import sys
import tempfile
import threading
import warnings

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

warnings.filterwarnings("error", message="Using `torch.compile")  # what our hooks would cause
MARKS, LEVEL = sys.argv[1:3]
STEPS = 3


class Log:
    """Stands for NVTX: keeps the ranges of each thread."""

    def __init__(self):
        self.names = {}
        self.lines = []
        self.stacks = {}

    def make(self, message):
        from gpu_profile_marks.nvtx import Attributes

        attributes = Attributes()
        self.names[ctypes.addressof(attributes)] = (message, attributes)
        return attributes

    def push(self, address):
        message, attributes = self.names[address]
        thread = threading.get_ident()
        stack = self.stacks.setdefault(thread, [])
        number = attributes.payload if attributes.payload_type else None
        self.lines.append([len(stack), message, number])
        stack.append(message)

    def pop(self):
        self.stacks[threading.get_ident()].pop()

    def open(self):
        stack = self.stacks.get(threading.get_ident())
        return stack[-1].partition("|")[0] if stack else ""


LOG = Log()
NODES = []
OPERATORS = {}
if LEVEL != "none":
    sys.path.insert(0, MARKS)
    from gpu_profile_marks import install, ranges

    assert install.install(torch, {"GPU_PROFILE_ANNOTATE": LEVEL}, LOG)


class Block(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self, blocks=2, width=8):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Breaking(Net):
    def forward(self, x):
        x = self.blocks[0](x)
        torch._dynamo.graph_break()
        return self.head(self.blocks[1](x))


def batches(count=STEPS):
    generator = torch.Generator().manual_seed(5)
    for _ in range(count):
        yield torch.randn(6, 8, generator=generator)


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def train(model, call=None, optimizer=None):
    losses = []
    optimizer = optimizer or sgd(model)
    for x in batches():
        loss = (model if call is None else call)(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return losses


def plain():
    return train(Net())


def adam():
    model = Net()
    return train(model, optimizer=torch.optim.AdamW(model.parameters()))


def compiled():
    model = Net()
    return train(model, torch.compile(model, backend="aot_eager"))


def compiled_in_place():
    model = Net()
    model.compile(backend="aot_eager")
    return train(model)


def compiled_blocks():
    model = Net()
    for block in model.blocks:
        block.compile(backend="aot_eager", fullgraph=True)
    return train(model)


def compiled_children():
    model = Net()
    for name, block in model.blocks.named_children():
        model.blocks.register_module(
            name, torch.compile(block, backend="aot_eager", fullgraph=True)
        )
    return train(model)


def compiled_break():
    model = Breaking()
    return train(model, torch.compile(model, backend="aot_eager"))


def compiled_shapes():
    """Recompilation for another shape."""
    model = Net()
    call = torch.compile(model, backend="aot_eager")
    optimizer, losses = sgd(model), []
    for rows in (6, 6, 7, 9):
        loss = call(torch.ones(rows, 8)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def compiled_step():
    """The whole step is compiled: backward breaks the graph."""
    model = Net()
    optimizer = sgd(model)

    @torch.compile(backend="aot_eager")
    def step(x):
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return [step(x) for x in batches()]


def compiled_optimizer():
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    @torch.compile(backend="aot_eager")
    def update():
        optimizer.step()

    losses = []
    for x in batches():
        loss = model(x).square().mean()
        loss.backward()
        update()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return losses


def compiled_method():
    """The optimizer's own step is compiled, and its schedule wraps it."""
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    optimizer.step = torch.compile(optimizer.step, backend="aot_eager")
    losses = train(model, optimizer=optimizer)
    schedule.step()
    return losses


def _two_groups(model):
    groups = [{"params": model.blocks.parameters()}, {"params": model.head.parameters(), "lr": 0.1}]
    return torch.optim.AdamW(groups, lr=0.01)


def groups():
    """Two groups of parameters, and a step that fails between them once."""
    model = Net()
    optimizer = _two_groups(model)
    losses = train(model, optimizer=optimizer)
    optimizer.param_groups[1]["params"], kept = None, optimizer.param_groups[1]["params"]
    try:
        optimizer.step()
    except TypeError:
        pass
    optimizer.param_groups[1]["params"] = kept
    return losses + train(model, optimizer=optimizer)


def compiled_groups():
    """torch.compile leaves the frame of `step` and compiles what is inside."""
    model = Net()
    optimizer = _two_groups(model)

    @torch.compile(backend="aot_eager")
    def update():
        torch._dynamo.graph_break()
        optimizer.step()

    losses = []
    for x in batches():
        loss = model(x).square().mean()
        loss.backward()
        update()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return losses


class Checkpointed(Net):
    reentrant = False

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=self.reentrant)
        return self.head(x)


def checkpointed():
    return train(Checkpointed())


def checkpointed_reentrant():
    model = Checkpointed()
    model.reentrant = True
    return train(model, lambda x: model(x.requires_grad_()))


def compiled_checkpoint():
    model = Checkpointed()
    return train(model, torch.compile(model, backend="aot_eager"))


def _group():
    import torch.distributed as dist

    if not dist.is_initialized():
        store = dist.FileStore(tempfile.mkdtemp() + "/store", 1)
        dist.init_process_group("gloo", store=store, rank=0, world_size=1)


def ddp():
    _group()
    return train(nn.parallel.DistributedDataParallel(Net()))


def ddp_static():
    _group()
    model = Checkpointed()
    return train(nn.parallel.DistributedDataParallel(model, static_graph=True))


def fsdp2():
    from torch.distributed.device_mesh import init_device_mesh

    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        from torch.distributed._composable.fsdp import fully_shard
    _group()
    mesh = init_device_mesh("cpu", (1,))
    model = Net()
    for block in model.blocks:
        block.compile(backend="aot_eager")
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return train(model)


def accumulation():
    model, losses = Net(), []
    optimizer = sgd(model)
    for number, x in enumerate(batches(8)):
        loss = model(x).square().mean()
        loss.backward()
        if number % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.detach())
    return losses


def gan():
    """Two optimizers take turns: an iteration is one step."""
    maker, judge, losses = Net(), Net(), []
    of_judge, of_maker = sgd(judge), sgd(maker)
    for x in batches(4):
        fake = nn.functional.pad(maker(x), (0, 4))
        loss = judge(x).mean() - judge(fake.detach()).mean()
        loss.backward()
        of_judge.step()
        of_maker.zero_grad()
        loss = loss.detach() + judge(fake).square().mean()
        loss.backward()
        of_maker.step()
        of_judge.zero_grad()
        losses.append(loss.detach())
    return losses


def two_at_once():
    model, losses = Net(), []
    first = sgd(model.blocks)
    second = torch.optim.Adam(model.head.parameters())
    for x in batches():
        loss = model(x).square().mean()
        loss.backward()
        first.step()
        second.step()
        model.zero_grad()
        losses.append(loss.detach())
    return losses


def new_optimizer():
    """A second phase with an optimizer of its own."""
    model = Net()
    return train(model) + train(model, optimizer=torch.optim.Adam(model.parameters()))


def closure():
    model, losses = Net(), []
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)
    for x in batches():

        def again(x=x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss

        losses.append(optimizer.step(again).detach())
    return losses


def scaler():
    """GradScaler skips a step whose gradients are infinite."""
    model, losses = Net(), []
    optimizer, scale = sgd(model), torch.amp.GradScaler("cpu", init_scale=2.0)
    for number, x in enumerate(batches(4)):
        loss = model(x).square().mean()
        scale.scale(loss * (float("inf") if number == 1 else 1.0)).backward()
        scale.step(optimizer)
        scale.update()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return losses


class Recursive(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x, again=2):
        x = torch.tanh(self.layer(x))
        return self(x, again - 1) if again else x


def recursive():
    return train(Recursive())


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(8, 8)
        self.two = self.one

    def forward(self, x):
        return self.two(torch.relu(self.one(x)))


def shared():
    return train(Shared())


class Raising(Net):
    def forward(self, x):
        try:
            self.head(x[:, :3])
        except RuntimeError:
            pass
        return super().forward(x)


def raising():
    """An inner forward raises and is caught; then the outermost one raises."""
    model = Raising()
    losses = train(model)
    try:
        model(torch.zeros(2, 3))
    except RuntimeError:
        pass
    return losses + train(model)


class Lazy(Net):
    def forward(self, x):
        return self.parts(x)

    def parts(self, x):
        for block in self.blocks:
            x = block(x)
            yield x
        yield self.head(x)


def generators():
    model = Lazy()
    return train(model, lambda x: sum(part.mean() for part in model(x)))


def threads():
    """Two threads run forwards of their own while one trains."""
    model, other = Net(), Net()
    stop = threading.Event()

    def run():
        while not stop.is_set():
            other(torch.ones(2, 8))

    runners = [threading.Thread(target=run) for _ in range(2)]
    for each in runners:
        each.start()
    losses = train(model)
    stop.set()
    for each in runners:
        each.join()
    return losses


class Items(torch.utils.data.Dataset):
    """A transform that is a module runs while data is loaded."""

    def __init__(self):
        self.transform = nn.Identity()

    def __len__(self):
        return 18

    def __getitem__(self, index):
        return self.transform(torch.full((8,), index / 10))


def loaded(workers=0):
    model, losses = Net(), []
    optimizer = sgd(model)
    for x in torch.utils.data.DataLoader(Items(), batch_size=6, num_workers=workers):
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def workers():
    return loaded(2)


def evaluated():
    """Evaluation after each step, without gradients."""
    model, losses = Net(), []
    optimizer = sgd(model)
    for x in batches():
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            losses.append(model(x).mean())
        model.train()
    return losses


def double():
    """A gradient of gradients."""
    model, losses = Net(), []
    optimizer = sgd(model)
    for x in batches():
        x.requires_grad_()
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        loss = slope.square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return losses


def traced():
    model = Net()
    return train(model, torch.jit.trace(model, torch.zeros(6, 8)))


def functional():
    from torch.func import functional_call, grad, vmap

    model = Net()
    weights = {name: value.detach() for name, value in model.named_parameters()}

    def loss(values, x):
        return functional_call(model, values, (x,)).square().mean()

    gradients = [vmap(grad(loss), in_dims=(None, 0))(weights, x) for x in batches()]
    return [sum(each.sum() for each in values.values()) for values in gradients]


class Truth:
    """Whose each node of the backward pass is: of the leaf whose forward made it, or, where it
    accumulates a gradient, of the leaf that has the parameter."""

    def __init__(self, model):
        self.spans, self.owners = [], {}
        number = torch._C._autograd._get_sequence_nr
        for name, leaf in model.named_modules():
            if not list(leaf.children()):
                leaf.register_forward_pre_hook(lambda *_: self.spans.append([number()]))
                leaf.register_forward_hook(lambda *_, name=name: self.spans[-1].extend((number(), name)))
                self.owners.update((id(each), name) for each in leaf.parameters())

    def watch(self, loss):
        todo, seen = [loss.grad_fn], set()
        while todo:
            node = todo.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            owner = self.owner(node)
            if owner:
                node.register_prehook(lambda _, owner=owner: NODES.append([owner, LOG.open()]))
            todo += [each for each, _ in node.next_functions]

    def owner(self, node):
        if node.name().endswith("AccumulateGrad"):
            return f"accumulate {self.owners[id(node.variable)]}"
        number = node._sequence_nr()
        return next((f"backward {name}" for start, end, name in self.spans if start <= number < end), "")


def _microbatches(model, call):
    """Forwards of four microbatches under one autocast, which casts a parameter once for all."""
    truth, optimizer, losses = Truth(model), sgd(model), []
    for x in batches():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            parts = [call(part).float().square().mean() for part in x.chunk(3)]
        for part in parts:
            truth.watch(part)
            part.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(sum(part.detach() for part in parts))
    return losses


def microbatches():
    model = Net()
    return _microbatches(model, model)


def accumulated_ddp():
    """DDP keeps each AccumulateGrad for all steps, and reduces a bucket after the last of it."""
    _group()
    model = Net()
    return _microbatches(model, nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.0001))


@dataclasses.dataclass
class Output:
    logits: torch.Tensor


class Described(nn.Module):
    """Its output is an object with a tensor, and its last nodes are its own."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return Output(torch.tanh(self.linear(x)))


def dataclass_output():
    model, head, losses = Described(), nn.Linear(8, 4), []
    optimizer = sgd(nn.ModuleList([model, head]))
    for x in batches():
        output = model(x)
        name = output.logits.grad_fn.name()
        output.logits.grad_fn.register_prehook(lambda _, name=name: NODES.append([name, LOG.open()]))
        loss = head(output.logits).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return losses


class Views(nn.Module):
    """Returns views that nobody may differentiate, for the tensor under them is changed."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        y = self.linear(x) * 1
        views = y.unbind(0)
        y.add_(1)
        return y, views


def changed_views():
    model = Views()
    return train(model, lambda x: model(x)[0])


def compiled_backward():
    """torch.compile traces the backward pass, with all hooks of its nodes."""
    from torch._dynamo import compiled_autograd

    model = Net()
    optimizer, losses = sgd(model), []
    loss = model(next(batches())).square().mean()
    with compiled_autograd._enable(torch.compile(backend="aot_eager")):
        loss.backward()
    optimizer.step()
    return [loss.detach(), model(next(batches())).mean()]


def interrupted():
    """A forward ends in a KeyboardInterrupt, and the program goes on."""
    model = Net()
    optimizer = sgd(model)
    losses = train(model, optimizer=optimizer)
    model.head.forward, forward = _interrupt, model.head.forward
    try:
        model(torch.zeros(2, 8))
    except KeyboardInterrupt:
        model.head.forward = forward
    return losses + train(model, optimizer=optimizer)


def _interrupt(_x):
    raise KeyboardInterrupt


def grown():
    """The model gets a module more while it is trained."""
    model = Net()
    losses = train(model)
    model.head = nn.Sequential(model.head, nn.Linear(4, 4))
    return losses + train(model)


def scripted_backward():
    """torch.jit.script knows torch.autograd.backward as an operator."""

    @torch.jit.script
    def differentiate(x: torch.Tensor):
        y = x.square().sum()
        torch.autograd.backward([y])
        return y

    x = torch.ones(3, requires_grad=True)
    return [differentiate(x).detach(), x.grad.sum()]


def operators():
    """What the backward pass calls: a copy more would be seen."""
    model = Net()
    loss = model(next(batches())).square().mean()
    with torch.profiler.profile() as profiler:
        loss.backward()
    for event in profiler.events():
        OPERATORS[event.name] = OPERATORS.get(event.name, 0) + 1
    return [loss.detach(), *(each.grad.sum() for each in model.parameters())]


def broken():
    """An exception in our own code ends the marks, with one line, and not the program."""
    if LEVEL != "none":
        LOG.push = None
    return train(Net())


def fresh():
    """Forget the steps of the case before, and its optimizers."""
    gc.collect()
    for facts in (LOG.lines, NODES, OPERATORS):
        facts.clear()
    if LEVEL != "none":
        from gpu_profile_marks import modules, steps

        ranges.RANGES.cut(0)
        modules._marks._starts.__self__.steps = steps.Steps()


def deterministic(case):
    torch.manual_seed(3)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    fresh()
    try:
        losses = globals()[case]()
    except Exception as error:
        print(json.dumps({"case": case, "error": f"{type(error).__name__}: {error}"[:2000]}), flush=True)
        return
    counters = {
        group: dict(values)
        for group, values in torch._dynamo.utils.counters.items()
        if group in ("graph_break", "stats", "recompiles")
    }
    print(
        json.dumps(
            {
                "case": case,
                "losses": [float(loss).hex() for loss in losses],
                "counters": counters,
                "marks": LOG.lines,
                "nodes": NODES,
                "operators": OPERATORS,
                "on": LEVEL != "none" and ranges.SWITCH.on,
            }
        ),
        flush=True,
    )


if __name__ == "__main__":
    import torch._dynamo.utils

    torch.use_deterministic_algorithms(True)
    gc.freeze()  # each collection would look at all modules of torch: 0.2 s a case
    for case in sys.argv[3:]:
        deterministic(case)
