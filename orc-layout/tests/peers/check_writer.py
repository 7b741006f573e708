"""Reads the files of `write_samples` with pyarrow and pyorc and compares every value.

    python3 check_writer.py FOLDER

Prints what was checked and what was not (a library that is missing); exits with 1 at the first difference.
pyarrow reads whole files, single columns and single stripes; pyorc reads with predicates too, which makes it seek by
the row index's positions and skip by statistics and bloom filters.
"""

import datetime
import decimal
import json
import math
import pathlib
import struct
import sys

try:
    import pyarrow
    import pyarrow.orc
except ImportError:
    pyarrow = None
try:
    import pyorc
    from pyorc.predicates import PredicateColumn
except ImportError:
    pyorc = None

EPOCH = datetime.datetime(1970, 1, 1)


def fail(text):
    print(text)
    sys.exit(1)


def float_bits(value, width):
    """Every NaN is the same one: Python does not keep a float32's NaN bits."""
    if value is None:
        return None
    if math.isnan(value):
        return "nan"
    return struct.pack(">f" if width == 4 else ">d", value).hex()


def expected_rows(path, names):
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        for index, name in enumerate(names):
            value = row[index]
            if value is None:
                continue
            if name in ("float", "double", "wild"):
                width = 4 if name == "float" else 8
                row[index] = float_bits(struct.unpack(">f" if width == 4 else ">d", bytes.fromhex(value))[0], width)
            elif name == "blob":
                row[index] = bytes(value)
            elif name == "map":
                row[index] = [[k, None if v is None else struct.unpack(">d", bytes.fromhex(v))[0]] for k, v in value]
    return rows


# ---------------------------------------------------------------------------------------------------- pyarrow


def arrow_values(column, name):
    kind = column.type
    if pyarrow.types.is_timestamp(kind):
        return column.cast(pyarrow.int64()).to_pylist()
    if pyarrow.types.is_date(kind):
        return column.cast(pyarrow.int32()).to_pylist()
    values = column.to_pylist()
    if name in ("float", "double", "wild"):
        return [float_bits(value, 4 if name == "float" else 8) for value in values]
    if pyarrow.types.is_decimal(kind):
        return [None if value is None else format(value, "f") for value in values]
    if name == "struct":
        return [None if value is None else list(value.values()) for value in values]
    if name == "map":
        return [None if value is None else [list(pair) for pair in value] for value in values]
    return values


def compare(what, name, expected, actual):
    if expected == actual:
        return
    if len(expected) != len(actual):
        fail(f"{what}: column {name}: {len(actual)} rows instead of {len(expected)}")
    row = next(i for i, (a, b) in enumerate(zip(expected, actual)) if a != b)
    fail(f"{what}: column {name} row {row}: {actual[row]!r} instead of {expected[row]!r}")


def check_with_pyarrow(path, rows):
    file = pyarrow.orc.ORCFile(path)
    names = file.schema.names
    what = f"pyarrow {path.name}"
    table = file.read()
    columns = list(zip(*rows)) if rows else [() for _ in names]
    for index, name in enumerate(names):
        compare(what, name, list(columns[index]), arrow_values(table[name], name))
        alone = file.read(columns=[name])
        compare(what + " (alone)", name, list(columns[index]), arrow_values(alone[name], name))
    start = 0
    for stripe in range(file.nstripes):
        part = file.read_stripe(stripe)
        for index, name in enumerate(names):
            values = part.column(index)
            expected = list(columns[index][start : start + part.num_rows])
            compare(what + f" (stripe {stripe})", name, expected, arrow_values(values, name))
        start += part.num_rows
    if start != len(rows):
        fail(f"{what}: the stripes have {start} rows instead of {len(rows)}")


# ------------------------------------------------------------------------------------------------------ pyorc


def nanoseconds(value):
    if value is None:
        return None
    return round((value.replace(tzinfo=None) - EPOCH) / datetime.timedelta(microseconds=1)) * 1000


def orc_value(value, name):
    if value is None:
        return None
    if name in ("float", "double", "wild"):
        return float_bits(value, 4 if name == "float" else 8)
    if name in ("time", "instant"):
        return nanoseconds(value)
    if name == "day":
        return (value - datetime.date(1970, 1, 1)).days
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if name == "struct":
        return list(value)
    if name == "map":
        return [list(pair) for pair in value.items()]
    return value


def as_pyorc_sees(value, name):
    """Python's times have microseconds."""
    return value // 1000 * 1000 if name in ("time", "instant") and value is not None else value


def check_with_pyorc(path, rows, names):
    what = f"pyorc {path.name}"
    expected = [[as_pyorc_sees(value, name) for name, value in zip(names, row)] for row in rows]
    with open(path, "rb") as data:
        reader = pyorc.Reader(data)
        if list(reader.schema.fields) != names:
            fail(f"{what}: columns {list(reader.schema.fields)}")
        actual = [[orc_value(value, name) for name, value in zip(names, row)] for row in reader]
    for index, name in enumerate(names):
        compare(what, name, [row[index] for row in expected], [row[index] for row in actual])
    check_stripes(path, expected, names, what)
    check_statistics(path, expected, names, what)
    check_bloom_filters(path, expected, names, what)
    for number, name in enumerate(KINDS):
        # A different part of the other columns each time: all are sought by position.
        others = [other for place, other in enumerate(names) if place % 4 == number % 4 or other == name]
        check_predicates(path, expected, names, name, others, what)


def check_stripes(path, expected, names, what):
    with open(path, "rb") as data:
        start = 0
        for number, stripe in enumerate(pyorc.Reader(data).iter_stripes()):
            values = [[orc_value(value, name) for name, value in zip(names, row)] for row in stripe]
            for index, name in enumerate(names):
                part = [row[index] for row in expected[start : start + len(stripe)]]
                compare(what + f" (stripe {number})", name, part, [row[index] for row in values])
            start += len(stripe)


def check_statistics(path, expected, names, what):
    """The file's statistics against its values."""
    with open(path, "rb") as data:
        reader = pyorc.Reader(data)
        for index, name in enumerate(names):
            stated = reader[reader.schema.find_column_id(name)].statistics
            values = [row[index] for row in expected if row[index] is not None]
            if stated["number_of_values"] != len(values) or stated["has_null"] != (len(values) < len(expected)):
                fail(f"{what}: statistics of {name}: {stated}")
            if not values:
                continue
            wrong = [
                f"{key} {stated.get(key)!r} instead of {value!r}"
                for key, value in expected_statistics(name, values, stated).items()
                if stated.get(key) != value
            ]
            if wrong:
                fail(f"{what}: statistics of {name}: {', '.join(wrong)}")


def expected_statistics(name, values, stated):
    """The statistics of a column's values, by pyorc's names. Every column of the samples has an entry here."""
    if name == "flag":
        return {"true_count": sum(values), "false_count": len(values) - sum(values)}
    if name in ("tiny", "small", "int", "near"):
        return {"minimum": min(values), "maximum": max(values), "sum": sum(values)}
    if name == "long":  # the sum may overflow, and is left out then
        return {"minimum": min(values), "maximum": max(values)}
    if name in ("float", "double"):
        values = [plain(value, name) for value in values]
        near = math.isclose(stated["sum"], math.fsum(values), rel_tol=1e-9, abs_tol=1e-9)
        total = stated["sum"] if near else math.fsum(values)
        return {"minimum": min(values), "maximum": max(values), "sum": total}
    if name == "wild":  # bounds must not leave out a NaN
        return {"minimum": None, "maximum": None} if "nan" in values else {}
    if name in ("word", "text"):
        total = sum(len(value.encode()) for value in values)
        return {"minimum": min(values), "maximum": max(values), "total_length": total}
    if name == "blob":
        return {"total_length": sum(map(len, values))}
    if name == "day":
        return {"minimum": plain(min(values), name), "maximum": plain(max(values), name)}
    if name in ("time", "instant"):  # whole milliseconds around the values
        millisecond = 1_000_000
        low, high = nanoseconds(stated["lower_bound"]), nanoseconds(stated["upper_bound"])
        # pyorc states fractions of seconds before 1970 wrongly.
        tight_low = min(values) < 0 or min(values) - millisecond < low <= min(values)
        tight_high = max(values) < 0 or max(values) <= high <= max(values) + millisecond
        return {} if tight_low and tight_high else {"lower_bound": min(values), "upper_bound": max(values)}
    if name in ("money", "huge"):
        values = [decimal.Decimal(value) for value in values]
        with decimal.localcontext() as context:
            context.prec = 60
            total = sum(values)
        return {"minimum": min(values), "maximum": max(values), "sum": +total}  # rounded as pyorc's is
    if name in ("struct", "list", "map"):
        return {}  # the numbers of values and nulls are all
    fail(f"column {name} has no expected statistics")


def check_bloom_filters(path, expected, names, what):
    """Strings within the bounds that are in no row: only the filters can rule them out."""
    index = names.index("text")
    present = sorted({row[index] for row in expected if row[index] is not None})
    if len(present) < 1000:
        return
    found = 0
    for value in present[100:900:100]:
        predicate = PredicateColumn(pyorc.TypeKind.STRING, "text") == value + "!"
        with open(path, "rb") as data:
            found += sum(1 for _ in pyorc.Reader(data, predicate=predicate, column_names=["text"]))
    if found > len(expected) * 8 // 3:
        fail(f"{what}: {found} rows pass the filters of 8 strings that are not there")


def plain(value, name):
    """A value as a predicate literal takes it."""
    if name in ("float", "double"):
        return struct.unpack(">f" if name == "float" else ">d", bytes.fromhex(value))[0]
    if name == "day":
        return datetime.date(1970, 1, 1) + datetime.timedelta(days=value)
    return value


KINDS = (
    {
        "int": pyorc.TypeKind.INT,
        "near": pyorc.TypeKind.LONG,
        "long": pyorc.TypeKind.LONG,
        "tiny": pyorc.TypeKind.BYTE,
        "double": pyorc.TypeKind.DOUBLE,
        "word": pyorc.TypeKind.STRING,
        "text": pyorc.TypeKind.STRING,
        "day": pyorc.TypeKind.DATE,
    }
    if pyorc
    else {}
)


def check_predicates(path, expected, names, name, others, what):
    """A predicate skips row groups; of those that are left, all rows are returned."""
    index = names.index(name)
    present = sorted({row[index] for row in expected if row[index] is not None}, key=lambda v: plain(v, name))
    if not present:
        return
    column = PredicateColumn(KINDS[name], name)
    middle, last = plain(present[len(present) // 2], name), plain(present[-1], name)
    tests = (
        (f"== {middle!r}", column == middle, lambda v: v == middle),
        (f"== {last!r}", column == last, lambda v: v == last),
        (f"< {middle!r}", column < middle, lambda v: v < middle),
    )
    places = [names.index(other) for other in others]
    rows = [repr([row[place] for place in places]) for row in expected]
    every = set(rows)
    for text, predicate, test in tests:
        with open(path, "rb") as data:
            reader = pyorc.Reader(data, predicate=predicate, column_names=others)
            actual = [repr([orc_value(v, n) for n, v in zip(others, row)]) for row in reader]
        wanted = {
            row for row, full in zip(rows, expected) if full[index] is not None and test(plain(full[index], name))
        }
        missing = wanted - set(actual)
        if missing:
            fail(f"{what}: {name} {text}: {len(missing)} rows are missing, as {missing.pop()}")
        strange = set(actual) - every
        if strange:
            fail(f"{what}: {name} {text}: {len(strange)} rows are not in the file, as {strange.pop()}")
        SKIPPED[0] += len(expected) - len(actual)


SKIPPED = [0]


def main():
    folder = pathlib.Path(sys.argv[1])
    for name, library in (("pyarrow", pyarrow), ("pyorc", pyorc)):
        if library is None:
            print(f"ignored: no {name}")
    if pyarrow is None and pyorc is None:
        return
    files = sorted(folder.glob("*.orc"))
    if not files:
        fail(f"no files in {folder}")
    for path in files:
        names = json.loads((folder / "columns.json").read_text(encoding="utf-8"))
        rows = expected_rows(path.with_suffix(".jsonl"), names)
        if pyarrow:
            check_with_pyarrow(path, rows)
        if pyorc:
            check_with_pyorc(path, rows, names)
    if pyorc and not SKIPPED[0]:
        fail("no predicate skipped a single row")
    print(f"{len(files)} files agree; predicates skipped {SKIPPED[0]} rows")


main()
