"""SQL over ORC files that reads only the bytes a query needs.

    >>> import grampus
    >>> con = grampus.connect()
    >>> con.read_orc("trips/*.orc").filter("trip_distance >= 30").df()

`connect` opens a session. `sql`, `read_orc` and others of this module use one default session of the process.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Literal

from . import _dbapi
from ._connection import Connection
from ._cursor import Cursor
from ._dbapi import *  # noqa: F403
from ._grampus import __version__, datafusion_version
from ._orc import layout, write_orc
from ._relation import Relation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ._sql import Path

__all__ = [  # noqa: PLE0604
    *_dbapi.__all__,
    "Connection",
    "Cursor",
    "Relation",
    "__version__",
    "connect",
    "datafusion_version",
    "execute",
    "from_arrow",
    "layout",
    "read_csv",
    "read_json",
    "read_orc",
    "read_parquet",
    "register",
    "scan_orc",
    "sql",
    "write_orc",
]

_default: Connection | None = None
_default_lock = threading.Lock()


def connect(
    *,
    device: str | None = None,
    memory_limit: str | int | None = None,
    threads: int | None = None,
    batch_rows: int | None = None,
    progress: bool | None = None,
    python_variables: bool | Literal["all"] = True,
    settings: Mapping[str, Any] | None = None,
) -> Connection:
    """Open a session with its own tables, settings and threads.

    device: "auto" (the default), "cpu", "prefer" (the GPU wherever it can), or "gpu". Under "gpu" a query over ORC
        files that the GPU cannot run is an error with the reason.
    memory_limit: bytes, or a text such as "4g" or "none". By default 80 % of the machine's memory.
    threads: threads and partitions of a query. By default one per core.
    batch_rows: rows of a batch between operators. By default 8192, or fewer if the memory limit is low.
    progress: whether queries of more than a second show their progress. By default on terminals and in notebooks.
    python_variables: whether a name in FROM that no table has is a variable of the calling function or its module;
        "all": also of its callers.
    settings: initial values of settings by name, as `Connection.set` takes them.

    Raises Error if a setting is unknown or has a wrong value.
    """
    return Connection(
        device=device,
        memory_limit=memory_limit,
        threads=threads,
        batch_rows=batch_rows,
        progress=progress,
        python_variables=python_variables,
        settings=settings,
    )


def default_connection() -> Connection:
    """The session behind `grampus.sql`, `grampus.read_orc` and others. The first call opens it."""
    global _default
    with _default_lock:
        if _default is None:
            _default = connect()
        return _default


def sql(query: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> Relation:
    """`Connection.sql` of the default session."""
    return default_connection().sql(query, params)


def execute(query: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> Cursor:
    """`Connection.execute` of the default session."""
    return default_connection().execute(query, params)


def register(name: str, table: Any) -> None:
    """`Connection.register` of the default session."""
    default_connection().register(name, table)


def from_arrow(table: Any) -> Relation:
    """`Connection.from_arrow` of the default session."""
    return default_connection().from_arrow(table)


def read_orc(path: Path | Sequence[Path]) -> Relation:
    """`Connection.read_orc` of the default session."""
    return default_connection().read_orc(path)


scan_orc = read_orc


def read_parquet(
    path: Path | Sequence[Path], *, binary_as_string: bool | None = None, filename: bool | None = None
) -> Relation:
    """`Connection.read_parquet` of the default session."""
    return default_connection().read_parquet(path, binary_as_string=binary_as_string, filename=filename)


def read_csv(
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
    """`Connection.read_csv` of the default session."""
    return default_connection().read_csv(
        path,
        header=header,
        sep=sep,
        quotechar=quotechar,
        escapechar=escapechar,
        comment=comment,
        compression=compression,
        sample_size=sample_size,
        filename=filename,
    )


def read_json(
    path: Path | Sequence[Path],
    *,
    format: str | None = None,  # noqa: A002
    compression: str | None = None,
    sample_size: int | None = None,
    filename: bool | None = None,
) -> Relation:
    """`Connection.read_json` of the default session."""
    return default_connection().read_json(
        path, format=format, compression=compression, sample_size=sample_size, filename=filename
    )
