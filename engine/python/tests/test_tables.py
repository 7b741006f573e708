"""Tables from and to other libraries and files."""

import decimal
import sys

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.orc
import pytest

import grampus


def test_every_type_goes_to_orc_and_back(con, every_type, tmp_path):
    for compression in ("none", "zlib", "snappy", "lz4", "zstd"):
        path = tmp_path / f"{compression}.orc"
        written = con.write_orc(every_type, path, compression=compression)
        assert written == {"rows": 3, "bytes": path.stat().st_size}
        found = con.read_orc(path).arrow()
        assert found.to_pylist() == every_type.to_pylist()
        theirs = pyarrow.orc.read_table(path)
        assert theirs.column_names == every_type.column_names
        assert theirs.drop(["instant"]).to_pylist() == every_type.drop(["instant"]).to_pylist()


def test_file_of_pyarrow_is_read(con, every_type, tmp_path):
    path = tmp_path / "theirs.orc"
    pyarrow.orc.write_table(every_type, path)
    assert con.read_orc(path).arrow().to_pylist() == every_type.to_pylist()


def test_every_type_is_registered_without_a_change(con, every_type):
    more = pa.table(
        {
            "u64": pa.array([0, None, 2**64 - 1], pa.uint64()),
            "f16": pa.array([0.5, None, 1.0], pa.float16()),
            "large": pa.array(["a", None, "b"], pa.large_string()),
            "view": pa.array(["short", None, "longer than twelve bytes"], pa.string_view()),
            "fixed": pa.array([b"ab", None, b"cd"], pa.binary(2)),
            "codes": pa.array(["x", None, "x"]).dictionary_encode(),
            "wide": pa.array([decimal.Decimal(1), None, decimal.Decimal(10**50)], pa.decimal256(60, 0)),
            "time": pa.array([1, None, 86_399_999_999], pa.time64("us")),
            "duration": pa.array([1, None, -5], pa.duration("ms")),
            "coordinates": pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float64(), 2)),
            "nothing": pa.nulls(3),
        }
    )
    table = every_type
    for name in more.column_names:
        table = table.append_column(more.schema.field(name), more[name])
    # Slices have offsets in their buffers, and bits of NULLs that begin within a byte.
    twice = pa.concat_tables([table, table.slice(1)])
    for part in (table, table.slice(1), table.slice(2, 1), table.slice(0, 0), twice):
        con.register("t", part)
        found = con.table("t").arrow().replace_schema_metadata(None)
        found.validate(full=True)
        assert found.schema == part.schema
        assert found.equals(part), found.schema


def test_frames_of_pandas_and_polars_are_tables(con):
    frame = pd.DataFrame({"a": [1, 2, 3], "c": pd.Categorical(["x", "y", "x"]), "s": ["p", None, "q"]})
    con.register("pandas_frame", frame)
    assert con.sql("SELECT c, sum(a) FROM pandas_frame GROUP BY c ORDER BY c").fetchall() == [("x", 4), ("y", 2)]
    con.register("polars_frame", pl.DataFrame({"a": [1, 2], "t": ["longer than twelve bytes", None]}))
    assert con.sql("SELECT t, a FROM polars_frame WHERE a = 1").fetchall() == [("longer than twelve bytes", 1)]
    joined = "SELECT p.s, q.t FROM pandas_frame p JOIN polars_frame q ON p.a = q.a ORDER BY p.a"
    assert con.sql(joined).fetchall() == [("p", "longer than twelve bytes"), (None, None)]


def test_pandas_round_trip_keeps_types(con, trips):
    frame = con.sql(f"SELECT * FROM '{trips[0]}' ORDER BY id").df()
    con.register("frame", frame)
    again = con.sql("SELECT * FROM frame ORDER BY id").df()
    pd.testing.assert_frame_equal(frame, again)


def test_reader_is_read_once_and_scanned_often(con):
    table = pa.table({"a": range(10)})
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=3))
    con.register("r", reader)
    for _ in range(2):
        assert con.sql("SELECT count(*), sum(a) FROM r").fetchall() == [(10, 45)]


def test_producers_error_is_the_cause(con):
    def batches():
        yield pa.record_batch({"a": [1]})
        raise ValueError("the disk is on fire")

    schema = pa.schema({"a": pa.int64()})
    with pytest.raises(grampus.Error, match="the disk is on fire"):
        con.register("r", pa.RecordBatchReader.from_batches(schema, batches()))
    assert con.tables() == []


def test_relation_is_registered_as_a_view(con, trips):
    con.register("recent", con.read_orc(trips[0]).filter("id >= 99990"))
    assert con.sql("SELECT count(*) FROM recent WHERE kind = 'a'").fetchall() == [(2,)]
    assert "OrcScanExec" in con.sql("SELECT count(*) FROM recent").explain()
    other = grampus.connect()
    other.register("copied", con.table("recent"))
    assert other.sql("SELECT count(*) FROM copied").fetchall() == [(10,)]
    con.unregister("recent")
    with pytest.raises(grampus.Error, match="no table named recent"):
        con.unregister("recent")


def test_names_with_capitals_and_quotes(con):
    con.register('My "Table"', pa.table({"VendorID": [1]}))
    assert con.table('My "Table"').fetchall() == [(1,)]
    con.register("Other", pa.table({"VendorID": [1]}))
    assert con.sql("SELECT vendorid FROM other").columns == ["VendorID"]


def test_several_paths_are_one_table(con, tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"day={name}").mkdir()
        grampus.write_orc(pa.table({"x": [1]}), tmp_path / f"day={name}" / "f.orc")
    assert con.read_orc(tmp_path).select("x", "day").df().sort_values("day").values.tolist() == [[1, "a"], [1, "b"]]
    assert len(con.read_orc([tmp_path / "day=a" / "f.orc", str(tmp_path / "day=b" / "f.orc")]).fetchall()) == 2
    assert len(con.read_orc(f"{tmp_path}/*/*.orc").fetchall()) == 2


def test_layout_is_the_files(trips):
    path, table = trips
    report = grampus.layout(path)
    assert (report["rows"], report["file_length"], report["problems"]) == (100_000, path.stat().st_size, [])
    assert [stripe["rows"] for stripe in report["stripes"]] == [40_000, 40_000, 20_000]


def test_failed_write_leaves_nothing(con, tmp_path):
    path = tmp_path / "a.orc"
    with pytest.raises(grampus.Error, match="u: .*cast it to Int64"):
        grampus.write_orc(pa.table({"u": pa.array([1], pa.uint64())}), path)
    with pytest.raises(grampus.Error, match="[Dd]ivide by zero"):
        con.write_orc(con.sql("SELECT 1 / (v - 5) AS a FROM (VALUES (5)) AS t(v)"), path)
    with pytest.raises(grampus.Error, match="compression is none, zlib"):
        grampus.write_orc(pa.table({"a": [1]}), path, compression="rar")
    with pytest.raises(grampus.Error, match="no option stripes"):
        grampus.write_orc(pa.table({"a": [1]}), path, stripes=1)
    assert list(tmp_path.iterdir()) == []
    grampus.write_orc(pa.table({"a": [1]}), path)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        grampus.write_orc(pa.table({"a": [2]}), path)
    assert con.read_orc(path).fetchall() == [(1,)]
    with pytest.raises(OSError, match="cannot write"):
        grampus.write_orc(pa.table({"a": [1]}), path / "under_a_file.orc")


def test_import_needs_no_other_library_and_no_cuda(run_python):
    program = (
        "import sys, grampus; grampus.connect().sql('SELECT 1');"
        "print(sorted(m for m in sys.modules if m in ('pandas', 'polars', 'pyarrow', 'torch')));"
        "print([line for line in open('/proc/self/maps') if 'libcuda' in line or 'nvrtc' in line])"
    )
    ran = run_python("-c", program)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["[]", "[]"]


def test_map_entries_of_files_and_tables(con, tmp_path):
    kind = pa.map_(pa.string(), pa.field("v", pa.int32(), nullable=False))
    table = pa.table({"i": [0, 1], "m": pa.array([[("a", 1), ("b", 2)], None], kind)})
    expected = [[{"key": "a", "value": 1}, {"key": "b", "value": 2}], None]
    grampus.write_orc(table, tmp_path / "m.orc")
    con.register("given", table)
    for source in (f"'{tmp_path / 'm.orc'}'", "given"):
        found = con.sql(f"SELECT map_entries(m) AS e FROM {source} ORDER BY i").arrow()
        assert found.column("e").to_pylist() == expected
