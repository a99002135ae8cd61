"""The results of a run for Python: as DataFrames, Arrow tables, and HTML in a notebook."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gpu_profile.analysis.compare.compare import Comparison
from gpu_profile.analysis.findings.diagnosis import Diagnosis
from gpu_profile.analysis.findings.finding import Finding
from gpu_profile.api.html import describe_html, format_html
from gpu_profile.formats.table_formats import format_texts, to_text
from gpu_profile.table import Table

if TYPE_CHECKING:
    import pandas
    import pyarrow


class RunTable(Table):
    """A table of a run: `title`, `columns` and `rows`."""

    @classmethod
    def of(cls, table: Table) -> "RunTable":
        """Return the same table with these methods."""
        return cls(table.title, table.columns, table.rows, table.hint)

    def __str__(self) -> str:
        """Return the table as `stats` prints it."""
        return to_text(self)

    def to_pandas(self) -> "pandas.DataFrame":
        """Return a DataFrame, its columns as in JSON: "Total Time (ns)".

        Needs the extra `pandas`; raises ImportError without it.
        """
        import pandas

        return pandas.DataFrame(self._to_columns())

    def to_arrow(self) -> "pyarrow.Table":
        """Return an Arrow table, its columns as in JSON: "Total Time (ns)".

        Needs the extra `arrow`; raises ImportError without it.
        """
        import pyarrow

        return pyarrow.table(self._to_columns())

    def _to_columns(self) -> dict[str, list[Any]]:
        names = [str(column) for column in self.columns]
        return {name: [row[index] for row in self.rows] for index, name in enumerate(names)}

    def _repr_html_(self) -> str:
        """Return the table as a notebook shows it, numbers to the right; why it is empty, if so."""
        if not self.rows:
            return describe_html([str(self).rstrip()])
        numbers = [
            any(isinstance(row[index], int | float) for row in self.rows)
            for index in range(len(self.columns))
        ]
        names = [str(column) for column in self.columns]
        return format_html(self.title, names, format_texts(self), numbers)


class RunFindings(Diagnosis):
    """The findings of a run, those of the plan first, in its order. It can be iterated."""

    @classmethod
    def of(cls, diagnosis: Diagnosis) -> "RunFindings":
        """Return the same findings with these methods."""
        return cls(diagnosis.findings, diagnosis.unjudged, diagnosis.overview, diagnosis.plan)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __str__(self) -> str:
        """Return start-up, step time and the findings, as `diagnose` prints them."""
        return "\n".join((*self.overview.to_lines(), *self.to_blocks()))

    def _repr_html_(self) -> str:
        """Return start-up, step time, the findings, and what was not judged."""
        if not self.findings:
            return describe_html((*self.overview.to_lines(), *self.to_blocks()))
        unjudged = [f"Could not judge {text}." for text in self.unjudged]
        lines = describe_html((*self.overview.to_lines(), *unjudged))
        return lines + RunTable.of(self.to_table())._repr_html_()


class RunComparison(Comparison):
    """A comparison of runs: `verdict`, `difference`, `base`, `new` and `kernels`."""

    @classmethod
    def of(cls, comparison: Comparison) -> "RunComparison":
        """Return the same comparison with these methods."""
        return cls(**vars(comparison))

    def _repr_html_(self) -> str:
        """Return the verdict and the kernels that changed."""
        kernels = RunTable.of(self.kernels)._repr_html_() if self.kernels.rows else ""
        return describe_html([str(self)]) + kernels
