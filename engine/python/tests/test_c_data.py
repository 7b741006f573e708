"""Structs of the C data interface that break its rules: an error, never a panic or a crash."""

import ctypes
from ctypes import CFUNCTYPE, POINTER, Structure, byref, cast, pointer, pythonapi
from ctypes import c_char_p, c_int, c_int32, c_int64, c_void_p

import pyarrow as pa
import pytest

import grampus


class Schema(Structure):
    pass


class Array(Structure):
    pass


class Stream(Structure):
    pass


RELEASE = CFUNCTYPE(None, c_void_p)
Schema._fields_ = [
    ("format", c_char_p),
    ("name", c_char_p),
    ("metadata", c_void_p),
    ("flags", c_int64),
    ("n_children", c_int64),
    ("children", POINTER(POINTER(Schema))),
    ("dictionary", POINTER(Schema)),
    ("release", c_void_p),
    ("private_data", c_void_p),
]
Array._fields_ = [
    ("length", c_int64),
    ("null_count", c_int64),
    ("offset", c_int64),
    ("n_buffers", c_int64),
    ("n_children", c_int64),
    ("buffers", POINTER(c_void_p)),
    ("children", POINTER(POINTER(Array))),
    ("dictionary", POINTER(Array)),
    ("release", c_void_p),
    ("private_data", c_void_p),
]
GET_SCHEMA = CFUNCTYPE(c_int, c_void_p, POINTER(Schema))
GET_NEXT = CFUNCTYPE(c_int, c_void_p, POINTER(Array))
GET_ERROR = CFUNCTYPE(c_void_p, c_void_p)
Stream._fields_ = [
    ("get_schema", GET_SCHEMA),
    ("get_next", GET_NEXT),
    ("get_last_error", GET_ERROR),
    ("release", c_void_p),
    ("private_data", c_void_p),
]

# All structs live as long as the process, so releasing one does nothing.
KEPT = []
released = RELEASE(lambda _: None)
RELEASED = cast(released, c_void_p)


def kept(value):
    KEPT.append(value)
    return value


def pointers(kind, values):
    made = [POINTER(kind)() if value is None else pointer(kept(value)) for value in values]
    return kept((POINTER(kind) * len(values))(*made))


def schema(format, children=(), dictionary=None, **fields):
    made = kept(Schema(format=format, name=b"x", flags=2, n_children=len(children), release=RELEASED.value))
    if children:
        made.children = pointers(Schema, children)
    if dictionary is not None:
        made.dictionary = pointer(dictionary)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def array(length, buffers=(), children=(), dictionary=None, /, **fields):
    at = [None if data is None else cast(kept(data), c_void_p).value for data in buffers]
    made = kept(Array(length=length, n_buffers=len(at), n_children=len(children), release=RELEASED.value))
    made.buffers = kept((c_void_p * len(at))(*at)) if at else None
    if children:
        made.children = pointers(Array, children)
    if dictionary is not None:
        made.dictionary = pointer(dictionary)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


class Producer:
    """An object with a stream of one column, whose structs are as given."""

    def __init__(self, root, batches=(), failure=None):
        self.root, self.batches, self.failure = root, list(batches), failure

    def __arrow_c_stream__(self, requested_schema=None):
        def get_schema(_, out):
            out[0] = self.root
            return 0

        def get_next(_, out):
            if self.failure is not None:
                return self.failure
            out[0] = self.batches.pop(0) if self.batches else Array()
            return 0

        calls = kept((GET_SCHEMA(get_schema), GET_NEXT(get_next), GET_ERROR(lambda _: None)))
        stream = kept(Stream(*calls, RELEASED.value, None))
        pythonapi.PyCapsule_New.restype = ctypes.py_object
        pythonapi.PyCapsule_New.argtypes = [c_void_p, c_char_p, c_void_p]
        return pythonapi.PyCapsule_New(cast(byref(stream), c_void_p), b"arrow_array_stream", None)


def table(column, values, length=2, **fields):
    return Producer(schema(b"+s", [column]), [array(length, [None], [values], **fields)])


def ints(*values):
    return (c_int32 * len(values))(*values)


INTS = ints(1, 2)
OFFSETS = ints(0, 1, 2)
TEXT = (ctypes.c_char * 2)(b"a", b"b")


def int_column():
    return schema(b"i")


def int_values(**fields):
    return array(2, [None, INTS], **fields)


def endless():
    """A list whose item is the list."""
    made = schema(b"+l", [int_column()])
    made.children = kept((POINTER(Schema) * 1)(pointer(made)))
    return made


def test_producer_of_these_tests_is_read_if_it_keeps_the_rules(con):
    con.register("t", table(int_column(), int_values()))
    assert con.sql("SELECT x FROM t").fetchall() == [(1,), (2,)]
    texts = array(2, [None, OFFSETS, TEXT])
    con.register("t", table(schema(b"u"), texts))
    assert con.sql("SELECT x FROM t").fetchall() == [("a",), ("b",)]
    keyed = array(2, [None, ints(1, 0)], (), texts)
    con.register("t", table(schema(b"i", dictionary=schema(b"u")), keyed))
    assert con.sql("SELECT x FROM t").fetchall() == [("b",), ("a",)]


def test_values_at_unaligned_addresses_are_read(con):
    raw = kept((ctypes.c_char * 64)())
    start = ctypes.addressof(raw) + 1 - ctypes.addressof(raw) % 4
    ctypes.memmove(start, OFFSETS, 12)
    texts = array(2, [None, OFFSETS, TEXT])
    texts.buffers = kept((c_void_p * 3)(None, start, cast(TEXT, c_void_p).value))
    con.register("t", table(schema(b"u"), texts))
    assert con.sql("SELECT x FROM t").fetchall() == [("a",), ("b",)]


WRONG_SCHEMAS = {
    "released": (lambda: schema(b"i", release=None), "released"),
    "without a format": (lambda: schema(None), "released"),
    "unknown": (lambda: schema(b"q"), "not known"),
    "not a text": (lambda: schema(b"\xff"), "not known"),
    "a list of nothing": (lambda: schema(b"+l"), "one child, not 0"),
    "a list of two": (lambda: schema(b"+l", [int_column(), int_column()]), "one child, not 2"),
    "a child that is missing": (lambda: schema(b"+l", [None]), "missing"),
    "children that are missing": (lambda: schema(b"+s", n_children=3), "lacks its 3 children"),
    "fewer children than none": (lambda: schema(b"+s", n_children=-1), "lacks its -1 children"),
    "endless": (endless, "64 levels"),
    "of negative width": (lambda: schema(b"w:-1"), "not known"),
    "a list of negative length": (lambda: schema(b"+w:-1", [int_column()]), "not known"),
    "a list of too many": (lambda: schema(b"+w:99999999999", [int_column()]), "not known"),
    "a map of numbers": (lambda: schema(b"+m", [int_column()]), "entries of Int32"),
    "a dictionary of float keys": (lambda: schema(b"f", dictionary=schema(b"u")), "keys of Float32"),
    "runs that end at texts": (lambda: schema(b"+r", [schema(b"u"), int_column()]), "not known"),
    "a union of fewer": (lambda: schema(b"+us:0,1", [int_column()]), "not known"),
    "a decimal without a scale": (lambda: schema(b"d:5"), "not known"),
}


@pytest.mark.parametrize("kind", WRONG_SCHEMAS)
def test_schemas_that_break_the_rules_are_errors(con, kind):
    column, reason = WRONG_SCHEMAS[kind]
    with pytest.raises(grampus.Error, match=reason):
        con.register("t", Producer(schema(b"+s", [column()])))


WRONG_ARRAYS = {
    "negative length": (b"i", lambda: int_values(length=-1), "negative length"),
    "negative offset": (b"i", lambda: int_values(offset=-1), "negative length"),
    "more rows than memory": (b"i", lambda: int_values(length=2**62, offset=2**62), "memory"),
    "too few buffers": (b"i", lambda: int_values(n_buffers=1), "2 buffers, not 1"),
    "fewer buffers than none": (b"i", lambda: int_values(n_buffers=-1), "2 buffers, not 0"),
    "no buffers": (b"i", lambda: int_values(buffers=None), "lacks its buffers"),
    "no values": (b"i", lambda: array(2, [None, None]), "missing"),
    "no offsets": (b"u", lambda: array(2, [None, None, TEXT]), "missing"),
    "no texts": (b"u", lambda: array(2, [None, OFFSETS, None]), "missing"),
    "a negative end": (b"u", lambda: array(2, [None, ints(0, 1, -1), TEXT]), "memory"),
    "offsets that fall": (b"u", lambda: array(2, [None, ints(0, 2, 1), TEXT]), "[Oo]ffset"),
    "an offset outside": (b"u", lambda: array(2, [None, ints(-5, 1, 2), TEXT]), "[Oo]ffset"),
    "not UTF-8": (b"u", lambda: array(2, [None, OFFSETS, (ctypes.c_ubyte * 2)(0xFF, 0xFE)]), "UTF8|utf-8"),
    "a child of a number": (b"i", lambda: int_values(n_children=1), "0 children, not 1"),
}


@pytest.mark.parametrize("kind", WRONG_ARRAYS)
def test_arrays_that_break_the_rules_are_errors(con, kind):
    format, values, reason = WRONG_ARRAYS[kind]
    with pytest.raises(grampus.Error, match=reason):
        con.register("t", table(schema(format), values()))


def test_arrays_that_lack_parts_are_errors(con):
    keys = schema(b"i", dictionary=schema(b"u"))
    texts = array(2, [None, OFFSETS, TEXT])
    lists = schema(b"+l", [int_column()])
    views = [None, (ctypes.c_byte * 32)()]
    wrong = {
        "lacks its Utf8": table(keys, int_values()),
        "alue 7|out of bounds|out of range": table(keys, array(2, [None, ints(0, 7)], (), texts)),
        "1 children, not 0": table(lists, array(2, [None, OFFSETS])),
        "lacks its Int32": table(lists, array(2, [None, OFFSETS], [None])),
        "lacks its children": table(lists, array(2, [None, OFFSETS], n_children=1)),
        "rows of a table cannot be NULL": Producer(
            schema(b"+s", [int_column()]), [array(2, [ints(1)], [int_values()], null_count=1)]
        ),
        "3 buffers, not 2": table(schema(b"vu"), array(2, views)),
        "negative length": table(schema(b"vu"), array(2, [*views, TEXT, (c_int64 * 1)(-1)])),
        "status 22": Producer(schema(b"+s", [int_column()]), failure=22),
        "no columns": Producer(int_column()),
    }
    for reason, producer in wrong.items():
        with pytest.raises(grampus.Error, match=reason):
            con.register("t", producer)


def test_texts_that_are_not_utf8_are_read_as_replacements(con, tmp_path):
    pairs = b"\x01\0\0\0" + b"\x01\0\0\0k" + b"\x02\0\0\0\xff\xfe"
    column = schema(b"i", name=b"caf\xe9", metadata=cast(kept(ctypes.create_string_buffer(pairs)), c_void_p).value)
    grampus.write_orc(table(column, int_values()), tmp_path / "a.orc")
    assert con.read_orc(tmp_path / "a.orc").columns == ["caf\ufffd"]


def test_types_come_back_with_all_they_say(con):
    fields = [
        pa.field("sorted", pa.map_(pa.string(), pa.int32(), keys_sorted=True), metadata={"k": "v"}),
        pa.field("nested", pa.list_(pa.map_(pa.string(), pa.int32(), keys_sorted=True))),
        pa.field("keyed", pa.dictionary(pa.int8(), pa.string(), ordered=True)),
        pa.field("fixed", pa.list_(pa.int16(), 2), nullable=False),
        pa.field("zoned", pa.timestamp("ms", "Europe/Paris")),
    ]
    rows = pa.table([pa.array([], field.type) for field in fields], schema=pa.schema(fields, metadata={"of": "all"}))
    con.register("t", rows)
    found = pa.RecordBatchReader.from_stream(con.sql("SELECT * FROM t")).schema
    assert found.equals(pa.schema(fields), check_metadata=False)
    assert found.field("sorted").metadata == {b"k": b"v"}
