"""SQL over ORC files that reads only the bytes a query needs.

    >>> import grampus
    >>> con = grampus.connect()
    >>> con.read_orc("trips/*.orc").filter("trip_distance >= 30").df()

`connect` opens a session. `read_orc` and `sql` of this module use one default session of the process.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ._connection import Connection
from ._grampus import Error, __version__, datafusion_version
from ._orc import layout, write_orc
from ._relation import Relation

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

__all__ = [
    "Connection",
    "Error",
    "Relation",
    "__version__",
    "connect",
    "datafusion_version",
    "layout",
    "read_orc",
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
    settings: Mapping[str, Any] | None = None,
) -> Connection:
    """Open a session with its own tables, settings and threads.

    device: "auto" (the default), "cpu", "prefer" (the GPU wherever it can), or "gpu". Under "gpu" a query over ORC
        files that the GPU cannot run is an error with the reason.
    memory_limit: bytes, or a text such as "4g" or "none". By default 80 % of the machine's memory.
    threads: threads and partitions of a query. By default one per core.
    batch_rows: rows of a batch between operators. By default 8192, or fewer if the memory limit is low.
    progress: whether queries of more than a second show their progress. By default on terminals and in notebooks.
    settings: initial values of settings by name, as `Connection.set` takes them.

    Raises Error if a setting is unknown or has a wrong value.
    """
    return Connection(
        device=device,
        memory_limit=memory_limit,
        threads=threads,
        batch_rows=batch_rows,
        progress=progress,
        settings=settings,
    )


def default_connection() -> Connection:
    """The session behind `grampus.sql` and `grampus.read_orc`. The first call opens it."""
    global _default
    with _default_lock:
        if _default is None:
            _default = connect()
        return _default


def sql(query: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> Relation | None:
    """`Connection.sql` of the default session."""
    return default_connection().sql(query, params)


def read_orc(path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> Relation:
    """`Connection.read_orc` of the default session."""
    return default_connection().read_orc(path)
