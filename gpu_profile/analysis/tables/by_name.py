"""Find tables by name. A table's module is imported when the table is used, which saves start-up
time.

The table `step_sum` is the constant `STEP_SUM` of a file `step_sum.py`. No list names it.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpu_profile.analysis.tables.analysis import Analysis

_ANALYSIS = Path(__file__).resolve().parents[1]


class AnalysisByName(Mapping[str, "Analysis"]):
    """The tables whose files are in these folders of `analysis`, sorted by name.

    `our_tables/*` stands for all folders in it.
    """

    def __init__(self, *folders: str) -> None:
        files = (path for folder in folders for path in _ANALYSIS.glob(f"{folder}/[!_]*.py"))
        self._places = {path.stem: path for path in sorted(files, key=lambda path: path.stem)}

    def __getitem__(self, name: str) -> "Analysis":
        parts = self._places[name].relative_to(_ANALYSIS).with_suffix("").parts
        module = import_module(".".join(("gpu_profile", "analysis", *parts)))
        analysis: Analysis = getattr(module, name.upper())
        return analysis

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    # Mapping's own would import the table.
    def __contains__(self, name: object) -> bool:
        return name in self._places


ANALYSES = AnalysisByName("nsys_tables", "nsys_tables/cuda", "nsys_tables/nvtx")
"""nsys' own tables, by the names that nsys gives them."""
OURS = AnalysisByName("our_tables", "our_tables/*")
"""The tables that nsys does not have."""
