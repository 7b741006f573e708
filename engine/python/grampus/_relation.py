"""Relation: a lazy query, with its ways out to Arrow, pandas, polars and Python."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

from . import _preview

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas
    import polars
    import pyarrow

    from ._connection import Connection
    from ._grampus import Query, Run


class Relation:
    """A query that is not executed yet. Each way out executes it, from the files as they are then.

    Any library that takes `__arrow_c_stream__` takes a relation: `pyarrow.table(relation)`,
    `polars.DataFrame(relation)`, `duckdb.sql("SELECT … FROM relation")`. Batches stream; each buffer exists once.
    """

    def __init__(self, connection: Connection, query: Query) -> None:
        self._connection = connection
        self._query = query
        self._run: Run | None = None

    # -------------------------------------------------------------------------------------- more queries

    def filter(self, condition: str) -> Relation:
        """The rows for which a SQL condition is true.

        Raises Error if the condition is no SQL, or names a column that is not there.
        """
        return Relation(self._connection, self._query.filter(condition))

    def select(self, *expressions: str) -> Relation:
        """SQL expressions as columns: `relation.select("a", "b + 1 AS c")`."""
        return Relation(self._connection, self._query.select(list(expressions)))

    def limit(self, rows: int, offset: int = 0) -> Relation:
        """At most `rows` rows, after `offset` rows. Without ORDER BY, any of them."""
        return Relation(self._connection, self._query.limit(rows, offset))

    # ----------------------------------------------------------------------------------------- the result

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [name for name, _ in self._query.columns()]

    @property
    def types(self) -> list[str]:
        """The Arrow types of the columns."""
        return [data_type for _, data_type in self._query.columns()]

    @property
    def schema(self) -> pyarrow.Schema:
        """The columns as a pyarrow schema. Executes nothing."""
        import pyarrow

        return pyarrow.schema(self)

    def __arrow_c_schema__(self) -> object:
        """The schema as a capsule of Arrow's C data interface."""
        return self._query.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Execute the query; the batches as a capsule of Arrow's C stream interface.

        The schema's metadata have `grampus.device` and `grampus.reason` as planned; `last_run` has them as executed.
        """
        return self._start(repeats_interrupt=True).__arrow_c_stream__(requested_schema)

    def __datafusion_table_provider__(self, session: object | None = None) -> object:
        """The relation as a table of the package `datafusion`: `SessionContext.register_table(name, relation)`.

        Each query of that session executes the relation here, with the columns, conditions and limit that it needs.
        Raises Error if the installed package has another major version than `datafusion_version`.
        """
        return self._query.__datafusion_table_provider__(session)

    def reader(self) -> pyarrow.RecordBatchReader:
        """Execute the query; the batches one by one, as they are computed."""
        import pyarrow

        return pyarrow.RecordBatchReader.from_stream(self)

    def arrow(self) -> pyarrow.Table:
        """Execute the query; the result as a pyarrow table.

        The metadata of its schema have `grampus.device`, `grampus.reason` and `grampus.io` (JSON) as executed.
        """
        import pyarrow

        run = self._start(repeats_interrupt=False)
        with self._errors_of(run):
            table = pyarrow.RecordBatchReader.from_stream(run).read_all()
        report = run.report()
        metadata = dict(table.schema.metadata or {})
        metadata[b"grampus.device"] = report["device"].encode()
        if report["reason"]:
            metadata[b"grampus.reason"] = report["reason"].encode()
        metadata[b"grampus.io"] = json.dumps(report["io"]).encode()
        return table.replace_schema_metadata(metadata)

    def df(self) -> pandas.DataFrame:
        """Execute the query; the result as a pandas frame. `attrs["grampus"]` has the run, as `last_run`."""
        frame = self.arrow().to_pandas()
        frame.attrs["grampus"] = self.last_run
        return frame

    def pl(self, *, lazy: bool = False) -> polars.DataFrame | polars.LazyFrame:
        """Execute the query; the result as a polars frame.

        lazy: a lazy frame instead. Each collect executes the query with the columns, the number of rows and, as far
        as SQL has them, the conditions that polars needs.
        """
        if lazy:
            from ._polars import lazy_frame

            return lazy_frame(self)
        import polars

        return polars.from_arrow(self.arrow(), rechunk=False)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Execute the query; the rows as tuples of Python values. Timestamps are cut to microseconds."""
        return _preview.rows_of(self.arrow())

    def fetchone(self) -> tuple[Any, ...] | None:
        """Execute the query for one row; None if there is none."""
        rows = self.limit(1).fetchall()
        return rows[0] if rows else None

    # ------------------------------------------------------------------------------------- about the query

    @property
    def last_run(self) -> dict[str, Any] | None:
        """The last execution, as it is now; None before the first.

        `stage` ("running", "done", "stopped" by the consumer, or "failed"), `rows`, `seconds`, `device` ("cpu" or
        "gpu"), `reason` (why the GPU does not aggregate an ORC scan, or why it gave up; None: planning had no reason
        to give), and `io`: `needed_bytes`, `moved_bytes`, `amplification`, `read_requests`, `row_groups_total`,
        `row_groups_skipped`, `stripes_skipped`, `rows_scanned`, `rows_passed`.
        """
        return None if self._run is None else self._run.report()

    def explain(self, *, analyze: bool = False, verbose: bool = False) -> str:
        """The plans as text. With `analyze` the query is executed, and the plan has its metrics."""
        plans = Relation(self._connection, self._query.explain(verbose, analyze)).fetchall()
        return "\n".join(f"{kind}\n{plan}" for kind, plan in plans)

    def __repr__(self) -> str:
        rows, more = self._preview()
        return _preview.text(self.columns, self.types, rows, more)

    def _repr_html_(self) -> str:
        rows, more = self._preview()
        return _preview.html(self.columns, self.types, rows, more)

    def _preview(self) -> tuple[list[tuple[Any, ...]], bool]:
        """The first rows, and whether there are more."""
        rows = self.limit(_preview.MAX_ROWS + 1).fetchall()
        return rows[: _preview.MAX_ROWS], len(rows) > _preview.MAX_ROWS

    # -------------------------------------------------------------------------------------------- execution

    def _start(self, *, repeats_interrupt: bool) -> Run:
        self._run = self._query.start(self._connection._new_progress(), repeats_interrupt)
        return self._run

    @contextlib.contextmanager
    def _errors_of(self, run: Run) -> Iterator[None]:
        """Raise the run's own exception in place of the one that a consumer of its stream makes of it."""
        try:
            yield
        except Exception as failure:
            try:
                run.raise_pending()
            except BaseException as pending:
                raise pending from None
            raise failure
