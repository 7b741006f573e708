//! [`explain`]: a failed request of an object store as a [`StoreError`], in words and with advice.
//!
//! object_store keeps the types of its errors for itself, so status and code are taken from their texts.

use std::error::Error;

use super::store_kind::{HttpError, HttpErrorKind, StoreKind};
use crate::store_error::StoreError;

/// The addresses at which clouds give credentials to their own machines.
const METADATA_HOSTS: [&str; 3] = ["169.254.169.254", "169.254.170.2", "://metadata"];

/// The facts that the texts of a chain of errors give.
struct Facts {
    /// All texts.
    text: String,
    /// The text of the deepest cause.
    root: String,
    status: Option<u16>,
    /// Code and words of the answer's XML.
    code: Option<String>,
    words: Option<String>,
    /// The scheme, host and port of the request.
    server: Option<String>,
    connection: Option<HttpErrorKind>,
}

impl Facts {
    fn of(error: &object_store::Error) -> Self {
        let text = error.to_string();
        let mut connection = None;
        let mut root = text.clone();
        let mut next: Option<&dyn Error> = Some(error);
        while let Some(error) = next {
            connection = error.downcast_ref::<HttpError>().map(HttpError::kind).or(connection);
            root = error.to_string();
            next = error.source();
        }
        let after = |mark: &str| text.split_once(mark).map(|(_, rest)| rest);
        let between = |open: &str, close: &str| {
            let (inner, _) = after(open)?.split_once(close)?;
            (!inner.is_empty()).then(|| inner.to_owned())
        };
        let server = text.split("Error performing ").skip(1).find_map(|rest| {
            let url = rest.split_whitespace().nth(1)?;
            let (scheme, rest) = url.split_once("://")?;
            let host = rest.split(['/', '?']).next()?;
            Some(format!("{scheme}://{host}"))
        });
        Self {
            status: after("status code: ").and_then(|rest| rest.get(..3)?.parse().ok()),
            code: between("<Code>", "</Code>"),
            words: between("<Message>", "</Message>"),
            server,
            connection,
            root,
            text,
        }
    }

    fn is_about_credentials(&self) -> bool {
        let is_metadata = |server: &String| METADATA_HOSTS.iter().any(|host| server.contains(host));
        self.server.as_ref().is_some_and(is_metadata) || self.text.contains("Error performing token request")
    }

    fn server(&self) -> &str {
        self.server.as_deref().unwrap_or("the store")
    }

    /// The answer in one line: `403 Forbidden (SignatureDoesNotMatch: …)`.
    fn answer(&self) -> String {
        let status = self.text.split_once("status code: ").map_or("", |(_, rest)| rest);
        let status = status.split(':').next().unwrap_or("").trim();
        match (&self.code, &self.words) {
            (Some(code), Some(words)) => format!("{status} ({code}: {})", words.trim_end_matches('.')),
            (Some(code), None) => format!("{status} ({code})"),
            _ => status.to_owned(),
        }
    }
}

/// The error of a request about `url` to a store of this kind.
pub(super) fn explain(kind: StoreKind, url: String, error: object_store::Error) -> StoreError {
    let facts = Facts::of(&error);
    let is_unreachable = matches!(facts.connection, Some(HttpErrorKind::Connect | HttpErrorKind::Timeout));
    let (reason, advice) = match facts.connection {
        _ if facts.is_about_credentials() => ("no credentials are set".to_owned(), Some(credentials(kind))),
        Some(HttpErrorKind::Connect) => (
            format!("no connection to {}: {}", facts.server(), facts.root),
            Some(endpoint(kind)),
        ),
        Some(HttpErrorKind::Timeout) => (format!("{} does not answer", facts.server()), Some(endpoint(kind))),
        _ => reason(kind, &facts),
    };
    StoreError {
        url,
        reason,
        advice,
        is_unreachable,
        cause: Some(Box::new(error)),
    }
}

/// The reason and the advice of an answer.
fn reason(kind: StoreKind, facts: &Facts) -> (String, Option<String>) {
    let answers = || format!("{} answers {}", facts.server(), facts.answer());
    let whole = ["Received non-partial response", "Range request not supported"];
    if whole.iter().any(|words| facts.text.contains(words)) {
        return (
            format!("{} sends whole files only (no HTTP ranges)", server_of(facts)),
            Some("download the file, or serve it by a server with ranges".to_owned()),
        );
    }
    if facts.text.contains("Operation `put_multipart_opts`") {
        return (
            "an HTTP server takes no uploads in parts".to_owned(),
            Some("write to a local file or to a bucket".to_owned()),
        );
    }
    if facts.text.contains("redirect without LOCATION") || facts.status == Some(301) {
        return (
            "the bucket is in another region, or the store at another address".to_owned(),
            Some(region(kind)),
        );
    }
    match (facts.status, facts.code.as_deref()) {
        (_, Some("NoSuchBucket" | "ContainerNotFound")) => (
            format!("no such bucket at {}", facts.server()),
            Some(format!("check its name; {}", endpoint(kind))),
        ),
        (Some(401 | 403), _) => (answers(), Some(credentials(kind))),
        (Some(404), _) => (format!("not found at {}", facts.server()), None),
        (Some(400), _) => (answers(), Some(format!("{}; {}", credentials(kind), region(kind)))),
        (Some(405 | 501), _) if facts.text.contains("Error performing PUT ") => (
            "the server takes no uploads".to_owned(),
            Some("write to a local file or to a bucket".to_owned()),
        ),
        (Some(405 | 501), _) if kind == StoreKind::Http => (
            "no such file, or a folder, which the server does not list".to_owned(),
            Some("name each file of a server without WebDAV".to_owned()),
        ),
        (Some(_), _) => (answers(), None),
        (None, _) => (facts.root.clone(), None),
    }
}

fn server_of(facts: &Facts) -> &str {
    facts.server.as_deref().unwrap_or("the server")
}

/// What to set for a store that refuses a request.
fn credentials(kind: StoreKind) -> String {
    let text = match kind {
        StoreKind::S3 => {
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (AWS_SESSION_TOKEN for temporary ones), or \
             AWS_SKIP_SIGNATURE=true for a public bucket; as OPTIONS: 'aws.access_key_id'"
        }
        StoreKind::Google => {
            "set GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_SERVICE_ACCOUNT, or GOOGLE_SKIP_SIGNATURE=true for a public \
             bucket; as OPTIONS: 'google.service_account'"
        }
        StoreKind::Azure => {
            "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, or \
             AZURE_SKIP_SIGNATURE=true for a public container; as OPTIONS: 'azure.storage_account_key'"
        }
        StoreKind::Http => "write user and password into the URL: https://USER:PASSWORD@host/…",
        StoreKind::Nvme => "run it as a user that may open the controller",
    };
    text.to_owned()
}

/// What to set for a store at another address.
fn endpoint(kind: StoreKind) -> String {
    let text = match kind {
        StoreKind::S3 => {
            "set AWS_ENDPOINT for a store that is not Amazon's, AWS_REGION for one that is; as OPTIONS: 'aws.endpoint'"
        }
        StoreKind::Google => "set GOOGLE_BASE_URL for a store that is not Google's; as OPTIONS: 'google.base_url'",
        StoreKind::Azure => {
            "check AZURE_STORAGE_ACCOUNT_NAME, and set AZURE_STORAGE_ENDPOINT for a store that is not Microsoft's; as \
             OPTIONS: 'azure.storage_endpoint'"
        }
        StoreKind::Http => "check host and port of the URL",
        StoreKind::Nvme => "check the address of the controller: grampus nvme list prints it",
    };
    text.to_owned()
}

fn region(kind: StoreKind) -> String {
    match kind {
        StoreKind::S3 => "set AWS_REGION to the bucket's region; as OPTIONS: 'aws.region'".to_owned(),
        other => endpoint(other),
    }
}
