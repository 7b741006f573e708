//! [`without_passwords`]: text for people, without the passwords of URLs.

use std::ops::Range;

/// The beginning of a password that stands for a statement's OPTIONS ([`LazyStores`](crate::LazyStores)).
pub(crate) const OPTIONS_PASSWORD: &str = "grampus-options-";

/// What stands for a password.
pub(crate) const STAND_IN: &str = "***";

/// The place of the password in a text that is one URL.
pub(crate) fn password_range(url: &str) -> Option<Range<usize>> {
    let start = url.find("://")? + "://".len();
    let (user, _) = authority_of(&url[start..]).rsplit_once('@')?;
    let (name, password) = user.split_once(':')?;
    let start = start + name.len() + ":".len();
    (!password.is_empty()).then(|| start..start + password.len())
}

/// Whether the password of a URL stands for something that this session alone knows.
pub(crate) fn has_stand_in(url: &str) -> bool {
    let password = password_range(url).map(|range| &url[range]);
    password.is_some_and(|password| password.starts_with(STAND_IN) || password.starts_with(OPTIONS_PASSWORD))
}

/// The text with `***` in place of each password of a URL: `https://user:***@host/…`.
pub fn without_passwords(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + "://".len());
        shown.push_str(before);
        let authority = authority_of(after);
        match authority.rsplit_once('@') {
            Some((user, host)) => push_user(&mut shown, user, host),
            None => shown.push_str(authority),
        }
        rest = &after[authority.len()..];
    }
    shown.push_str(rest);
    shown
}

/// The text of statements with `***` in place of each password of a URL and each secret option's value.
pub fn without_secrets(text: &str) -> String {
    replaced(text, &|_| STAND_IN.to_owned())
}

/// As [`without_secrets`], with as many `*` as a secret has characters: places in the text stay.
pub fn with_stars(text: &str) -> String {
    replaced(text, &|secret| "*".repeat(secret.chars().count()))
}

fn replaced(text: &str, replacement: &dyn Fn(&str) -> String) -> String {
    let mut ranges = secret_options(text);
    let mut start = 0;
    while let Some(at) = text[start..].find("://") {
        let url = start + at;
        ranges.extend(password_range(&text[url..]).map(|range| url + range.start..url + range.end));
        start = url + "://".len();
    }
    ranges.sort_by_key(|range| range.start);
    let (mut shown, mut end) = (String::with_capacity(text.len()), 0);
    for range in ranges
        .into_iter()
        .filter(|range| !text[range.clone()].starts_with(STAND_IN))
    {
        if range.start < end {
            continue; // a URL within an option's value
        }
        shown.push_str(&text[end..range.start]);
        shown.push_str(&replacement(&text[range.clone()]));
        end = range.end;
    }
    shown.push_str(&text[end..]);
    shown
}

/// The places of quoted texts that follow the name of a secret option: `'aws.secret_access_key' 'X'`.
fn secret_options(text: &str) -> Vec<Range<usize>> {
    const SECRETS: [&str; 8] = [
        "secret",
        "password",
        "token",
        "key",
        "credential",
        "sas",
        "service_account",
        "authorization",
    ];
    let mut found = Vec::new();
    let (mut name, mut start) = (String::new(), 0);
    while let Some(first) = text[start..].chars().next() {
        let rest = &text[start..];
        let is_word = |c: char| c.is_alphanumeric() || "_.".contains(c);
        if first == '\'' {
            let length = quoted_length(rest);
            let inner = start + 1..start + (length - 1).max(1);
            if SECRETS.iter().any(|secret| name.contains(secret)) && !inner.is_empty() {
                found.push(inner);
                name.clear();
            } else {
                name = text[inner].to_ascii_lowercase();
            }
            start = (start + length).min(text.len());
        } else if is_word(first) {
            let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            name = rest[..length].to_ascii_lowercase();
            start += length;
        } else {
            if !first.is_whitespace() && first != '"' {
                name.clear();
            }
            start += first.len_utf8();
        }
    }
    found
}

/// The bytes of the quoted text at the start, with its quotes. A doubled quote is within the text.
fn quoted_length(text: &str) -> usize {
    let mut quotes = text.match_indices('\'').skip(1).map(|(at, _)| at).peekable();
    while let Some(at) = quotes.next() {
        if quotes.next_if_eq(&(at + 1)).is_none() {
            return at + 1;
        }
    }
    text.len() + 1 // not closed: all of the rest is in it
}

/// The user, password, host and port at the start of a text.
fn authority_of(text: &str) -> &str {
    let ends_word = |c: char| c.is_whitespace() || "'\"`<>".contains(c);
    let word = &text[..text.find(ends_word).unwrap_or(text.len())];
    let authority = &word[..word.find(['/', '?', '#']).unwrap_or(word.len())];
    // A password with `/` that is not written as `%2F`: no port follows the colon.
    let is_split = !authority.contains('@')
        && authority
            .split_once(':')
            .is_some_and(|(_, port)| port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()));
    match word.rfind('@') {
        Some(at) if is_split => {
            let host = &word[at..];
            &word[..at + host.find(['/', '?', '#']).unwrap_or(host.len())]
        }
        _ => authority,
    }
}

fn push_user(shown: &mut String, user: &str, host: &str) {
    let (name, password) = user.split_once(':').unwrap_or((user, ""));
    let is_ours = password.is_empty() || password.starts_with(OPTIONS_PASSWORD);
    shown.push_str(name);
    if !is_ours {
        shown.push(':');
        shown.push_str(STAND_IN);
    }
    if !is_ours || !name.is_empty() {
        shown.push('@');
    }
    shown.push_str(host);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_statements_are_hidden_and_nothing_else() {
        for (text, expected) in [
            (
                "OPTIONS ('aws.secret_access_key' 'it''s', aws.region 'x') LOCATION 'http://u:p@h/a'",
                "OPTIONS ('aws.secret_access_key' '***', aws.region 'x') LOCATION 'http://u:***@h/a'",
            ),
            (
                "OPTIONS (azure_storage_sas_token 'never clos",
                "OPTIONS (azure_storage_sas_token '***",
            ),
            ("OPTIONS (token '", "OPTIONS (token '"),
            ("(\"aws.session_token\" 'x')", "(\"aws.session_token\" '***')"),
            ("WHERE key = 'k' AND 'key' < 'a'", "WHERE key = 'k' AND 'key' < 'a'"),
            ("'token' 'http://u:p@h'", "'token' '***'"),
            ("'token' '***2' é'", "'token' '***2' é'"),
        ] {
            assert_eq!(without_secrets(text), expected);
            assert_eq!(with_stars(text).chars().count(), text.chars().count());
        }
        assert_eq!(with_stars("'token' 'äb' x"), "'token' '**' x");
    }

    #[test]
    fn passwords_of_urls_are_hidden_and_nothing_else() {
        for (text, expected) in [
            ("http://u:p@host:80/a.csv: gone", "http://u:***@host:80/a.csv: gone"),
            (
                "'https://u:p@ss@host/a' https://v:q@h",
                "'https://u:***@host/a' https://v:***@h",
            ),
            ("https://u:p/w@host/a", "https://u:***@host/a"),
            ("https://:p@host", "https://:***@host"),
            (
                "abfss://data@account.dfs.core.windows.net/a",
                "abfss://data@account.dfs.core.windows.net/a",
            ),
            ("abfss://data:grampus-options-3@account/a", "abfss://data@account/a"),
            ("s3://:grampus-options-0@bucket/a", "s3://bucket/a"),
            ("http://host:8080/a@b.csv", "http://host:8080/a@b.csv"),
            ("s3://bucket/x@y, mail a:b@c", "s3://bucket/x@y, mail a:b@c"),
            ("no URL", "no URL"),
        ] {
            assert_eq!(without_passwords(text), expected);
        }
    }
}
