"""Connection: a session with its tables and settings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

from . import _orc
from ._cursor import Cursor
from ._functions import Kind, NullHandling, Type, adapter, type_of
from ._grampus import Error, NotSupportedError, ProgrammingError, Session
from ._parameters import parameters
from ._program import offer_libraries
from ._progress import Progress
from ._relation import Relation
from ._sql import SELF, Path, call, one_character, paths_of, quoted
from ._variables import Variables, as_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ._grampus import Query

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
        python_variables: bool | Literal["all"] = True,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        values = {name: _text(value) for name, value in (settings or {}).items()}
        if device is not None:
            values["grampus.device"] = device
        for name, number in (("threads", threads), ("batch_rows", batch_rows)):
            if number is not None and number < 1:
                raise Error(f"{name} is at least 1, not {number}")
        offer_libraries()
        self._session: Session | None = Session(values, _bytes(memory_limit), threads, batch_rows)
        self._progress = progress
        self._python_variables = python_variables

    # ------------------------------------------------------------------------------------------- queries

    def sql(self, query: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> Relation:
        """Bind a query, and return it as a lazy relation. Nothing is read but metadata.

        Another statement (SET, CREATE, COPY, …) is executed at once; the relation is its result, which may have no
        columns. Of several statements, separated by semicolons, the last one is returned.

        params: a sequence for `?` or `$1`, `$2`, …, or a mapping for `$name`. Values are never part of the SQL text.

        A name in FROM that no table has is a variable of the calling function or of its module: a relation, or a table
        of pyarrow, pandas, polars or another Arrow library. `connect(python_variables=False)` turns that off.

        Raises Error if the text is no SQL, or names no table, column or function that exists.
        """
        return Relation(self, self._bind(query, params))

    query = sql

    def execute(self, query: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> Cursor:
        """Execute a statement by a new cursor, and return the cursor."""
        return self.cursor().execute(query, params)

    def executemany(self, query: str, params: Iterable[Sequence[Any] | Mapping[str, Any]]) -> Cursor:
        """Execute a statement for each set of parameters by a new cursor, and return the cursor."""
        return self.cursor().executemany(query, params)

    def cursor(self) -> Cursor:
        """A cursor, as PEP 249 has it."""
        _ = self._open
        return Cursor(self)

    def commit(self) -> None:
        """PEP 249 has it. There are no transactions: what a statement wrote is there when it has ended."""
        _ = self._open

    def rollback(self) -> None:
        """PEP 249 has it. Raises NotSupportedError: there are no transactions."""
        raise NotSupportedError("there are no transactions: what a statement wrote cannot be taken back")

    def table(self, name: str) -> Relation:
        """A table or view by its exact name.

        Raises Error if there is none.
        """
        return Relation(self, self._open.sql(f"SELECT * FROM {quoted(name)}"), name)

    view = table

    def from_arrow(self, table: Any) -> Relation:
        """A table of pyarrow, pandas, polars or another Arrow library as a relation. It is read once, now.

        Raises Error if the object is no table.
        """
        found = as_table(self, "given", table)
        return Relation(self, self._open.sql(f"SELECT * FROM {quoted(SELF)}", look_up=lambda _: found))

    from_df = from_arrow

    # --------------------------------------------------------------------------------------------- files

    def read_orc(self, path: Path | Sequence[Path]) -> Relation:
        """ORC files as a lazy relation: a path, a folder (Hive partitions become columns), a glob, a URL, or several.

        Raises Error if no file is there, a file is no ORC file, or two files' columns contradict each other.
        """
        return Relation(self, self._open.read_orc(paths_of(path, "read_orc")))

    scan_orc = read_orc

    def read_parquet(
        self, path: Path | Sequence[Path], *, binary_as_string: bool | None = None, filename: bool | None = None
    ) -> Relation:
        """Parquet files as a lazy relation. Paths are those of `read_orc`.

        filename: whether the column `filename` has each row's file.
        """
        options = {"binary_as_string": binary_as_string, "filename": filename}
        return self._read("read_parquet", path, options)

    def read_csv(
        self,
        path: Path | Sequence[Path],
        *,
        header: bool | None = None,
        sep: str | None = None,
        quotechar: str | None = None,
        escapechar: str | None = None,
        comment: str | None = None,
        compression: str | None = None,
        sample_size: int | None = None,
        filename: bool | None = None,
    ) -> Relation:
        """CSV files as a lazy relation. Paths are those of `read_orc`.

        header: whether the first line has the names. By default it has.
        sep: the sign between values. By default a comma.
        compression: "gzip", "bzip2", "xz" or "zstd". By default what the end of a path says.
        sample_size: the rows that types are inferred from; -1 for all.
        filename: whether the column `filename` has each row's file.
        """
        options = {
            "header": header,
            "delim": one_character("sep", sep),
            "quote": one_character("quotechar", quotechar),
            "escape": one_character("escapechar", escapechar),
            "comment": one_character("comment", comment),
            "compression": compression,
            "sample_size": sample_size,
            "filename": filename,
        }
        return self._read("read_csv", path, options)

    def read_json(
        self,
        path: Path | Sequence[Path],
        *,
        format: str | None = None,  # noqa: A002
        compression: str | None = None,
        sample_size: int | None = None,
        filename: bool | None = None,
    ) -> Relation:
        """JSON files as a lazy relation. Paths are those of `read_orc`.

        format: "newline_delimited", the default, or "array".
        The other options are those of `read_csv`.
        """
        options = {"format": format, "compression": compression, "sample_size": sample_size, "filename": filename}
        return self._read("read_json", path, options)

    def _read(self, function: str, path: Path | Sequence[Path], options: Mapping[str, Any]) -> Relation:
        return Relation(self, self._open.sql(call(function, paths_of(path, function), options)))

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

    def write_orc(self, table: Any, path: Path, **options: Any) -> dict[str, int]:
        """Write a table as one ORC file: `grampus.write_orc`."""
        return _orc.write_orc(table, path, **options)

    # ----------------------------------------------------------------------------------------- functions

    def create_function(
        self,
        name: str,
        function: Callable[..., Any],
        parameters: Sequence[Type],
        return_type: Type,
        *,
        type: Kind = "arrow",  # noqa: A002
        null_handling: NullHandling = "default",
        side_effects: bool = False,
    ) -> None:
        """Make a function of Python a scalar function of SQL.

        parameters, return_type: types of pyarrow, of Python (`int` is BIGINT), or names of SQL (`"DECIMAL(10, 2)"`).
        type: "arrow": the function takes a pyarrow array for each parameter, and returns an array with a value for
            each row. Lists, arrays of numpy, and series of pandas and polars are taken too. "native": the function
            takes and returns values of Python, and is called for each row.
        null_handling: "default": a row with NULL in an argument is NULL, and the function does not see it. "special":
            the function sees NULLs.
        side_effects: whether two calls with the same arguments may differ. Otherwise calls are left out if their
            results are known.

        The workers of a query call the function, one after the other, on any thread. An exception of the function ends
        the query in an Error that names the function; the exception is its `__cause__`.

        Raises Error if there is a function of that name.
        """
        if not parameters:
            raise ProgrammingError(f"{name}: a function takes at least one parameter")
        import pyarrow

        fields = [(f"parameter_{place + 1}", type_of(self, one)) for place, one in enumerate(parameters)]
        returns = type_of(self, return_type)
        self._open.create_function(
            name.lower(),
            adapter(function, returns, type, null_handling),
            pyarrow.schema(fields),
            pyarrow.schema([("result", returns)]),
            side_effects,
        )

    def remove_function(self, name: str) -> None:
        """Remove a function that `create_function` has made.

        Raises Error if there is none.
        """
        if not self._open.remove_function(name.lower()):
            raise ProgrammingError(f"there is no function of Python named {name}")

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
        other._python_variables = self._python_variables
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
            raise ProgrammingError("the connection is closed")
        return self._session

    def _bind(
        self,
        query: str,
        params: Sequence[Any] | Mapping[str, Any] | None,
        relations: dict[str, Query] | None = None,
    ) -> Query:
        """Bind a statement, which may name `relations`, and variables of the function that called the package."""
        given = None if params is None else parameters(params)
        if not self._python_variables:
            return self._open.sql(query, given, relations)
        variables = Variables(self, query, self._python_variables == "all")
        try:
            return self._open.sql(query, given, relations, variables)
        except Error as error:
            raise variables.explained(error) from error.__cause__

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
