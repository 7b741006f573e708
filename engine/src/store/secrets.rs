//! [`Secrets`]: passwords and keys of a session's statements, and the texts that stand for them.
//!
//! A plan, a table's definition and a log show the names and options that a statement has. So a secret is taken out of
//! the statement before it is planned, and `***` stands there (`***2` for the next one). Only a store that is opened
//! gets the secret back.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use url::{Position, Url};

use super::store_location::remote;
use crate::redaction::{OPTIONS_PASSWORD, STAND_IN, has_stand_in, password_range};

/// The secrets of a session. Each has an owner, to which alone it goes back: a server, or an option and a location.
#[derive(Default)]
pub(crate) struct Secrets {
    by_owner: Mutex<HashMap<String, Vec<String>>>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

impl Secrets {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<String>>> {
        self.by_owner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The text that stands for an owner's secret. A text that stands for one already stays.
    fn stand_in(&self, owner: String, secret: &str) -> String {
        if secret.is_empty() || self.reveal(&owner, secret).is_some() {
            return secret.to_owned();
        }
        let mut by_owner = self.lock();
        let kept = by_owner.entry(owner).or_default();
        let known = kept.iter().position(|known| known == secret);
        let place = known.unwrap_or_else(|| {
            kept.push(secret.to_owned());
            kept.len() - 1
        });
        match place {
            0 => STAND_IN.to_owned(),
            _ => format!("{STAND_IN}{}", place + 1),
        }
    }

    /// The owner's secret that a text stands for.
    fn reveal(&self, owner: &str, text: &str) -> Option<String> {
        let number = match text.strip_prefix(STAND_IN)? {
            "" => 1,
            number => number.parse::<usize>().ok()?,
        };
        self.lock().get(owner)?.get(number.checked_sub(1)?).cloned()
    }

    /// The text that stands for the value of an option of the files at `locations`.
    pub(crate) fn hide_option(&self, name: &str, locations: &[String], value: &str) -> String {
        self.stand_in(owner_of_option(name, locations), value)
    }

    /// The value of an option for which a text may stand.
    pub(crate) fn option(&self, name: &str, locations: &[String], text: &str) -> String {
        let value = self.reveal(&owner_of_option(name, locations), text);
        value.unwrap_or_else(|| text.to_owned())
    }

    /// The location without the password of its URL.
    pub(crate) fn hide_password(&self, location: &str) -> String {
        let (Some(range), Some(url)) = (password_range(location), remote(location)) else {
            return location.to_owned();
        };
        let password = &location[range.clone()];
        if password.starts_with(OPTIONS_PASSWORD) {
            return location.to_owned();
        }
        let mut hidden = location.to_owned();
        hidden.replace_range(range, &self.stand_in(server(&url), password));
        hidden
    }

    /// The URL with its password. `None`: what stands for it is of another session.
    pub(crate) fn with_password(&self, url: &Url) -> Option<Url> {
        let mut url = url.clone();
        if has_stand_in(url.as_str()) {
            let password = self.reveal(&server(&url), url.password()?)?;
            // Fails for URLs without a host, which have no password.
            let _ = url.set_password(Some(&password));
        }
        Some(url)
    }
}

/// Scheme, user, host and port.
fn server(url: &Url) -> String {
    let mut url = url.clone();
    let _ = url.set_password(None);
    url[..Position::BeforePath].to_owned()
}

/// DataFusion gives names of options a prefix between parsing and planning.
fn owner_of_option(name: &str, locations: &[String]) -> String {
    let name = name.to_ascii_lowercase();
    let places = locations
        .iter()
        .map(|location| remote(location).map_or_else(String::new, |url| server(&url)));
    let places = places.collect::<Vec<_>>().join(" ");
    format!("{} {places}", name.strip_prefix("format.").unwrap_or(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_come_back_from_their_stand_ins_alone() {
        let secrets = Secrets::default();
        let bucket = &["s3://bucket/a".to_owned()];
        let hide = |value| secrets.hide_option("aws.token", bucket, value);
        let (one, two) = (hide("one"), hide("two"));
        assert_eq!(
            (one.as_str(), two.as_str(), hide("one").as_str()),
            ("***", "***2", "***")
        );
        assert_eq!(hide("***2"), "***2");
        assert_eq!(secrets.option("format.AWS.token", bucket, "***2"), "two");
        for other in ["***0", "***3", "***x", "**", "one"] {
            assert_eq!(secrets.option("aws.token", bucket, other), other);
        }
        assert_eq!(secrets.option("aws.token", &["s3://other/a".to_owned()], "***"), "***");
        assert!(!format!("{secrets:?}").contains("one"));
    }

    #[test]
    fn passwords_of_locations_are_hidden_as_they_are_written() {
        let secrets = Secrets::default();
        for (location, hidden) in [
            ("http://u:p%40ss@host:80/a*.csv", "http://u:***@host:80/a*.csv"),
            ("http://u:other@host/b.csv", "http://u:***2@host/b.csv"),
            ("https://:q@host/b", "https://:***@host/b"),
            ("https://u@host/b", "https://u@host/b"),
            ("s3://:grampus-options-0@b/c", "s3://:grampus-options-0@b/c"),
            ("a/b:c@d", "a/b:c@d"),
        ] {
            assert_eq!(secrets.hide_password(location), hidden);
        }
        let opened = |text: &str| secrets.with_password(&Url::parse(text).unwrap()).map(String::from);
        assert_eq!(opened("http://u:***@host/a").as_deref(), Some("http://u:p%40ss@host/a"));
        assert_eq!(opened("http://u:x@host/").as_deref(), Some("http://u:x@host/"));
        for other in [
            "http://u:***@elsewhere/",
            "http://v:***@host/",
            "s3://:grampus-options-0@b/",
        ] {
            assert_eq!(opened(other), None);
        }
    }
}
