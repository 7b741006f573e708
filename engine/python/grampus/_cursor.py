"""Cursor: statements and their results, as PEP 249 has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._dbapi import Description, described
from ._grampus import ProgrammingError
from ._numpy import arrays_of
from ._result import Result

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pandas
    import polars
    import pyarrow

    from ._connection import Connection


class Cursor:
    """Executes statements, one after the other, and reads the rows of the last one.

    `Connection.cursor` and `Connection.execute` make one. `arrow`, `df`, `pl` and `fetchnumpy` return the rows that
    are left. A cursor belongs to one thread at a time.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._result: Result | None = None
        self._description: list[Description] | None = None
        self._rowcount = -1
        self._is_closed = False
        self.arraysize = 1

    # ----------------------------------------------------------------------------------------- statements

    def execute(self, query: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> Cursor:
        """Execute a statement, and return the cursor. Of several statements, the last one's rows are read.

        params: as in `Connection.sql`.

        Raises Error if a statement is wrong, or its first rows cannot be computed.
        """
        self._check()
        self._forget()
        bound = self._connection._bind(query, params)
        if bound.result == "nothing":
            return self
        self._description = described(bound)
        self._result = Result(bound.start(self._connection._new_progress(), False))
        self._result.prefetch()
        if bound.result == "count":
            self._rowcount = self._result.peeked()
        return self

    def executemany(self, query: str, params: Iterable[Sequence[Any] | Mapping[str, Any]]) -> Cursor:
        """Execute a statement for each set of parameters. `rowcount` counts the rows of all that changed some.

        Each is a statement of its own: a table with many rows is inserted faster from a table of Arrow, pandas or
        polars, `INSERT INTO t SELECT * FROM frame`.
        """
        self._check()
        count = 0
        for one in params:
            self.execute(query, one)
            count += max(0, self._rowcount)
        is_changed = self._rowcount >= 0
        self._forget()
        self._rowcount = count if is_changed else -1
        return self

    # ------------------------------------------------------------------------------------------- the rows

    @property
    def connection(self) -> Connection:
        """The connection that made the cursor."""
        return self._connection

    @property
    def description(self) -> list[Description] | None:
        """Name, type and five times None for each column; None if the last statement has no result."""
        return self._description

    @property
    def rowcount(self) -> int:
        """The number of rows that the last statement changed; -1 of a query."""
        return self._rowcount

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row; None behind the last one."""
        rows = self._rows(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """The next rows, at most `size`, by default `arraysize`."""
        return self._rows(self.arraysize if size is None else size)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """The rows that are left, as tuples of Python values. Timestamps are cut to microseconds."""
        return self._rows(None)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        while (row := self.fetchone()) is not None:
            yield row

    def arrow(self) -> pyarrow.Table:
        """The rows that are left, as a pyarrow table."""
        import pyarrow

        self._check()
        return pyarrow.table({}) if self._result is None else self._result.table()

    fetch_arrow_table = to_arrow_table = arrow

    def df(self) -> pandas.DataFrame:
        """The rows that are left, as a pandas frame."""
        return self.arrow().to_pandas()

    fetchdf = df

    def pl(self) -> polars.DataFrame:
        """The rows that are left, as a polars frame."""
        import polars

        frame = polars.from_arrow(self.arrow(), rechunk=False)
        assert isinstance(frame, polars.DataFrame)
        return frame

    def fetchnumpy(self) -> dict[str, Any]:
        """The rows that are left, as a numpy array for each column. A column with NULLs is a masked array."""
        return arrays_of(self.arrow())

    # --------------------------------------------------------------------------------------------- others

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """PEP 249 has it; it does nothing."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """PEP 249 has it; it does nothing."""

    def close(self) -> None:
        """Stop the query, if it runs. The cursor executes no more statements."""
        self._forget()
        self._is_closed = True

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _rows(self, count: int | None) -> list[tuple[Any, ...]]:
        self._check()
        return [] if self._result is None else self._result.rows(count)

    def _forget(self) -> None:
        if self._result is not None:
            self._result.close()
        self._result, self._description, self._rowcount = None, None, -1

    def _check(self) -> None:
        if self._is_closed:
            raise ProgrammingError("the cursor is closed")
