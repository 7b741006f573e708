//! The URLs of namespaces of NVMe controllers, and how people write them.
//!
//! `nvme://0000:01:00.0/trips.orc` is a file of namespace 1, and `nvme://0000:01:00.0n2/trips.orc` one of namespace 2,
//! as Linux writes `nvme0n2`. A URL takes what follows a colon for a port. So the host has dashes in memory, and
//! colons in messages; both are read.

use url::Url;

/// The scheme, with what follows.
pub(super) const BEGIN: &str = "nvme://";
/// A location of this scheme as a URL; `None` for other locations.
pub(super) fn parse(location: &str) -> Option<Url> {
    Url::parse(&with_host(location, ':', "-")?).ok()
}

/// A URL as people write it. Texts without this scheme stay as they are.
pub(crate) fn shown(url: &str) -> String {
    with_host(url, '-', ":").unwrap_or_else(|| url.to_owned())
}

/// The text with other characters in its host.
fn with_host(text: &str, from: char, to: &str) -> Option<String> {
    let rest = text.strip_prefix(BEGIN)?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    Some(format!("{BEGIN}{}{path}", host.replace(from, to)))
}
