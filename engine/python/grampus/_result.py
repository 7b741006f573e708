"""Result: an execution of a query, read as rows of Python from its beginning to its end."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

from . import _preview

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow

    from ._grampus import Run


class Result:
    """The rows of a run. Batches are fetched when their rows are asked for.

    Threads that read one result in spite of PEP 249 share its rows: no row is read twice.
    """

    def __init__(self, run: Run) -> None:
        import pyarrow

        self._run = run
        self._reader = pyarrow.RecordBatchReader.from_stream(run)
        self._batch: pyarrow.RecordBatch | None = None
        self._is_done = False
        self._lock = threading.RLock()

    def prefetch(self) -> None:
        """Wait for the first rows: most errors of a query are known then."""
        with self._lock:
            if self._batch is None:
                self._batch = self._next()

    def rows(self, count: int | None) -> list[tuple[Any, ...]]:
        """The next `count` rows, or all that are left."""
        with self._lock:
            return self._taken(count)

    def _taken(self, count: int | None) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        while count is None or len(rows) < count:
            batch = self._batch or self._next()
            if batch is None:
                break
            wanted = batch.num_rows if count is None else min(batch.num_rows, count - len(rows))
            rows += _preview.rows_of(batch.slice(0, wanted))
            self._batch = batch.slice(wanted) if wanted < batch.num_rows else None
        return rows

    def peeked(self) -> int:
        """The first value, which stays to be read: the number of rows that a statement changed."""
        self.prefetch()
        return -1 if self._batch is None else int(self._batch.column(0)[0].as_py())

    def table(self) -> pyarrow.Table:
        """The rows that are left, as a table."""
        import pyarrow

        with self._lock:
            batches = [] if self._batch is None else [self._batch]
            self._batch = None
            while (batch := self._next()) is not None:
                batches.append(batch)
        return pyarrow.Table.from_batches(batches, self._reader.schema)

    def close(self) -> None:
        """Stop the query, if it runs."""
        self._batch, self._is_done = None, True
        self._reader.close()

    def _next(self) -> pyarrow.RecordBatch | None:
        while not self._is_done:
            with errors_of(self._run):
                try:
                    batch = self._reader.read_next_batch()
                except StopIteration:
                    self._is_done = True
                    break
            if batch.num_rows > 0:
                return batch
        return None


@contextlib.contextmanager
def errors_of(run: Run) -> Iterator[None]:
    """Raise the run's own exception in place of the one that a consumer of its stream makes of it."""
    try:
        yield
    except Exception as failure:
        try:
            run.raise_pending()
        except BaseException as pending:
            raise pending from pending.__cause__
        raise failure
