"""Errors, settings, threads, Ctrl-C, the GPU's setting and the progress."""

import os
import signal
import threading
import time

import pyarrow as pa
import pytest

import grampus
from grampus._progress import Progress, line

ENDLESS = "SELECT count(*) FROM range(1, 100000000) a CROSS JOIN range(1, 100000000) b WHERE a.value + b.value < 0"


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELEC 1", "SQL syntax: .*found: SELEC at Line: 1, Column: 1"),
        ("SELECT 'open", "SQL syntax: Unterminated string"),
        ("SELECT * FROM nope", "table 'nope' not found"),
        ("SELECT nope FROM (SELECT 1 AS a)", "No field named nope"),
        ("SELECT * FROM '/no/such.orc'", "/no/such.orc: no such file"),
        ("SELECT 1 / 0", "[Dd]ivide by zero"),
        ("SELECT CAST('x' AS INT)", "[Cc]annot cast string 'x'"),
        ("SET grampus.device = 'abacus'", "one of auto, gpu, prefer, cpu, not 'abacus'"),
        ("SELECT no_such_function(1)", "no_such_function"),
    ],
)
def test_errors_are_in_words(con, query, words):
    with pytest.raises(grampus.Error, match=words) as raised:
        con.sql(query).arrow()
    text = str(raised.value)
    assert "ParserError(" not in text and "DataFusionError" not in text and "{ " not in text and "src/" not in text


@pytest.mark.parametrize(
    "query",
    [
        "SELECT panics(value) FROM range(1, 30000)",
        "SELECT count(*), value % 3 FROM range(1, 30000) WHERE panics(value) > 0 GROUP BY 2",
        "SELECT value FROM range(1, 30000) ORDER BY panics(value) % 7, value",
        "COPY (SELECT panics(value) AS p, value % 3 AS k FROM range(1, 30000)) TO '{}/a/' STORED AS ORC "
        "PARTITIONED BY (k)",
        "COPY (SELECT panics(value) AS p FROM range(1, 30000)) TO '{}/o.orc'",
        "CREATE TABLE made AS SELECT panics(value) AS p FROM range(1, 30000)",
        "EXPLAIN ANALYZE SELECT panics(value) FROM range(1, 30000)",
        "SELECT panics_early(30000)",
    ],
)
def test_panics_are_exceptions_that_name_the_statement_and_the_connection_goes_on(con, tmp_path, query):
    skip_without_panics(con)
    query = query.format(tmp_path)
    for consume in ("arrow", "fetchall"):
        with pytest.raises(grampus.Error, match="no number [0-9]+") as raised:
            getattr(con.sql(query), consume)()
        assert "a fault of the program ended" in str(raised.value)
        assert query[:40] in str(raised.value)
        assert con.sql("SELECT 7 AS n").fetchall() == [(7,)]
        assert not list(tmp_path.iterdir())


def test_panic_in_a_stream_that_others_read_is_an_error_of_the_stream(con):
    skip_without_panics(con)
    relation = con.sql("SELECT panics(value) FROM range(1, 30000)")
    with pytest.raises(Exception, match="no number"):
        pa.RecordBatchReader.from_stream(relation).read_all()
    assert con.sql("SELECT 7 AS n").fetchall() == [(7,)]


def skip_without_panics(con):
    try:
        con.sql("SELECT panics(7)").fetchall()
    except grampus.Error:
        pytest.skip("functions that panic are in the tests' build alone (maturin build --features as-tested)")


def test_damaged_file_is_named(con, tmp_path):
    path = tmp_path / "a.orc"
    path.write_bytes(b"this is no ORC file")
    with pytest.raises(grampus.Error, match="a.orc: not an ORC file"):
        con.read_orc(path)
    with pytest.raises(grampus.Error, match="a.orc: not an ORC file"):
        grampus.layout(path)
    with pytest.raises(OSError, match=str(tmp_path)):
        grampus.layout(tmp_path)
    with pytest.raises(FileNotFoundError, match="no_such.orc"):
        grampus.layout(tmp_path / "no_such.orc")


def test_objects_without_a_stream_are_refused(con):
    with pytest.raises(TypeError, match="int has no __arrow_c_stream__"):
        con.register("t", 5)
    with pytest.raises(grampus.Error, match="no columns"):
        con.register("t", pa.chunked_array([[1, 2]]))


def test_settings_of_connect(tmp_path):
    con = grampus.connect(
        device="cpu", memory_limit="1.5g", threads=2, batch_rows=100, settings={"grampus.prune": False}
    )
    assert con.settings["grampus.device"] == "cpu"
    assert con.settings["grampus.prune"] == "false"
    assert con.settings["datafusion.execution.target_partitions"] == "2"
    assert con.settings["datafusion.execution.batch_size"] == "100"
    con.set("grampus.prune", True)
    assert con.settings["grampus.prune"] == "true"
    assert "device" not in con.describe_setting("grampus.prune")
    for wrong in ({"device": "abacus"}, {"memory_limit": "lots"}, {"threads": 0}, {"settings": {"grampus.nope": 1}}):
        with pytest.raises(grampus.Error):
            grampus.connect(**wrong)


def test_memory_limit_is_kept():
    con = grampus.connect(memory_limit="1m", threads=1)
    query = "SELECT max(cardinality(a)) FROM (SELECT array_agg(value) AS a FROM range(1, 3000000) GROUP BY value % 7)"
    with pytest.raises(grampus.Error, match="memory limit"):
        con.sql(query).arrow()


def test_gpu_without_a_device_is_an_error_with_the_reason(trips):
    con = grampus.connect(device="gpu")
    relation = con.sql(f"SELECT sum(value) FROM '{trips[0]}'")
    reason = ""
    try:
        relation.arrow()
    except grampus.Error as error:
        reason = str(error)
    else:
        assert relation.last_run["device"] == "gpu"
        return
    assert "GPU" in reason or "CUDA" in reason or "libcuda" in reason, reason
    con.set("grampus.device", "prefer")
    assert con.sql(f"SELECT count(value) FROM '{trips[0]}'").fetchall() == [(99_000,)]


def test_reason_for_the_cpu_is_in_the_report(trips):
    con = grampus.connect(device="prefer")
    relation = con.sql(f"SELECT median(value) FROM '{trips[0]}'")
    table = relation.arrow()
    assert relation.last_run["device"] == "cpu"
    assert relation.last_run["reason"]
    assert table.schema.metadata[b"grampus.reason"].decode() == relation.last_run["reason"]


def test_closed_connection_says_so(con):
    con.close()
    assert repr(con) == "<grampus.Connection, closed>"
    with pytest.raises(grampus.Error, match="closed"):
        con.sql("SELECT 1")


def test_sessions_over_one_runtime_have_their_own_tables_and_settings(trips):
    one = grampus.connect(device="cpu", threads=2, memory_limit="1g")
    other = one.session()
    one.register("t", pa.table({"a": [1]}))
    assert other.tables() == []
    assert other.settings["grampus.device"] == "cpu"
    other.set("grampus.device", "auto")
    assert one.settings["grampus.device"] == "cpu"
    one.close()
    assert other.sql(f"SELECT count(*) FROM '{trips[0]}'").fetchall() == [(100_000,)]
    with pytest.raises(grampus.Error, match="closed"):
        one.session()


def interrupt_after(seconds):
    timer = threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    return timer


@pytest.mark.parametrize("way", ["arrow", "fetchall", "df", "pl", "pyarrow", "write"])
def test_ctrl_c_cancels_and_the_connection_goes_on(con, way, tmp_path):
    relation = con.sql(ENDLESS)
    ways = {
        "pyarrow": lambda: pa.table(relation),
        "write": lambda: con.write_orc(relation, tmp_path / "a.orc"),
    }
    timer = interrupt_after(0.3)
    with pytest.raises(KeyboardInterrupt):
        try:
            ways.get(way, lambda: getattr(relation, way)())()
        except Exception:
            time.sleep(5)  # a foreign consumer raises its own exception, and Python the interrupt at its next step
    timer.join()
    assert relation.last_run["stage"] == "failed"
    assert list(tmp_path.iterdir()) == []
    assert con.sql("SELECT 42 AS a").fetchall() == [(42,)]


def test_waiting_holds_no_interpreter_lock(con):
    """Another Python thread goes on counting while this one waits for a query."""
    counted = 0
    done = threading.Event()

    def count():
        nonlocal counted
        while not done.is_set():
            counted += 1
            time.sleep(0.001)

    counter = threading.Thread(target=count)
    counter.start()
    timer = interrupt_after(1.0)
    with pytest.raises(KeyboardInterrupt):
        con.sql(ENDLESS).arrow()
    done.set()
    counter.join()
    timer.join()
    assert counted > 20


def test_threads_share_a_connection(con, trips):
    failures = []

    def ask(start):
        try:
            for at in range(start, start + 3):
                rows = con.sql(f"SELECT count(*) FROM '{trips[0]}' WHERE id < $1", [at * 10]).fetchall()
                assert rows == [(at * 10,)]
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=ask, args=(number * 100,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_forked_child_gets_an_error_and_ends(run_python):
    program = (
        "import os, grampus\n"
        "con = grampus.connect(); con.sql('SELECT 1').arrow()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try: con.sql('SELECT 1')\n"
        "    except grampus.Error as error: print('child:', error, flush=True)\n"
        "    print('new:', grampus.connect().sql('SELECT 2 AS a').fetchall(), flush=True)\n"
        "    os._exit(0)\n"
        "print('status:', os.waitpid(child, 0)[1])\n"
    )
    ran = run_python("-c", program)
    assert ran.returncode == 0, ran.stderr
    assert "before this process was forked" in ran.stdout
    assert "new: [(2,)]" in ran.stdout and "status: 0" in ran.stdout


def test_progress_is_drawn_and_removed(con, capsys):
    progress = Progress(in_notebook=False)
    progress(0.5, 10, 100, 0)
    assert capsys.readouterr().err == ""
    progress(1.5, 50, 100, 3 << 20)
    assert "50% " in capsys.readouterr().err
    progress()
    assert capsys.readouterr().err == "\r\x1b[K"
    assert line(2.0, 0, None, 0) == "2.0 s  (Ctrl-C cancels)"
    assert line(2.0, 5, 4, 0).startswith("2.0 s, 5 rows read")


def test_progress_follows_a_query(capsys):
    con = grampus.connect(progress=True)
    timer = interrupt_after(1.6)
    with pytest.raises(KeyboardInterrupt):
        con.sql(ENDLESS).arrow()
    timer.join()
    drawn = capsys.readouterr().err
    assert "(Ctrl-C cancels)" in drawn and drawn.endswith("\r\x1b[K")
