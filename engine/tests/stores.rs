//! Object stores by URL: what a user reads if a store refuses, is away or is no such store.
//!
//! A server in this process answers each request by a function. The requests and answers are those of S3's and HTTP's
//! specifications. The Python package's tests use whole servers.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use datafusion::prelude::SessionContext;
use grampus::GrampusConfig;

/// A request: its first line and its headers, in small letters.
type Request = Vec<String>;

/// A server that answers each request by a status line, headers and a body.
struct Server {
    address: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    fn start(answer: impl Fn(&Request) -> (String, Vec<u8>) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer) = (Arc::clone(&requests), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                std::thread::spawn(move || serve(stream.unwrap(), &seen, answer.as_ref()));
            }
        });
        Self { address, requests }
    }

    fn headers(&self) -> Vec<String> {
        self.requests.lock().unwrap().concat()
    }
}

/// Answers one request and closes the connection.
fn serve(mut stream: TcpStream, seen: &Mutex<Vec<Request>>, answer: &dyn Fn(&Request) -> (String, Vec<u8>)) {
    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let lines = lines.map_while(Result::ok).take_while(|line| !line.is_empty());
    let request: Request = lines.map(|line| line.to_ascii_lowercase()).collect();
    let Some(first) = request.first().cloned() else {
        return;
    };
    let (head, body) = answer(&request);
    seen.lock().unwrap().push(request);
    let head = format!(
        "HTTP/1.1 {head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let body = if first.starts_with("head") { Vec::new() } else { body };
    // The client may have gone away.
    let _ = stream.write_all(&[head.into_bytes(), body].concat());
}

fn xml(code: &str, words: &str) -> Vec<u8> {
    format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>{words}</Message></Error>").into_bytes()
}

fn session() -> SessionContext {
    grampus::session::context(GrampusConfig::default()).unwrap()
}

async fn message(context: &SessionContext, sql: &str) -> String {
    let planned = context.sql(sql).await;
    let error = match planned {
        Ok(frame) => frame.collect().await.unwrap_err(),
        Err(error) => error,
    };
    let text = grampus::error::message(&error);
    assert!(!text.contains("S3CRET"), "{text}");
    text
}

/// `CREATE EXTERNAL TABLE t` at `s3://bucket/a.…` of the server, as ORC or another format.
fn create(format: &str, server: &Server) -> String {
    format!(
        "CREATE EXTERNAL TABLE t STORED AS {format} LOCATION 's3://bucket/a.{}' OPTIONS ('aws.endpoint' 'http://{}', \
         'aws.allow_http' 'true', 'aws.access_key_id' 'AKIA', 'aws.secret_access_key' 'S3CRET')",
        format.to_ascii_lowercase(),
        server.address
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_of_a_bucket_name_the_url_and_what_to_set() {
    for (status, code, words, expected) in [
        (
            "403 Forbidden",
            "SignatureDoesNotMatch",
            "wrong",
            "answers 403 Forbidden",
        ),
        ("404 Not Found", "NoSuchBucket", "gone", "no such bucket"),
        (
            "301 Moved Permanently",
            "PermanentRedirect",
            "there",
            "set AWS_REGION to the bucket's region",
        ),
        (
            "400 Bad Request",
            "AuthorizationHeaderMalformed",
            "region",
            "set AWS_REGION to the bucket's region",
        ),
    ] {
        let server = Server::start(move |_| (status.to_owned(), xml(code, words)));
        // OPTIONS reach the store of every format.
        for format in ["ORC", "PARQUET", "CSV", "JSON", "ARROW"] {
            let error = message(&session(), &create(format, &server)).await;
            let url = format!("s3://bucket/a.{}: ", format.to_ascii_lowercase());
            assert!(error.starts_with(&url) && error.contains(expected), "{format}: {error}");
            if status.starts_with("403") {
                assert!(error.contains("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"), "{error}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn options_of_one_table_are_not_anothers() {
    let forbidden = || Server::start(|_| ("403 Forbidden".to_owned(), xml("AccessDenied", "no")));
    let (one, other) = (forbidden(), forbidden());
    let context = session();
    let first = message(&context, &create("ORC", &one)).await;
    let second = message(&context, &create("ORC", &other)).await;
    assert!(
        first.contains(&one.address) && second.contains(&other.address),
        "{first}\n{second}"
    );
    let copy = format!(
        "COPY (SELECT 1) TO 's3://bucket/x.csv' OPTIONS ('aws.endpoint' 'http://{}', 'aws.allow_http' 'true', \
         'aws.access_key_id' 'AKIA', 'aws.secret_access_key' 'S3CRET')",
        one.address
    );
    let asked = one.headers().len();
    let third = message(&context, &copy).await;
    assert!(
        one.headers().len() > asked && third.contains("s3://bucket/x.csv: "),
        "{third}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn user_of_an_http_url_is_sent_and_not_printed() {
    let server = Server::start(|_| ("401 Unauthorized".to_owned(), Vec::new()));
    for name in ["a.orc", "a.csv", "folder/"] {
        let url = format!("http://user:S3CRET@{}/{name}", server.address);
        let error = message(&session(), &format!("SELECT * FROM '{url}'")).await;
        let shown = format!("http://user:***@{}/{}", server.address, name.trim_end_matches('/'));
        assert!(
            error.starts_with(&shown) && error.contains("401 Unauthorized"),
            "{error}"
        );
    }
    // printf 'user:S3CRET' | base64, in small letters
    let basic = "authorization: basic dxnlcjptm0nsrvq=".to_owned();
    assert!(server.headers().contains(&basic), "{:?}", server.headers());
}

#[tokio::test(flavor = "multi_thread")]
async fn server_without_ranges_is_named_as_the_reason() {
    let file = b"ORC file that is sent whole".to_vec();
    let server = Server::start(move |_| ("200 OK".to_owned(), file.clone()));
    let error = message(&session(), &format!("SELECT * FROM 'http://{}/a.orc'", server.address)).await;
    assert!(error.contains("sends whole files only (no HTTP ranges)"), "{error}");
    assert!(error.contains("download the file"), "{error}");
    let text = Server::start(|_| ("200 OK".to_owned(), b"a,b\n1,2\n".to_vec()));
    let context = session();
    let frame = context
        .sql(&format!("SELECT b FROM 'http://{}/a.csv'", text.address))
        .await;
    assert_eq!(frame.unwrap().collect().await.unwrap()[0].num_rows(), 1);
    let error = message(&context, &format!("SELECT * FROM 'http://{}/a.csv?x=1'", text.address)).await;
    assert!(error.contains("the part after ? or # is not sent"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_port_is_an_error_within_half_a_minute() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let begun = Instant::now();
    let error = message(&session(), &format!("SELECT * FROM 'http://{address}/a.orc'")).await;
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let expected = format!("http://{address}/a.orc: no connection to http://{address}: ");
    assert!(error.starts_with(&expected) && error.contains("refused"), "{error}");
    assert!(error.ends_with("check host and port of the URL"), "{error}");
}
