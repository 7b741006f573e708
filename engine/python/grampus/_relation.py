"""Relation: a lazy query, with its ways out to Arrow, pandas, polars, numpy and Python."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, overload

from . import _preview
from ._dbapi import Description, described
from ._queries import Queries
from ._result import Result, errors_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas
    import polars
    import pyarrow

    from ._connection import Connection
    from ._grampus import Query, Run


class Relation(Queries):
    """A query that is not executed yet. Each way out executes it, from the files as they are then.

    Any library that takes `__arrow_c_stream__` takes a relation: `pyarrow.table(relation)`,
    `polars.DataFrame(relation)`, `duckdb.sql("SELECT … FROM relation")`. Batches stream; each buffer exists once.
    """

    def __init__(self, connection: Connection, query: Query, alias: str = "relation") -> None:
        super().__init__(connection, query, alias)
        self._run: Run | None = None
        self._result: Result | None = None

    # ---------------------------------------------------------------------------------------- the columns

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._names

    @property
    def types(self) -> list[str]:
        """The Arrow types of the columns."""
        return [data_type for _, data_type in self._query.columns()]

    dtypes = types

    @property
    def description(self) -> list[Description]:
        """The columns as PEP 249 has them: name, type, and five times None."""
        return described(self._query)

    @property
    def schema(self) -> pyarrow.Schema:
        """The columns as a pyarrow schema. Executes nothing."""
        import pyarrow

        return pyarrow.schema(self)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns. Executes a query that counts the rows."""
        return len(self), len(self.columns)

    def __len__(self) -> int:
        """The number of rows. Executes a query that counts them."""
        return int(self.count().fetchall()[0][0])

    def __bool__(self) -> bool:
        return True  # without a query that counts the rows

    # ----------------------------------------------------------------------------------------- the result

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

    fetch_record_batch = to_arrow_reader = reader

    def arrow(self) -> pyarrow.Table:
        """Execute the query; the result as a pyarrow table.

        The metadata of its schema have `grampus.device`, `grampus.reason` and `grampus.io` (JSON) as executed.
        """
        import pyarrow

        run = self._start(repeats_interrupt=False)
        with errors_of(run):
            table = pyarrow.RecordBatchReader.from_stream(run).read_all()
        report = run.report()
        metadata = dict(table.schema.metadata or {})
        metadata[b"grampus.device"] = report["device"].encode()
        if report["reason"]:
            metadata[b"grampus.reason"] = report["reason"].encode()
        metadata[b"grampus.io"] = json.dumps(report["io"]).encode()
        return table.replace_schema_metadata(metadata)

    fetch_arrow_table = to_arrow_table = arrow

    def df(self) -> pandas.DataFrame:
        """Execute the query; the result as a pandas frame. `attrs["grampus"]` has the run, as `last_run`."""
        frame = self.arrow().to_pandas()
        frame.attrs["grampus"] = self.last_run
        return frame

    to_df = fetchdf = df

    @overload
    def pl(self, *, lazy: Literal[False] = False) -> polars.DataFrame: ...
    @overload
    def pl(self, *, lazy: Literal[True]) -> polars.LazyFrame: ...
    def pl(self, *, lazy: bool = False) -> polars.DataFrame | polars.LazyFrame:
        """Execute the query; the result as a polars frame.

        lazy: a lazy frame instead. Each collect executes the query with the columns, the number of rows and, as far
        as SQL has them, the conditions that polars needs.
        """
        if lazy:
            from ._polars import lazy_frame

            return lazy_frame(self)
        import polars

        frame = polars.from_arrow(self.arrow(), rechunk=False)
        assert isinstance(frame, polars.DataFrame)
        return frame

    def fetchnumpy(self) -> dict[str, Any]:
        """Execute the query; a numpy array for each column. A column with NULLs is a masked array."""
        from ._numpy import arrays_of

        return arrays_of(self.arrow())

    def to_dicts(self) -> list[dict[str, Any]]:
        """Execute the query; a dict for each row, as `fetchall` converts values."""
        names = self.columns
        return [dict(zip(names, row)) for row in self.fetchall()]

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Execute the query; the rows as tuples of Python values. Timestamps are cut to microseconds.

        If `fetchone` or `fetchmany` has begun to read a result, the rows that are left of it.
        """
        if self._result is not None:
            result, self._result = self._result, None
            return result.rows(None)
        return _preview.rows_of(self.arrow())

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """The next `size` rows of a result, which the first call executes. The call after its end executes it anew."""
        if self._result is None:
            self._result = self._executed()
        rows = self._result.rows(size)
        if len(rows) < size:
            self._result = None
        return rows

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, as by `fetchmany`; None behind the last one."""
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Execute the query; the rows one by one, as they are computed."""
        result = self._executed()
        while rows := result.rows(1024):
            yield from rows

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

    def show(self, *, max_rows: int = _preview.MAX_ROWS, max_width: int | None = None) -> None:
        """Print the first rows as a table that fits the terminal.

        max_width: columns of text, in place of the terminal's.
        """
        rows, more = self._preview(max_rows)
        print(_preview.text(self.columns, self.types, rows, more, max_columns=max_width))

    def __repr__(self) -> str:
        if self._query.result == "nothing":
            return "<grampus.Relation without columns, of a statement that was executed>"
        rows, more = self._preview(_preview.MAX_ROWS)
        return _preview.text(self.columns, self.types, rows, more)

    def _repr_html_(self) -> str:
        rows, more = self._preview(_preview.MAX_ROWS)
        return _preview.html(self.columns, self.types, rows, more)

    def _preview(self, count: int) -> tuple[list[tuple[Any, ...]], bool]:
        """The first rows, and whether there are more."""
        rows = self.limit(count + 1).fetchall()
        return rows[:count], len(rows) > count

    # -------------------------------------------------------------------------------------------- execution

    def _start(self, *, repeats_interrupt: bool) -> Run:
        self._run = self._query.start(self._connection._new_progress(), repeats_interrupt)
        return self._run

    def _executed(self) -> Result:
        return Result(self._start(repeats_interrupt=False))
