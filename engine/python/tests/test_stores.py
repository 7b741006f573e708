"""Object stores by URL: a local S3 server and two HTTP servers, from Python and from the program `grampus`.

The program is `$GRAMPUS_PROGRAM`. Without it, its tests are skipped.
"""

import functools
import http.server
import os
import re
import signal
import subprocess
import threading
import time
import urllib.request

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from moto.server import ThreadedMotoServer

import grampus

PROGRAM = os.environ.get("GRAMPUS_PROGRAM")
needs_program = pytest.mark.skipif(not PROGRAM, reason="GRAMPUS_PROGRAM is not set")
ROWS = 300_000
POLICY = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}'


class Bucket:
    """A local S3 server that checks signatures, with the bucket `data` and a user who may use it."""

    def __init__(self):
        self.server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
        self.server.start()
        host, port = self.server.get_host_and_port()
        self.endpoint = f"http://{host}:{port}"
        options = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "endpoint_url": self.endpoint}
        client = functools.partial(boto3.client, region_name="us-east-1")
        iam = client("iam", **options)
        iam.create_user(UserName="reader")
        iam.put_user_policy(UserName="reader", PolicyName="all", PolicyDocument=POLICY)
        key = iam.create_access_key(UserName="reader")["AccessKey"]
        self.key, self.secret = key["AccessKeyId"], key["SecretAccessKey"]
        options |= {"aws_access_key_id": self.key, "aws_secret_access_key": self.secret}
        self.s3 = client("s3", **options)
        self.s3.create_bucket(Bucket="data")
        # From now on each request is checked.
        reset = f"{self.endpoint}/moto-api/reset-auth"
        urllib.request.urlopen(urllib.request.Request(reset, b"0", {"Content-Type": "text/plain"}, method="POST"))

    def environment(self, **changed):
        variables = {
            "AWS_ENDPOINT": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_REGION": "us-east-1",
        }
        return variables | changed

    def options(self, **changed):
        given = {name.lower().replace("aws_", "aws.", 1): value for name, value in self.environment(**changed).items()}
        return ", ".join(f"'{name}' '{value}'" for name, value in given.items())

    def names(self, prefix=""):
        listed = self.s3.list_objects_v2(Bucket="data", Prefix=prefix)
        return [entry["Key"] for entry in listed.get("Contents", [])]


@pytest.fixture(scope="module")
def bucket(tmp_path_factory):
    bucket = Bucket()
    folder = tmp_path_factory.mktemp("trips")
    ids = range(ROWS)
    trips = pa.table({"id": pa.array(ids), "half": [i / 2 for i in ids], "zone": [i % 7 for i in ids]})
    grampus.write_orc(trips, folder / "trips.orc", stripe_rows=50_000)
    pq.write_table(trips, folder / "trips.parquet", row_group_size=50_000)
    (folder / "zones.csv").write_text("zone,name\n" + "".join(f"{i},zone {i}\n" for i in range(7)))
    for name in ("trips.orc", "trips.parquet", "zones.csv"):
        bucket.s3.upload_file(str(folder / name), "data", f"in/{name}")
    yield bucket
    bucket.server.stop()


@pytest.fixture
def credentials(bucket, monkeypatch):
    for name, value in bucket.environment().items():
        monkeypatch.setenv(name, value)


def message(con, query):
    with pytest.raises(grampus.Error) as raised:
        relation = con.sql(query)
        if relation is not None:
            relation.arrow()
    return str(raised.value)


def test_orc_parquet_and_csv_of_a_bucket_are_joined(con, bucket, credentials):
    query = """
        SELECT z.name, count(*) AS n, sum(o.half) AS o, sum(p.half) AS p
        FROM 's3://data/in/trips.orc' o JOIN 's3://data/in/*.parquet' p USING (id)
        JOIN 's3://data/in/zones.csv' z ON z.zone = o.zone WHERE o.id >= 100000 GROUP BY z.name ORDER BY z.name
    """
    rows = con.sql(query).arrow().to_pylist()
    assert [row["name"] for row in rows] == [f"zone {i}" for i in range(7)]
    for zone, row in enumerate(rows):
        ids = [i for i in range(100_000, ROWS) if i % 7 == zone]
        assert (row["n"], row["o"], row["p"]) == (len(ids), sum(ids) / 2, sum(ids) / 2)


def test_written_objects_are_read_back(con, bucket, credentials):
    whole = "SELECT * FROM 's3://data/in/trips.orc'"
    for target, stored in (
        ("out/copy.orc", ""),
        ("out/copy.parquet", ""),
        ("out/orc/", "STORED AS ORC PARTITIONED BY (zone)"),
        ("out/parquet/", "STORED AS PARQUET PARTITIONED BY (zone)"),
    ):
        con.sql(f"COPY ({whole}) TO 's3://data/{target}' {stored}").arrow()
    for place in ("copy.orc", "copy.parquet", "orc/"):
        rows = con.sql(f"SELECT count(*) AS n, sum(half) AS s, max(zone) AS z FROM 's3://data/out/{place}'").arrow()
        assert rows.to_pylist() == [{"n": ROWS, "s": sum(range(ROWS)) / 2, "z": 6}], place
    con.sql("CREATE EXTERNAL TABLE parts STORED AS PARQUET PARTITIONED BY (zone) LOCATION 's3://data/out/parquet/'")
    rows = con.sql("SELECT count(*) AS n FROM parts WHERE zone = '3'").arrow().to_pylist()
    assert rows == [{"n": len(range(3, ROWS, 7))}]
    con.sql("CREATE EXTERNAL TABLE more STORED AS ORC LOCATION 's3://data/out/orc/'")
    con.sql("INSERT INTO more VALUES (-1, -0.5, 3)").arrow()
    assert con.sql("SELECT min(id) AS least FROM more").arrow().to_pylist() == [{"least": -1}]


def test_options_hold_for_their_table_only(con, bucket):
    for stored, name in (("ORC", "trips.orc"), ("PARQUET", "trips.parquet"), ("CSV", "zones.csv")):
        con.sql(
            f"CREATE EXTERNAL TABLE right_{stored} STORED AS {stored} LOCATION 's3://data/in/{name}' "
            f"OPTIONS ({bucket.options()})"
        )
        text = message(
            con,
            f"CREATE EXTERNAL TABLE wrong_{stored} STORED AS {stored} LOCATION 's3://data/in/{name}' "
            f"OPTIONS ({bucket.options(AWS_SECRET_ACCESS_KEY='S3CRET')})",
        )
        assert f"s3://data/in/{name}: " in text and "403 Forbidden" in text and "S3CRET" not in text
        assert con.sql(f"SELECT count(*) AS n FROM right_{stored}").arrow().num_rows == 1
    con.sql(f"COPY (SELECT 1 AS a) TO 's3://data/out/options.orc' OPTIONS ({bucket.options()})").arrow()
    assert bucket.names("out/options") == ["out/options.orc"]
    text = message(con, f"COPY (SELECT 1) TO 's3://data/x.orc' OPTIONS ({bucket.options(AWS_REGOIN='x')})")
    assert "aws.regoin is no option of ORC or of the location's store; did you mean aws.region?" in text


def test_wrong_credentials_and_places_are_named(con, bucket, credentials, monkeypatch):
    text = message(con, "SELECT * FROM 's3://absent/in/trips.orc'")
    assert "s3://absent" in text and "no such bucket" in text
    text = message(con, "SELECT * FROM 's3://data/in/absent.orc'")
    assert "s3://data/in/absent.orc: " in text
    text = message(con, "COPY (SELECT 1) TO 's3://absent/a.orc'")
    assert "s3://absent/a.orc: no such bucket" in text
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "S3CRET")
    with grampus.connect() as other:
        for name in ("trips.orc", "trips.parquet", "zones.csv"):
            text = message(other, f"SELECT * FROM 's3://data/in/{name}'")
            assert f"s3://data/in/{name}: " in text and "403 Forbidden" in text
            assert "AWS_SECRET_ACCESS_KEY" in text and "S3CRET" not in text


@pytest.mark.parametrize("end", ["orc", "parquet", "csv", "json", "arrow"])
def test_failed_copy_leaves_no_object(con, bucket, credentials, end):
    rows = "SELECT repeat('x', 100) AS t, 10 / (290000 - value) AS a FROM generate_series(1, 300000)"
    assert "ivide by zero" in message(con, f"COPY ({rows}) TO 's3://data/failed/a.{end}'")
    assert bucket.names("failed/") == []
    uploads = bucket.s3.list_multipart_uploads(Bucket="data").get("Uploads", [])
    assert [upload["Key"] for upload in uploads if upload["Key"].startswith("failed/")] == []


def program(bucket, *arguments, **changed):
    environment = os.environ | bucket.environment(**changed) | {"NO_COLOR": "1"}
    return subprocess.Popen(
        [PROGRAM, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
    )


@needs_program
def test_program_reads_writes_and_explains(bucket):
    query = "SELECT count(*) AS n, sum(half) AS s FROM trips WHERE id < 1000"
    asked = program(bucket, "--format", "csv", "s3://data/in/trips.orc", "-c", query)
    assert (asked.communicate(timeout=60)[0], asked.returncode) == (b"n,s\n1000,249750.0\n", 0)
    query = "COPY (SELECT * FROM trips WHERE id < 10) TO 's3://data/out/cli.parquet'"
    assert program(bucket, "-t", "trips=s3://data/in/trips.parquet", "-c", query).wait(timeout=60) == 0
    assert "out/cli.parquet" in bucket.names("out/")
    asked = program(bucket, "s3://data/in/trips.orc", AWS_SECRET_ACCESS_KEY="S3CRET")
    text = asked.communicate(timeout=60)[1].decode()
    assert asked.returncode == 1 and re.search("error: s3://data/in/trips.orc: .*403 Forbidden", text)
    assert "hint: set AWS_ACCESS_KEY_ID" in text and "S3CRET" not in text


@needs_program
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_killed_program_leaves_no_object(bucket, end):
    query = "COPY (SELECT value, value % 3 AS p FROM generate_series(1, 1000000000)) TO 's3://data/killed/' \
             STORED AS ORC PARTITIONED BY (p) OPTIONS (stripe_rows 100000)"
    killed = program(bucket, "-q", "-c", query)
    time.sleep(3)
    assert killed.poll() is None
    killed.send_signal(end)
    killed.wait(timeout=60)
    assert bucket.names("killed/") == []


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class WithRanges(Quiet):
    """Answers one range of a file, as servers of static files do."""

    def do_GET(self):
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not wanted:
            return super().do_GET()
        with open(self.translate_path(self.path), "rb") as file:
            content = file.read()
        first, last = int(wanted[1]), min(int(wanted[2]), len(content) - 1)
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
        self.send_header("Content-Length", str(last - first + 1))
        self.send_header("Last-Modified", self.date_time_string(int(os.path.getmtime(self.translate_path(self.path)))))
        self.end_headers()
        self.wfile.write(content[first : last + 1])


@pytest.fixture(params=[Quiet, WithRanges], ids=["whole files", "ranges"])
def web(request, tmp_path):
    rows = pa.table({"a": [1, 2, 3]})
    grampus.write_orc(rows, tmp_path / "a.orc")
    pq.write_table(rows, tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("a\n1\n2\n3\n")
    handler = functools.partial(request.param, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield request.param is WithRanges, f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_http_servers_with_and_without_ranges(con, web):
    has_ranges, url = web
    for name in ("a.csv", "a.orc", "a.parquet"):
        query = f"SELECT sum(a) AS s FROM '{url}/{name}'"
        if has_ranges or name == "a.csv":
            assert con.sql(query).arrow().to_pylist() == [{"s": 6}]
        else:
            text = message(con, query)
            assert f"{url}/{name}" in text and "sends whole files only (no HTTP ranges)" in text
    for absent in ("absent.csv", "absent.orc", "folder/"):
        text = message(con, f"SELECT * FROM '{url}/{absent}'")
        assert f"{url}/{absent.rstrip('/')}: no such file, or a folder, which the server does not list" in text
    text = message(con, f"COPY (SELECT 1) TO '{url}/b.orc'")
    assert f"{url}/b.orc: the server takes no uploads" in text
