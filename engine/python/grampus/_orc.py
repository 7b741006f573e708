"""ORC files without a session: write_orc and layout."""

from __future__ import annotations

import json
import os
from typing import Any

from . import _grampus
from ._grampus import Error


def write_orc(
    table: Any,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    compression: str = "none",
    **options: Any,
) -> dict[str, int]:
    """Write a table as one local ORC file. The batches stream; the file appears whole, or not at all.

    table: a relation, or anything else with `__arrow_c_stream__`.
    overwrite: replace an older file.
    compression: "none", "zlib", "snappy", "lz4" or "zstd". Without compression, and in original chunks, single values
        of FLOAT and DOUBLE columns can be fetched.
    options: `stripe_rows` (1,000,000), `stripe_size_bytes`, `row_index_stride` (10,000 rows), `chunk_size_bytes`
        (64 KiB), `number_chunk_size_bytes` (of numbers, dates and timestamps; 4 KiB under Snappy), `direct_columns`,
        `alignment_bytes`, `dictionary_threshold` (share of distinct values), `bloom_filter_columns`,
        `bloom_filter_fpp`.

    Returns the numbers of `rows` and `bytes` of the file.

    Raises FileExistsError, OSError if the file cannot be written, and Error for a type that ORC cannot store.
    """
    from ._relation import Relation
    from ._result import errors_of

    name = os.fspath(path)
    if "://" in name:
        raise Error(f"write_orc writes local files, not {name}")
    given = {"compression": compression, **options}
    if isinstance(table, Relation):
        run = table._start(repeats_interrupt=False)
        with errors_of(run):
            rows, size = _grampus.write_orc(run, name, given, overwrite)
    else:
        rows, size = _grampus.write_orc(table, name, given, overwrite)
    return {"rows": rows, "bytes": size}


def layout(path: str | os.PathLike[str], *, row_groups: bool = True, chunks: bool = False) -> dict[str, Any]:
    """Where every stripe, stream, row group and chunk of a local ORC file is, as nested dicts. Offsets are absolute.

    row_groups: also read the row indexes: entry points, statistics, bloom filters.
    chunks: also walk the chunk headers of compressed streams, with one small read each.

    `problems` lists what could not be read; the rest is valid then.

    Raises Error if the file is no ORC file, and OSError if it cannot be opened.
    """
    try:
        text = _grampus.layout(path, row_groups, chunks)
    except OSError as failure:
        raise type(failure)(f"cannot open {os.fspath(path)}: {failure}") from None
    report: dict[str, Any] = json.loads(text)
    return report
