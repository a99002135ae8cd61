"""The hooks of a module's nodes, on a small graph instead of torch's."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from gpu_profile_marks import backward, graph, ranges
from gpu_profile_marks.names import Named

OF_PARAMETER = 2**64 - 1


class Node:
    """A node of autograd with a number, and its hooks."""

    def __init__(self, number: int, *used: "Node") -> None:
        self.number = number
        self.next_functions = [(node, 0) for node in used]
        self.hooks: list[Callable[..., None]] = []

    def _sequence_nr(self) -> int:
        return self.number

    def register_prehook(self, hook: Callable[..., None]) -> None:
        self.hooks.append(hook)

    def _register_hook_dict(self, holder: SimpleNamespace) -> None:
        self.hooks += holder._backward_hooks.values()


class Tensor:
    def __init__(self, node: Node | None) -> None:
        self.node = node

    @property
    def grad_fn(self) -> Node | None:
        if self.node is None:
            raise RuntimeError("a view and its base has been modified inplace")
        return self.node


@dataclass
class Output:
    logits: object


@pytest.fixture
def numbers() -> Iterator[SimpleNamespace]:
    """The state of the torch below; the marks are on."""
    ranges.SWITCH.on = True
    yield SimpleNamespace(next=0, compiling=False)
    ranges.SWITCH.on = False
    ranges.RANGES.cut(0)


def make_backward(numbers: SimpleNamespace) -> backward.Backward:
    def queue(end: Callable[[], None]) -> None:
        numbers.end = end

    engine = SimpleNamespace(queue_callback=queue)
    torch = SimpleNamespace(
        _C=SimpleNamespace(
            _autograd=SimpleNamespace(_get_sequence_nr=lambda: numbers.next),
            _current_graph_task_id=lambda: 0,
        ),
        compiler=SimpleNamespace(is_compiling=lambda: numbers.compiling),
        Tensor=Tensor,
        empty=lambda *_, **__: SimpleNamespace(),
        distributed=SimpleNamespace(is_available=lambda: False),
        autograd=SimpleNamespace(Variable=SimpleNamespace(_execution_engine=engine)),
    )
    return backward.Backward(torch)


class Module:
    """A leaf with one parameter, and its marks."""

    def __init__(self, numbers: SimpleNamespace) -> None:
        self._modules: dict[str, object] = {}
        self.weight = SimpleNamespace(grad=None)
        self._parameters = {"weight": self.weight, "bias": None}
        self.numbers, self.marks = numbers, make_backward(numbers)
        self.named = Named(self, "h|H|h.py:1")

    def run(self, output: Any, end: int, *arguments: object) -> None:
        """A forward that makes the nodes up to `end`, and returns `output`, and its backward."""
        self.marks.begin(self)
        self.marks.enter(self.named)
        self.numbers.next = end
        self.marks.leave(self, arguments, output)
        self.marks.forget()
        self.marks._waiting = 0


def run_forward(numbers: SimpleNamespace, output: Any, end: int) -> None:
    Module(numbers).run(output, end)


@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: [x], lambda x: {"a": (x,)}, Output])
def test_the_first_node_of_a_module_has_a_hook(
    numbers: SimpleNamespace, wrap: Callable[[Tensor], object]
) -> None:
    """Whatever the module returns: a tensor, a list, a mapping, an object of a dataclass."""
    first = Node(0)
    last = Node(1, first)
    run_forward(numbers, wrap(Tensor(last)), 2)
    assert (len(first.hooks), len(last.hooks)) == (0, 1)
    last.hooks[0](None)
    assert ranges.RANGES.open[-1][1].message == "backward h|H|h.py:1"


def test_a_hook_that_torch_compile_traces_does_nothing(numbers: SimpleNamespace) -> None:
    """What it calls could not be traced: it would break the graph of the backward pass."""
    last = Node(0)
    run_forward(numbers, Tensor(last), 1)
    numbers.compiling = True
    last.hooks[0](None)
    assert ranges.RANGES.open == []


def test_a_view_without_a_node_leaves_the_other_outputs_their_hooks(
    numbers: SimpleNamespace,
) -> None:
    """torch refuses the node of one of several views after a change in place."""
    last = Node(0)
    run_forward(numbers, (Tensor(None), Tensor(last)), 2)
    assert len(last.hooks) == 1


@pytest.mark.parametrize("end", [1, 2], ids=["one node", "more"])
def test_a_node_with_the_number_of_a_parameter_s_has_no_parameter(
    numbers: SimpleNamespace, end: int
) -> None:
    """torch's Error, after what is differentiable once only."""
    last = Node(0, Node(OF_PARAMETER))
    run_forward(numbers, Tensor(last), end)
    assert len(last.hooks) == 1


@dataclass
class Step:
    """The nodes of a leaf in one step: it has an input, and uses its parameter."""

    before: Node
    gradient: Node
    last: Node


def run_step(module: Module, nodes: int = 2) -> Step:
    start = module.numbers.next + 1
    gradient = Node(OF_PARAMETER)
    gradient.variable, gradient.metadata = module.weight, {}  # type: ignore[attr-defined]
    gradient.register_hook = gradient.hooks.append  # type: ignore[attr-defined]
    before = Node(start - 1)
    module.numbers.next = start
    last = Node(start + nodes - 1, before, Node(start, gradient))
    module.run(Tensor(last), start + nodes, Tensor(before))
    return Step(before, gradient, last)


def test_a_simple_module_is_searched_once(
    numbers: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it makes another number of nodes, as with a cast that autocast has kept."""
    module, searches = Module(numbers), []

    def find_nodes(*words: Any) -> Any:
        searches.append(words)
        return graph.find_nodes(*words)

    monkeypatch.setattr(backward, "find_nodes", find_nodes)
    steps = [run_step(module) for _ in range(3)]
    assert [len(step.last.hooks) for step in steps] == [1, 1, 1]
    assert (module.named.offsets, len(searches)) == ({1}, 1)
    run_step(module, nodes=3)
    assert len(searches) == 2


def test_a_gradient_that_is_added_to_another_has_hooks(numbers: SimpleNamespace) -> None:
    module = Module(numbers)
    first = run_step(module)
    module.weight.grad = 1
    second = run_step(module)
    assert (len(first.gradient.hooks), len(second.gradient.hooks)) == (0, 2)


def test_a_module_that_uses_more_than_its_arguments_is_not_simple(
    numbers: SimpleNamespace,
) -> None:
    module = Module(numbers)
    numbers.next = 1
    module.run(Tensor(Node(1, Node(0))), 2)
    assert not module.named.offsets


@pytest.mark.parametrize("lists_inputs", [True, False])
def test_a_search_finds_what_modules_inside_use(lists_inputs: bool) -> None:
    """By their spans, or by a walk through their nodes where nobody was expected to ask."""
    other, gradient = Node(0), Node(OF_PARAMETER)
    own = Node(1, other)
    inside = Node(3, Node(2, own, gradient), other)
    last = Node(4, inside)
    spans = [graph.Span(2, 4, [own, other] if lists_inputs else None)]
    part = graph.find_nodes(Tensor(last), Tensor, 1, 5, spans)
    assert [{node.number for node in nodes} for nodes in part] == [{1, 4}, {0}, set()]


def test_a_module_found_by_its_output_asks_nothing_of_those_inside(
    numbers: SimpleNamespace,
) -> None:
    """Their inputs are listed as long as it is not found so."""
    outer, leaf = Module(numbers), SimpleNamespace(_parameters={})
    named = Named(Module(numbers), "h.leaf|L|h.py:2")
    named.module = lambda: leaf  # type: ignore[assignment]
    listed = []
    for _ in range(3):
        start = numbers.next + 1
        before, inside = Node(start - 1), Node(start)
        inside.next_functions = [(before, 0)]
        outer.marks.begin(outer)
        numbers.next = start
        outer.marks.enter(outer.named)
        outer.marks.enter(named)
        numbers.next = start + 1
        outer.marks.leave(leaf, (Tensor(before),), Tensor(inside))
        listed.append(outer.marks._thread.spans[0].inputs == [before])
        numbers.next = start + 2
        last = Node(start + 1, inside)
        outer.marks.leave(outer, (Tensor(before),), Tensor(last))
        assert (len(inside.hooks), len(last.hooks)) == (1, 1)
        outer.marks.forget()
        outer.marks._waiting = 0
    assert listed == [True, True, False]
