//! Wording of messages: libraries' texts without their prefixes, and the name that a misspelt name is nearest to.

use std::io;

use datafusion::common::utils::datafusion_strsim::levenshtein;

/// The name nearest to `wanted`, if at most half of its letters differ.
pub(crate) fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = wanted.to_lowercase();
    names
        .map(|name| (levenshtein(&wanted, &name.to_lowercase()), name))
        .filter(|(distance, name)| distance * 2 <= name.chars().count().max(wanted.chars().count()))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// A library's message without its prefixes, in one line.
pub(crate) fn clean(message: &str) -> String {
    const PREFIXES: [&str; 18] = [
        "Cast error: ",
        "Csv error: ",
        "Json error: ",
        "Parser error: ",
        "Error during planning: ",
        "Execution error: ",
        "External error: ",
        "Arrow error: ",
        "Schema error: ",
        "SQL error: ",
        "IO error: ",
        "Internal error: ",
        "Object Store error: ",
        "Optimizer rule 'simplify_expressions' failed",
        "Invalid or Unsupported Configuration: ",
        "This feature is not implemented: ",
        "Invalid argument error: ",
        "Compute error: ",
    ];
    let mut text = message.split("\n\nbacktrace:").next().unwrap_or(message).trim();
    text = without_debug_text(text);
    while let Some(rest) = PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix)) {
        text = rest.trim_start();
    }
    let text = text.split("\n\tCandidate functions").next().unwrap_or(text);
    let text = text.split("\nThis issue was likely caused by").next().unwrap_or(text);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    lower_first(text.trim_end_matches('.'))
}

/// The message up to the first value in Rust's debug format, `Name { field: …` or `Name(Inner { …`.
fn without_debug_text(message: &str) -> &str {
    let Some(brace) = message.find(" { ") else {
        return message;
    };
    let is_field = message[brace + 3..]
        .split(':')
        .next()
        .is_some_and(|field| !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'));
    let start = message[..brace].rfind(' ').map_or(0, |space| space + 1);
    let is_name = message[start..].starts_with(|first: char| first.is_ascii_uppercase());
    match is_field && is_name {
        true => message[..start].trim_end_matches([' ', ':', '=']),
        false => message,
    }
}

/// An operating system's message without its error number.
pub(crate) fn os_words(error: &io::Error) -> String {
    let text = error.to_string();
    let words = text.split(" (os error").next().unwrap_or(&text);
    lower_first(words)
}

/// The text with a small first letter, unless its first word is a name (`SELECT`, `Utf8`).
pub(crate) fn lower_first(text: &str) -> String {
    let first_word = text.split_whitespace().next().unwrap_or("");
    let is_word = first_word
        .chars()
        .skip(1)
        .all(|c| c.is_ascii_lowercase() || c == ':' || c == ',' || c == '\'');
    let mut chars = text.chars();
    match chars.next() {
        Some(first) if is_word && first_word.len() > 1 => first.to_lowercase().chain(chars).collect(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_name_is_found() {
        let names = ["trips", "zones", "weather"];
        assert_eq!(nearest("trip", names.into_iter()), Some("trips"));
        assert_eq!(nearest("Zonse", names.into_iter()), Some("zones"));
        assert_eq!(nearest("payments", names.into_iter()), None);
    }

    #[test]
    fn messages_lose_their_prefixes_but_names_keep_their_case() {
        assert_eq!(
            clean("External error: Execution error: Cannot do this."),
            "cannot do this"
        );
        assert_eq!(clean("Utf8 is no number"), "Utf8 is no number");
        assert_eq!(clean("SELECT is missing\nhere"), "SELECT is missing here");
    }

    #[test]
    fn debug_text_is_cut_off() {
        let cut = "Dot access not supported for non-string expr: Identifier(Ident { value: \"b\", quote_style: None })";
        assert_eq!(without_debug_text(cut), "Dot access not supported for non-string expr");
        assert_eq!(
            without_debug_text("not a logical expression Wildcard { qualifier: None }"),
            "not a logical expression"
        );
        for whole in ["no such column", "JSON { \"a\": 1 }", "a { b: 1 }", "expected { or ("] {
            assert_eq!(without_debug_text(whole), whole);
        }
    }
}
