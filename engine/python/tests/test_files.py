"""Files of other formats than ORC as relations."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import grampus


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.csv").write_text("id,name\n1,x\n2,\"y,z\"\n")
    (tmp_path / "b.csv").write_text("id,name\n3,w\n")
    (tmp_path / "odd.txt").write_text("1;'x;y'\n# a comment\n2;'z'\n")
    with gzip.open(tmp_path / "packed", "wt") as file:
        file.write("id\n5\n")
    (tmp_path / "a.json").write_text('{"id": 1, "name": "x"}\n{"id": 2, "name": null}\n')
    (tmp_path / "list.json").write_text(json.dumps([{"id": 7}, {"id": 8}]))
    for year in (2020, 2021):
        (tmp_path / "hive" / f"year={year}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [year - 2000]}), tmp_path / "hive" / f"year={year}" / "a.parquet")
    return tmp_path


def test_csv(con, folder):
    assert con.read_csv(folder / "a.csv").order("id").fetchall() == [(1, "x"), (2, "y,z")]
    several = con.read_csv([folder / "a.csv", str(folder / "b.csv")], filename=True)
    names = [(row[0], row[2].rpartition("/")[2]) for row in several.order("id").fetchall()]
    assert names == [(1, "a.csv"), (2, "a.csv"), (3, "b.csv")]
    assert len(con.read_csv(f"{folder}/*.csv")) == 3
    odd = con.read_csv(folder / "odd.txt", header=False, sep=";", quotechar="'", comment="#", sample_size=-1)
    assert odd.order("1").fetchall() == [(1, "x;y"), (2, "z")]
    assert con.read_csv(folder / "packed", compression="gzip").fetchall() == [(5,)]
    assert grampus.read_csv(folder / "b.csv", header=True).fetchall() == [(3, "w")]


def test_json(con, folder):
    assert con.read_json(folder / "a.json").order("id").to_dicts() == [{"id": 1, "name": "x"}, {"id": 2, "name": None}]
    assert con.read_json(folder / "list.json", format="array").order("id").fetchall() == [(7,), (8,)]
    assert len(grampus.read_json(folder / "a.json")) == 2


def test_parquet(con, folder):
    relation = con.read_parquet(folder / "hive")
    assert sorted(relation.select("id", "year").fetchall()) == [(20, 2020), (21, 2021)]
    assert con.read_parquet(f"{folder}/hive/*/*.parquet").filter("id = 21").select("id").fetchall() == [(21,)]
    assert len(grampus.read_parquet([folder / "hive" / "year=2020" / "a.parquet"], filename=True).columns) >= 2


def test_orc(con, folder):
    grampus.write_orc(pa.table({"id": [9]}), folder / "a.orc")
    assert con.scan_orc(folder / "a.orc").fetchall() == grampus.scan_orc(folder / "a.orc").fetchall() == [(9,)]


def test_errors_name_the_file(con, folder):
    for read in (con.read_csv, con.read_json, con.read_parquet, con.read_orc):
        with pytest.raises(grampus.Error, match="nothing here"):
            read(folder / "nothing here")
        with pytest.raises(grampus.ProgrammingError, match="at least one path"):
            read([])
    with pytest.raises(grampus.ProgrammingError, match="sep is one character, not 'ab'"):
        con.read_csv(folder / "a.csv", sep="ab")
    with pytest.raises(TypeError, match="separator"):
        con.read_csv(folder / "a.csv", separator=";")
    with pytest.raises(grampus.Error, match="a.csv"):
        con.read_parquet(folder / "a.csv")
