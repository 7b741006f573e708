"""Reads the file that `peer_types.rs` wrote, and writes one for its comparison of bloom filters.

    python3 check_types.py FOLDER

FOLDER/types.orc is read with pyarrow and pyorc; what they find goes to the standard output as JSON. Values of `blooms`
are looked up under predicates, which makes pyorc use the bloom filters. FOLDER/blooms_of_pyorc.orc gets the same values
from pyorc's writer.
"""

import datetime
import decimal
import json
import pathlib
import sys

import pyarrow.orc
import pyorc
from pyorc.predicates import PredicateColumn

UTC = datetime.timezone.utc
EPOCH = datetime.datetime(1970, 1, 1)


def with_pyarrow(path):
    file = pyarrow.orc.ORCFile(path)
    table = file.read()
    attributes = {field.name: field.metadata for field in file.schema if field.metadata}
    attributes = {name: {k.decode(): v.decode() for k, v in found.items()} for name, found in attributes.items()}
    return {"rows": list(zip(*(column.to_pylist() for column in table.columns))), "attributes": attributes}


def with_pyorc(path):
    with open(path, "rb") as file:
        reader = pyorc.Reader(file)
        fields = reader.schema.fields
        attributes = {name: dict(kind.attributes) for name, kind in fields.items() if kind.attributes}
        return {"schema": str(reader.schema), "rows": list(reader), "attributes": attributes}


def bloom_rows(path):
    """The rows of blooms.orc, by pyorc."""
    with open(path, "rb") as file:
        return list(pyorc.Reader(file))


def found_by_predicate(path, name, kind, value):
    """Rows in the row groups that statistics and bloom filters leave."""
    column = {
        "small": lambda: PredicateColumn(pyorc.TypeKind.DECIMAL, "small", precision=10, scale=2),
        "large": lambda: PredicateColumn(pyorc.TypeKind.DECIMAL, "large", precision=30, scale=3),
        "local": lambda: PredicateColumn(pyorc.TypeKind.TIMESTAMP, "local"),
    }[kind]()
    with open(path, "rb") as file:
        return sum(1 for _ in pyorc.Reader(file, column_names=[name], predicate=column == value))


def write_blooms(path, rows):
    schema = "struct<small:decimal(10,2),large:decimal(30,3),local:timestamp,instant:timestamp with local time zone>"
    with open(path, "wb") as file:
        writer = pyorc.Writer(
            file,
            schema,
            bloom_filter_columns=["small", "large", "local", "instant"],
            bloom_filter_fpp=0.01,
            row_index_stride=1000,
            compression=pyorc.CompressionKind.NONE,
        )
        for row in rows:
            writer.write(row)
        writer.close()


def main():
    folder = pathlib.Path(sys.argv[1])
    blooms = folder / "blooms.orc"
    rows = bloom_rows(blooms)
    write_blooms(folder / "blooms_of_pyorc.orc", rows)
    absent = {
        "small": decimal.Decimal("1.13"),
        "large": decimal.Decimal("1.013"),
        "local": datetime.datetime(2000, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC),
    }
    lookups = {}
    for index, kind in enumerate(["small", "large", "local"]):
        present = [row[index] for row in rows[::97]]
        if kind == "local":
            present = [value.replace(tzinfo=UTC) for value in present]
        lookups[kind] = {
            "present": [found_by_predicate(blooms, kind, kind, value) for value in present],
            "absent": found_by_predicate(blooms, kind, kind, absent[kind]),
        }
    types = folder / "types.orc"
    print(json.dumps({"pyarrow": with_pyarrow(types), "pyorc": with_pyorc(types), "lookups": lookups}, default=str))


main()
