"""Names of modules, without torch: anything with named_children is one."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_profile_marks.names import Names, find_class, short_path, written_class


class Module:
    def __init__(self, **children: "Module") -> None:
        self.children = children

    def named_children(self) -> Iterator[tuple[str, "Module"]]:
        yield from self.children.items()


class Linear(Module): ...


class Net(Module): ...


class OptimizedModule(Module): ...


class FSDPModule: ...


class DistributedDataParallel(Module): ...


HERE = Path(__file__).name


def text_of(names: Names, module: Module) -> str:
    named = names.find(module)
    return named.text if named is not None else ""


def texts(root: Module) -> dict[str, Module]:
    names = Names()
    names.name_tree(root)
    by_text: dict[str, Module] = {}

    def walk(module: Module) -> None:
        by_text.setdefault(text_of(names, module).rpartition("|")[0], module)
        for child in module.children.values():
            walk(child)

    walk(root)
    return by_text


def test_qualified_names() -> None:
    tree = Net(h=Module(**{"0": Linear(), "1": Linear()}))
    assert list(texts(tree)) == ["Net|Net", "h|Module", "h.0|Linear", "h.1|Linear"]


def test_wrappers_have_the_name_of_what_they_wrap() -> None:
    net = Net(head=Linear())
    wrapped = DistributedDataParallel(module=OptimizedModule(_orig_mod=net))
    assert list(texts(wrapped)) == [
        "DistributedDataParallel|DistributedDataParallel",
        "Net|Net",
        "head|Linear",
    ]


def test_a_shared_module_keeps_its_first_name() -> None:
    one = Linear()
    assert list(texts(Net(a=one, b=one))) == ["Net|Net", "a|Linear"]


def names_of(names: Names, root: Module) -> list[str]:
    """The names of a tree, from top to bottom."""
    own = text_of(names, root).partition("|")[0]
    return [own, *(name for child in root.children.values() for name in names_of(names, child))]


def test_models_beside_each_other_have_names_of_their_own() -> None:
    """Those of a GAN, and a copy of one of them."""
    names = Names()
    maker, judge, copy = Net(h=Linear()), Module(h=Linear()), Net(h=Linear())
    for root in (maker, judge, copy):
        names.name_tree(root)
    assert names_of(names, maker) == ["Net", "h"]
    assert names_of(names, judge) == ["Module", "Module.h"]
    assert names_of(names, copy) == ["Net#2", "Net#2.h"]


def test_two_wrapped_models_have_names_of_their_own() -> None:
    names = Names()
    first, second = (DistributedDataParallel(module=Net(h=Linear())) for _ in range(2))
    names.name_tree(first)
    names.name_tree(second)
    assert names_of(names, first) == ["DistributedDataParallel", "Net", "h"]
    assert names_of(names, second) == ["DistributedDataParallel", "Net#2", "Net#2.h"]


def test_a_model_that_holds_named_ones_names_them_anew() -> None:
    """Its parts were called first: encoder(x), then decoder(x), then the whole."""
    names, encoder, decoder = Names(), Net(h=Linear()), Net(h=Linear())
    for root in (encoder, decoder, whole := Module(encoder=encoder, decoder=decoder)):
        names.name_tree(root)
    assert names_of(names, whole) == ["Module", "encoder", "encoder.h", "decoder", "decoder.h"]


def test_a_model_that_ended_leaves_its_names_to_the_next() -> None:
    names = Names()
    names.name_tree(Net(h=Linear()))
    names.name_tree(net := Net(h=Linear()))
    assert names_of(names, net) == ["Net", "h"]


def test_copies_in_each_step_have_few_names() -> None:
    names, models = Names(), [Net(h=Linear()) for _ in range(100)]
    for model in models:
        names.name_tree(model)
    assert len({name for model in models for name in names_of(names, model)}) == 64


def test_the_replicas_of_data_parallel_have_the_names_of_their_model() -> None:
    names, net, replica = Names(), Net(h=Linear()), Net(h=Linear())
    replica._is_replica = True  # type: ignore[attr-defined] # torch sets it
    names.name_tree(net)
    names.name_tree(replica)
    assert names_of(names, replica) == ["Net", "h"]


def test_a_module_that_is_added_later_has_its_name() -> None:
    """The second time a tree is named, its prefix stays."""
    names, first, second = Names(), Net(h=Linear()), Net(h=Linear())
    names.name_tree(first)
    names.name_tree(second)
    del first
    second.children["adapter"] = Linear()
    names.name_tree(second)
    assert names_of(names, second) == ["Net#2", "Net#2.h", "Net#2.adapter"]


def test_an_unknown_module_is_named_by_its_class() -> None:
    names, module = Names(), Linear()
    assert names.find(module) is None
    assert (
        names.name(module).text.startswith(f"Linear|Linear|{HERE}:")
        or HERE in names.name(module).text
    )
    assert names.find(module) is not None


def test_the_line_is_that_of_the_class() -> None:
    line = Path(__file__).read_text().splitlines().index("class Net(Module): ...") + 1
    assert find_class(Net).endswith(f"{HERE}:{line}")
    assert find_class(int) == ""


def test_classes_that_are_derived_at_run_time() -> None:
    assert written_class(type("FSDPLinear", (FSDPModule, Linear), {})) is Linear
    assert written_class(type("ParametrizedLinear", (Linear,), {})) is Linear
    assert written_class(Linear) is Linear


@pytest.mark.parametrize(
    ("module", "file", "expected"),
    [
        ("json.decoder", "/home/someone/lib/json/decoder.py", "json/decoder.py"),
        ("json", "/home/someone/lib/json/__init__.py", "json/__init__.py"),
        ("__main__", "/home/someone/train.py", "train.py"),
        ("train", "/home/someone/train.py", "train.py"),
    ],
)
def test_no_home_directory_is_in_a_path(module: str, file: str, expected: str) -> None:
    import json.decoder

    assert json.decoder.__name__ in sys.modules
    assert short_path(module, file) == expected
