//! [`without_passwords`]: text for people, without the passwords of URLs.

/// The beginning of a password that stands for a statement's OPTIONS ([`LazyStores`](crate::LazyStores)).
pub(crate) const OPTIONS_PASSWORD: &str = "grampus-options-";

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
        shown.push_str(":***");
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
