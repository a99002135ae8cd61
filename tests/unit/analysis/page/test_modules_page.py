"""The page's icicle of the model."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gpu_profile.analysis.multi_report.work import ReportSource
from gpu_profile.analysis.page import write_page
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.by_name import OURS
from tests.generator.gpt import save_training
from tests.unit.analysis.synthetic import ranks_of

LAYERS = 12


def page_of(path: Path) -> str:
    output = path.with_suffix(".html")
    write_page([ReportSource(str(path))], output)
    return output.read_text(encoding="utf-8")


def boxes_of(html: str) -> list[Any]:
    """[path, class, ns, ns backward, kernels] of each box."""
    match = re.search(r'id="icicle-data">(.*?)</script>', html)
    assert match
    boxes: list[Any] = json.loads(match[1])
    return boxes


def test_the_boxes_are_the_modules_with_their_times(tmp_path: Path) -> None:
    path = save_training(tmp_path / "run.sqlite", LAYERS)
    boxes = {box[0]: box for box in boxes_of(page_of(path))}
    with Database.open(path) as database:
        table = OURS["module_sum"].table(database)
    times = {str(row[0]): int(row[4] or 0) for row in table.rows}
    assert boxes["all kernels"][2] == sum(times.values())
    inside = sum(time for name, time in times.items() if name.startswith("transformer.h.3."))
    assert boxes["transformer.h.3"][2] == inside + times.get("transformer.h.3", 0)
    assert boxes["(optimizer AdamW)"][2] == times["(optimizer AdamW)"]
    names = [kernel[0] for kernel in boxes["transformer.h.3.attn"][4]]
    assert set(names) == {
        "flash_fwd_kernel",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64",
    }


def test_layers_are_in_order_and_boxes_nest(tmp_path: Path) -> None:
    html = page_of(save_training(tmp_path / "run.sqlite", LAYERS))
    paths = [box[0] for box in boxes_of(html)]
    layers = [path for path in paths if re.fullmatch(r"transformer\.h\.\d+", path)]
    assert layers == [f"transformer.h.{number}" for number in range(LAYERS)]
    widths = [float(width) for width in re.findall(r"width:([\d.]+)%;top:[^>]*data-box", html)]
    assert len(widths) == len(paths)
    assert widths[0] == 100


@pytest.mark.further
def test_marks_without_gpu_work_have_no_model(tmp_path: Path) -> None:
    """A recording that ended before the first kernel, or whose GPU table was lost."""
    path = save_training(tmp_path / "run.sqlite", LAYERS)
    with closing(sqlite3.connect(path)) as database:
        database.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid > 1")
        database.execute('UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET "end" = start')
        database.commit()
    assert 'id="icicle-data"' not in page_of(path)


def test_a_report_without_marks_has_no_model(tmp_path: Path) -> None:
    (rank,) = ranks_of(1)
    rank.kernel(5)
    assert 'id="model"' not in page_of(rank.recording.save(tmp_path / "run.sqlite"))


def test_a_hostile_name_stays_text(tmp_path: Path) -> None:
    (rank,) = ranks_of(1)
    start = rank.now
    rank.kernel(5, "</script><script>alert(1)</script>")
    rank.mark("forward a</script><b>|<i>|m.py:1", start)
    html = page_of(rank.recording.save(tmp_path / "run.sqlite"))
    assert "<script>alert" not in html
    assert "a</script><b>" in [box[0] for box in boxes_of(html)]


def test_a_second_model_is_one_box_with_its_modules(tmp_path: Path) -> None:
    """Its class stands before the names of its modules, and is in the names of those alone."""
    (rank,) = ranks_of(1)
    for step in range(4):
        began = rank.now
        for model, layer in (("Net|Net", "head|Linear"), ("Judge|Judge", "Judge.head|Linear")):
            start = rank.now
            rank.kernel(100)
            rank.work(0.1)
            inner = rank.now
            rank.kernel(100)
            rank.work(0.1)
            rank.mark(f"forward {layer}|model.py:2", inner)
            rank.mark(f"forward {model}|model.py:1", start)
        rank.mark("optimizer SGD", rank.now)
        rank.work(0.1)
        rank.mark("step", began, step)
    paths = [box[0] for box in boxes_of(page_of(rank.recording.save(tmp_path / "run.sqlite")))]
    assert sorted(paths) == ["Judge", "Judge.head", "Net", "all kernels", "head"]
