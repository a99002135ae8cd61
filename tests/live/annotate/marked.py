"""What the live tests of --annotate share: a small training, and its ranges in a report."""

import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

DATA = Path(__file__).parents[2] / "data" / "annotated"
TRAINING = """
import torch

class Layer(torch.nn.Module):
    def forward(self, *_):
        return torch.Tensor()

class Net(torch.nn.Module):
    def named_children(self):
        return [("layer", self.layer)]
    def forward(self, *_):
        return self.layer()

model = Net()
model.layer = Layer()
optimizer = torch.optim.Optimizer()
for step in range(6):
    model()
    torch.autograd.backward()
    optimizer.step()
"""
"""A training of six steps on the torch of `make_source`."""
MODULES = (("Net", "Net"), ("layer", "Layer"))


def make_source(folder: Path) -> Path:
    """A folder with the training and a torch that only has what the marks use.

    For machines whose torch is older than 2.3, the first that the marks work with.
    """
    (folder / "torch").mkdir(parents=True)
    shutil.copy(DATA / "doubles" / "torch_double.py", folder / "torch" / "__init__.py")
    (folder / "training.py").write_text(TRAINING)
    return folder


def list_ranges(run: Path) -> dict[str, Counter[str]]:
    """The ranges of our domain in each report of a run, by the report's name: calls by text."""
    query = (
        "SELECT coalesce(event.text, string.value) FROM NVTX_EVENTS event LEFT JOIN StringIds "
        "string ON string.id = event.textId WHERE event.eventType = 59 AND event.domainId > 0"
    )
    ranges = {}
    for report in sorted(run.glob("*.nsys-rep")):
        with closing(sqlite3.connect(report.with_suffix(".sqlite"))) as database:
            ranges[report.name] = Counter(str(text) for (text,) in database.execute(query))
    return ranges


def assert_marked(run: Path, steps: int, ranks: int = 1) -> None:
    """Each report has these steps of the training, and its modules with their lines."""
    place = {"Net": "training.py:8", "Layer": "training.py:4"}
    marks = ("step", "forward", "backward", "optimizer Optimizer")
    modules = (f"forward {name}|{kind}|{place[kind]}" for name, kind in MODULES)
    expected = Counter(dict.fromkeys((*marks, *modules), steps))
    ranges = list_ranges(run)
    assert len(ranges) == ranks
    for name, calls in ranges.items():
        calls.pop("capture", None)
        assert calls == expected, name
