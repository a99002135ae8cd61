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


def texts(root: Module) -> dict[str, Module]:
    names = Names()
    names.name_tree(root)
    found: dict[str, Module] = {}

    def walk(module: Module) -> None:
        found.setdefault((names.text(module) or "").rpartition("|")[0], module)
        for child in module.children.values():
            walk(child)

    walk(root)
    return found


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


def test_an_unknown_module_is_named_by_its_class() -> None:
    names, module = Names(), Linear()
    assert names.text(module) is None
    assert names.name(module).startswith(f"Linear|Linear|{HERE}:") or HERE in names.name(module)
    assert names.text(module) is not None


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
