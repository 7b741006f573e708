"""Connection: a session with its tables and settings."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from . import _orc
from ._grampus import Error, Session
from ._parameters import parameters
from ._progress import Progress
from ._relation import Relation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SIZE = re.compile(r"(?i)\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(?:i?b)?\s*")


class Connection:
    """A session: tables, settings and threads. Any number of threads may use it at the same time.

    Use it as a context manager, or call `close`. `grampus.connect` opens one.
    """

    def __init__(
        self,
        *,
        device: str | None = None,
        memory_limit: str | int | None = None,
        threads: int | None = None,
        batch_rows: int | None = None,
        progress: bool | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        values = {name: _text(value) for name, value in (settings or {}).items()}
        if device is not None:
            values["grampus.device"] = device
        for name, number in (("threads", threads), ("batch_rows", batch_rows)):
            if number is not None and number < 1:
                raise Error(f"{name} is at least 1, not {number}")
        self._session: Session | None = Session(values, _bytes(memory_limit), threads, batch_rows)
        self._progress = progress

    # ------------------------------------------------------------------------------------------- queries

    def sql(self, query: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> Relation | None:
        """Bind a query, and return it as a lazy relation. Nothing is read but metadata.

        Another statement (SET, CREATE, COPY, …) is executed at once; without a result the answer is None. Of several
        statements, separated by semicolons, the last one is returned.

        params: a sequence for `$1`, `$2`, …, or a mapping for `$name`. Values are never part of the SQL text.

        Raises Error if the text is no SQL, or names no table, column or function that exists.
        """
        given = None if params is None else parameters(params)
        bound = self._open.sql(query, given)
        return None if bound is None else Relation(self, bound)

    execute = sql

    def read_orc(self, path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> Relation:
        """ORC files as a lazy relation: a path, a folder (Hive partitions become columns), a glob, a URL, or several.

        Raises Error if no file is there, a file is no ORC file, or two files' columns contradict each other.
        """
        several = not isinstance(path, (str, os.PathLike))
        paths = [os.fspath(one) for one in (path if several else [path])]  # type: ignore[union-attr]
        if not paths:
            raise Error("read_orc needs at least one path")
        return Relation(self, self._open.read_orc(paths))

    def table(self, name: str) -> Relation:
        """A table or view by its exact name.

        Raises Error if there is none.
        """
        quoted = '"' + name.replace('"', '""') + '"'
        return Relation(self, self._open.sql(f"SELECT * FROM {quoted}", None))

    # -------------------------------------------------------------------------------------------- tables

    def register(self, name: str, table: Any) -> None:
        """Register a table under an exact name, in place of an older one.

        table: a relation of this connection becomes a view; nothing is read. Anything else with `__arrow_c_stream__`
        (tables of pyarrow, pandas, polars, DuckDB, …) is read once. Its buffers are shared, not copied. The batches of
        a reader that makes them one by one are kept in memory.

        Raises TypeError if the object has no Arrow stream.
        """
        if isinstance(table, Relation):
            if table._connection is self:
                self._open.register_query(name, table._query)
                return
            table = table.arrow()
        self._open.register_stream(name, table)

    def unregister(self, name: str) -> None:
        """Remove a table or view. Its data stays where it is.

        Raises Error if there is none.
        """
        if not self._open.unregister(name):
            raise Error(f"no table named {name}")

    def tables(self) -> list[str]:
        """The names of the tables and views, sorted."""
        return self._open.tables()

    def write_orc(self, table: Any, path: str | os.PathLike[str], **options: Any) -> dict[str, int]:
        """Write a table as one ORC file: `grampus.write_orc`."""
        return _orc.write_orc(table, path, **options)

    # ------------------------------------------------------------------------------------------ settings

    def set(self, name: str, value: Any) -> None:
        """Change a setting, such as `con.set("grampus.device", "cpu")`.

        Raises Error if there is no such setting, or the value is none of its values.
        """
        self._open.set(name, _text(value))

    @property
    def settings(self) -> dict[str, str | None]:
        """The values of all settings by name. Changes of the dict change no setting."""
        return {name: value for name, value, _ in self._open.settings()}

    def describe_setting(self, name: str) -> str:
        """What a setting means.

        Raises Error if there is no such setting.
        """
        for found, _, description in self._open.settings():
            if found == name:
                return description
        raise Error(f"there is no setting {name}: Connection.settings has all of them")

    # --------------------------------------------------------------------------------------------- others

    def session(self) -> Connection:
        """Another connection over the same runtime: threads, GPU, memory limit and the cache of files' metadata.

        It has tables of its own, and starts with the `grampus.*` settings that this one was opened with.
        """
        other = Connection.__new__(Connection)
        other._session = self._open.another()
        other._progress = self._progress
        return other

    def close(self) -> None:
        """Close the session. Streams that are being read go on to their end."""
        self._session = None

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._session is None:
            return "<grampus.Connection, closed>"
        names = ", ".join(self._session.tables()) or "none"
        return f"<grampus.Connection, tables: {names}>"

    @property
    def _open(self) -> Session:
        if self._session is None:
            raise Error("the connection is closed")
        return self._session

    def _new_progress(self) -> Progress | None:
        return Progress.create(self._progress)


def _text(value: Any) -> str:
    """A setting's value as text: booleans as SQL writes them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _bytes(limit: str | int | None) -> int | None:
    """Bytes of a memory limit; 0 for none, None for the default."""
    if limit is None:
        return None
    if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0:
        return limit
    if isinstance(limit, str) and limit.strip().lower() == "none":
        return 0
    found = _SIZE.fullmatch(limit) if isinstance(limit, str) else None
    if found is None:
        raise Error(f"memory_limit is a number of bytes, a text such as '512m' or '4g', or 'none', not {limit!r}")
    shift = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[found[2].lower()]
    return max(1, int(float(found[1]) * (1 << shift)))
