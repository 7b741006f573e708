//! Passwords, keys and tokens, in each place that takes one: no output and no file of the program has them.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// What no output may have: within a password, a key and a token, decoded and as in a URL.
const MARKER: &str = "Hidd3nM4rk";
const PASSWORD: &str = "Hidd3nM4rk%2F%40%27q";
const KEY: &str = "Hidd3nM4rk/+k3y";

/// Files by path, which the server keeps in memory. It asks for a password below `/private/`.
fn serve(mut stream: TcpStream, files: &[(&str, Vec<u8>)], authorization: &str) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = Vec::new();
    for line in reader.by_ref().lines().map_while(Result::ok) {
        if line.is_empty() {
            break;
        }
        head.push(line);
    }
    let Some(first) = head.first() else { return };
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let header = |name: &str| {
        let mut lines = head.iter().filter_map(|line| line.split_once(": "));
        lines
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.to_owned())
    };
    let length = header("content-length").map_or(0, |length| length.parse().unwrap());
    std::io::copy(&mut reader.take(length), &mut std::io::sink()).unwrap();
    let file = files.iter().find(|(known, _)| *known == path);
    let is_allowed = !path.starts_with("/private/") || header("authorization").as_deref() == Some(authorization);
    let (status, body) = match (method, file) {
        _ if !is_allowed => ("401 Unauthorized", &[][..]),
        ("PUT", _) => ("201 Created", &[][..]),
        ("GET" | "HEAD", Some((_, bytes))) => match header("range").and_then(|range| bounds(&range, bytes.len())) {
            Some((from, to)) => ("206 Partial Content", &bytes[from..to]),
            None => ("200 OK", &bytes[..]),
        },
        _ => ("404 Not Found", &[][..]),
    };
    let (total, sent) = (file.map_or(0, |(_, bytes)| bytes.len()), body.len());
    let range = match header("range").and_then(|range| bounds(&range, total)) {
        Some((from, to)) if status.starts_with("206") => format!("Content-Range: bytes {from}-{}/{total}\r\n", to - 1),
        _ => String::new(),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {sent}\r\nETag: \"1\"\r\nAccept-Ranges: bytes\r\n\
         Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n{range}Connection: close\r\n\r\n"
    );
    let body = if method == "HEAD" { &[][..] } else { body };
    // The client may have gone away.
    let _ = stream.write_all(&[head.as_bytes(), body].concat());
}

fn bounds(range: &str, length: usize) -> Option<(usize, usize)> {
    let (from, to) = range.strip_prefix("bytes=")?.split_once('-')?;
    match (from.parse::<usize>(), to.parse::<usize>()) {
        (Ok(from), Ok(to)) => Some((from, (to + 1).min(length))),
        (Ok(from), Err(_)) => Some((from, length)),
        (Err(_), Ok(last)) => Some((length.saturating_sub(last), length)),
        _ => None,
    }
}

struct World {
    folder: tempfile::TempDir,
    address: String,
}

impl World {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sql = "COPY (SELECT 1 AS a, 'x' AS s) TO 'a.orc'; COPY (SELECT 1 AS a, 'x' AS s) TO 'a.csv'; \
                   COPY (SELECT 1 AS a, 'x' AS s) TO 'a.parquet'";
        let made = grampus_test_support::program(env!("CARGO_BIN_EXE_grampus"))
            .args(["-q", "-c", sql])
            .current_dir(&folder)
            .output();
        assert!(made.unwrap().status.success());
        let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
        let files = [
            "/private/a.orc",
            "/private/a.csv",
            "/private/a.parquet",
            "/bucket/a.csv",
            "/bucket/a.parquet",
        ];
        let files = files.map(|path| (path, read(path.rsplit('/').next().unwrap())));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        // "u:Hidd3nM4rk/@'q" in base64.
        let authorization = "Basic dTpIaWRkM25NNHJrL0AncQ==";
        std::thread::spawn(move || {
            std::thread::scope(|scope| {
                for stream in listener.incoming() {
                    let files = &files;
                    scope.spawn(move || serve(stream.unwrap(), files, authorization));
                }
            });
        });
        Self { folder, address }
    }

    fn url(&self, file: &str) -> String {
        format!("http://u:{PASSWORD}@{}/private/{file}", self.address)
    }

    /// The output of a run, which has no secret. Whether it succeeds is for the caller.
    fn run(&self, arguments: &[&str], environment: &[(&str, &str)]) -> (bool, String) {
        let mut command = grampus_test_support::program(env!("CARGO_BIN_EXE_grampus"));
        command.args(arguments).current_dir(&self.folder).stdin(Stdio::null());
        for home in ["HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"] {
            command.env(home, self.folder.path());
        }
        let output = command.envs(environment.iter().copied()).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        let place = text
            .find(MARKER)
            .map(|at| text[..at + MARKER.len()].lines().last().unwrap_or("").to_owned());
        assert_eq!(place, None, "{arguments:?}");
        (output.status.success(), text)
    }

    /// As [`run`](Self::run), of statements that succeed, with all of the log.
    fn sql(&self, sql: &str) -> String {
        let (is_done, text) = self.run(&["-vv", "-p", "2", "-c", sql], &[]);
        assert!(is_done, "{sql}: {text}");
        text
    }

    /// As [`run`](Self::run), of statements that fail, with all of the log.
    fn refused(&self, sql: &str) -> String {
        let (is_done, text) = self.run(&["-vv", "-c", sql], &[]);
        assert!(!is_done, "{sql}: {text}");
        text
    }
}

/// Files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let below = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    entries.flat_map(below).collect()
}

#[test]
fn passwords_of_urls_are_in_no_output() {
    let world = World::start();
    for file in ["a.orc", "a.csv", "a.parquet"] {
        let url = world.url(file);
        let format = file.rsplit('.').next().unwrap();
        for explain in [
            "",
            "EXPLAIN",
            "EXPLAIN VERBOSE",
            "EXPLAIN ANALYZE",
            "EXPLAIN ANALYZE VERBOSE",
            "EXPLAIN FORMAT TREE",
        ] {
            world.sql(&format!(
                "{explain} SELECT s, count(*) FROM '{url}' WHERE a > 0 GROUP BY s ORDER BY s"
            ));
        }
        let plan = world.sql(&format!(
            "EXPLAIN SELECT * FROM '{url}' AS x JOIN '{url}' AS y ON x.a = y.a"
        ));
        assert!(
            plan.contains(&format!("http://u:***@{}/private/{file}", world.address)),
            "{plan}"
        );
        world.sql(&format!(
            "DESCRIBE '{url}'; SUMMARIZE '{url}'; EXPLAIN SUMMARIZE '{url}'"
        ));
        world.sql(&format!(
            "CREATE EXTERNAL TABLE h STORED AS {format} LOCATION '{url}'; SHOW CREATE TABLE h;\n\\d\n\\d h\n \
             EXPLAIN FROM h; SELECT * FROM information_schema.tables; SELECT * FROM information_schema.columns; \
             DESCRIBE h; SELECT * FROM information_schema.df_settings; SHOW TABLES; SHOW COLUMNS FROM h; SHOW ALL"
        ));
        world.sql(&format!(
            "CREATE VIEW v AS SELECT * FROM '{url}'; SHOW CREATE TABLE v; SELECT * FROM information_schema.views; \
             EXPLAIN VERBOSE SELECT * FROM v; PREPARE p AS SELECT * FROM '{url}' WHERE a = $1; EXECUTE p(1); \
             CREATE TABLE m AS SELECT * FROM '{url}'; EXPLAIN CREATE TABLE n AS SELECT * FROM '{url}'"
        ));
        let call = format!("read_{}('{url}')", format.to_lowercase());
        world.sql(&format!(
            "EXPLAIN VERBOSE SELECT * FROM {call}; SELECT * FROM {call}; SELECT * FROM glob('{url}'); \
             CREATE VIEW w AS SELECT * FROM {call}; SHOW CREATE TABLE w; EXPLAIN SELECT * FROM w; \
             CREATE TABLE k AS SELECT * FROM {call}; COPY k FROM '{url}'"
        ));
        world.refused(&format!("SELECT nope FROM {call}"));
        for explain in ["EXPLAIN", "EXPLAIN VERBOSE", ""] {
            world.sql(&format!(
                "{explain} COPY (SELECT * FROM '{url}') TO '{}'",
                world.url(&format!("out.{format}"))
            ));
        }
        for table in [format!("t={url}"), url.clone()] {
            let name = if table.starts_with("t=") { "t" } else { "a" };
            let (is_done, text) = world.run(
                &[
                    "-vv",
                    "--io",
                    "-t",
                    &table,
                    "-c",
                    &format!("EXPLAIN VERBOSE FROM {name}"),
                ],
                &[],
            );
            assert!(is_done || !table.starts_with("t="), "{text}");
            let (is_done, text) = world.run(
                &["-vv", "--io", &table, "-c", &format!("EXPLAIN VERBOSE FROM {name}")],
                &[],
            );
            assert!(is_done || table.starts_with("t="), "{text}");
        }
        world.refused(&format!("SELECT nope FROM '{url}'"));
        world.refused(&format!("SELECT a FROM '{url}' x, '{url}' y"));
        world.refused(&format!("SELECT FROM FROM '{url}' oops oops"));
        world.refused(&format!("SELECT s / 0 FROM '{url}'"));
        world.refused(&format!("DELETE FROM '{url}'"));
        world.refused(&format!("INSERT INTO '{url}' SELECT 1, 'y'"));
        world.refused(&format!("INSERT OVERWRITE '{url}' SELECT 1, 'y'"));
    }
    world.refused(&format!("FROM '{}'", world.url("no.csv")));
    world.refused(&format!("FROM 'http://v:{MARKER}@{}/private/a.csv'", world.address));
    world.refused(&format!("FROM 'ftp://v:{MARKER}@host/a.csv'"));
    world.refused(&format!("FROM 'http://v:{MARKER}/x@{}/private/a.csv'", world.address));
    for path in files(world.folder.path()) {
        let text = fs::read(&path).unwrap();
        assert!(!String::from_utf8_lossy(&text).contains(MARKER), "{}", path.display());
    }
}

/// A text is no place for files: it stays as it is.
#[test]
fn urls_in_texts_are_values() {
    let world = World::start();
    let command = [
        "-q",
        "--format",
        "csv",
        "-c",
        "SELECT 'http://u:word@host/' AS a, 'x' AS token, '***' AS s",
    ];
    assert_eq!(world.run(&command, &[]).1, "a,token,s\nhttp://u:word@host/,x,***\n");
}

#[test]
fn values_of_secret_options_are_in_no_output() {
    let world = World::start();
    let s3 = format!(
        "'aws.endpoint' 'http://{}', 'aws.allow_http' 'true', 'aws.region' 'x', 'aws.access_key_id' '{KEY}', \
         'aws.secret_access_key' '{KEY}', aws.session_token '{KEY}'",
        world.address
    );
    for format in ["csv", "parquet"] {
        let create =
            format!("CREATE EXTERNAL TABLE t STORED AS {format} LOCATION 's3://bucket/a.{format}' OPTIONS ({s3})");
        let text = world.sql(&format!(
            "{create}; SHOW CREATE TABLE t; EXPLAIN VERBOSE SELECT * FROM t; FROM t;\n\\d\n\\d t\n"
        ));
        assert!(text.contains("LOCATION 's3://bucket/a."), "{text}");
        world.sql(&format!("EXPLAIN {create}"));
    }
    for format in ["csv", "parquet", "orc"] {
        for explain in ["EXPLAIN", "EXPLAIN VERBOSE", ""] {
            let copy = format!("COPY (SELECT 1 AS a) TO 's3://bucket/o.{format}' STORED AS {format} OPTIONS ({s3})");
            world.sql(&format!("{explain} {copy}"));
        }
    }
    for (location, options) in [
        ("s3://bucket/a.csv", format!("'aws.secret_acess_key' '{KEY}'")),
        (
            "s3://bucket/a.csv",
            format!("'aws.region' 'x', 'aws.sse_customer_key_base64' '{KEY}', 'nonsense' '{KEY}'"),
        ),
        ("a.csv", format!("'aws.secret_access_key' '{KEY}'")),
        (
            "gs://bucket/a.csv",
            format!("'google.service_account_key' '{{\"private_key\": \"{KEY}\"}}'"),
        ),
        (
            "abfss://c@account.dfs.core.windows.net/a.csv",
            format!("'azure.account_key' '{KEY}!'"),
        ),
        (
            "az://c/a.csv",
            format!("'azure.sas_token' '{KEY}', 'azure.account_name' '{KEY}'"),
        ),
        (
            "s3://bucket/a.csv",
            format!("'aws.endpoint' 'http://u:{MARKER}@host', 'aws.region' 'x'"),
        ),
        ("s3://bucket/a.csv", format!("'aws.secret_access_key' '{KEY}' 'oops'")),
        ("s3://bucket/a.csv", format!("'aws.secret_access_key' '{KEY}")),
    ] {
        world.refused(&format!(
            "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{location}' OPTIONS ({options})"
        ));
        for explain in ["EXPLAIN VERBOSE", ""] {
            let (_, text) = world.run(
                &[
                    "-vv",
                    "-c",
                    &format!("{explain} COPY (SELECT 1) TO '{location}' STORED AS CSV OPTIONS ({options})"),
                ],
                &[],
            );
            assert!(!text.contains("panicked"), "{text}");
        }
    }
    let made =
        format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 's3://bucket/new/' OPTIONS ({s3}) AS SELECT 1 AS a");
    for explain in ["EXPLAIN VERBOSE", ""] {
        world.run(&["-vv", "-c", &format!("{explain} {made}; SHOW CREATE TABLE t")], &[]);
    }
}

#[test]
fn secrets_of_the_environment_are_in_no_output() {
    let world = World::start();
    let endpoint = format!("http://{}", world.address);
    let environment = [
        ("AWS_ENDPOINT", endpoint.as_str()),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_ACCESS_KEY_ID", KEY),
        ("AWS_SECRET_ACCESS_KEY", KEY),
        ("AWS_SESSION_TOKEN", KEY),
        ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
        ("AZURE_STORAGE_ACCOUNT_KEY", KEY),
        ("GOOGLE_SERVICE_ACCOUNT_KEY", KEY),
    ];
    for (sql, is_good) in [
        ("EXPLAIN ANALYZE SELECT * FROM 's3://bucket/a.csv'; SHOW ALL", true),
        ("EXPLAIN VERBOSE COPY (SELECT 1 AS a) TO 's3://bucket/o.orc'", true),
        ("SELECT * FROM 's3://bucket/no.csv'", false),
        ("SELECT * FROM 'gs://bucket/a.csv'", false),
        ("SELECT * FROM 'az://container/a.csv'", false),
    ] {
        for verbose in ["-q", "-vv"] {
            // Azure's and Google's servers are not asked: their keys are no keys.
            let (is_done, text) = world.run(&[verbose, "-c", sql], &environment);
            assert_eq!(is_done, is_good, "{sql}: {text}");
        }
    }
}
