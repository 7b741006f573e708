//! Errors about settings in words: unknown names with the nearest setting, and values that do not fit.

use std::iter;

use datafusion::common::utils::datafusion_strsim::levenshtein;

use crate::exit_error::ErrorReport;
use crate::wording::{clean, nearest};

/// The words of libraries' messages about names that no setting has.
const UNKNOWN: [&str; 4] = [
    "Could not find config namespace",
    "not found on",
    "there is no setting ",
    "is not a variable which can be viewed",
];

/// A library's message about a setting. `statement` is the SET or SHOW that names it.
pub(crate) fn configuration(message: &str, statement: Option<&str>, settings: &[String]) -> ErrorReport {
    let name = statement.and_then(named);
    if is_unknown(message) {
        return unknown(message, name.as_deref(), settings);
    }
    match name {
        // Some messages do not name the setting.
        Some(name) if !message.contains(['.', '"']) => ErrorReport::new(format!("{name}: {}", clean(message))),
        _ => ErrorReport::new(clean(message)),
    }
}

/// Whether a message is about a name that no setting has.
pub(crate) fn is_unknown(message: &str) -> bool {
    UNKNOWN.iter().any(|words| message.contains(words))
}

fn unknown(message: &str, name: Option<&str>, settings: &[String]) -> ErrorReport {
    let Some(name) = name else {
        return ErrorReport::new(clean(message)).hint("SHOW ALL lists the settings");
    };
    let report = ErrorReport::new(format!("no setting named {name}"));
    match nearest_setting(name, settings) {
        Some(near) => report.hint(format!("did you mean {near}? SHOW ALL lists the settings")),
        None => report.hint("SHOW ALL lists the settings"),
    }
}

/// The setting that a statement sets, resets or shows.
fn named(statement: &str) -> Option<String> {
    let (verb, rest) = statement.trim_start().split_once(char::is_whitespace)?;
    let verbs = ["SET", "RESET", "SHOW"];
    let name = rest
        .split(|c: char| c == '=' || c.is_whitespace())
        .find(|word| !word.is_empty())?;
    let is_named = verbs.iter().any(|known| verb.eq_ignore_ascii_case(known));
    is_named.then(|| name.to_lowercase())
}

/// The setting whose last word is like that of `wanted`. Long equal beginnings are no likeness.
fn nearest_setting<'a>(wanted: &str, settings: &'a [String]) -> Option<&'a str> {
    let last = |name: &'a str| name.rsplit('.').next().unwrap_or(name);
    let word = wanted.rsplit('.').next().unwrap_or(wanted);
    let alike = settings
        .iter()
        .map(String::as_str)
        .filter(|name| nearest(word, iter::once(last(name))).is_some());
    alike.min_by_key(|name| (levenshtein(word, last(name)), levenshtein(wanted, name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_setting_is_judged_by_its_last_word() {
        let settings = [
            "datafusion.execution.batch_size",
            "datafusion.execution.time_zone",
            "grampus.device",
        ]
        .map(str::to_owned);
        let near = |wanted| nearest_setting(wanted, &settings);
        assert_eq!(near("grampus.devise"), Some("grampus.device"));
        assert_eq!(near("device"), Some("grampus.device"));
        assert_eq!(near("datafusion.batch_size"), Some("datafusion.execution.batch_size"));
        assert_eq!(near("datafusion.execution.colour"), None);
    }

    #[test]
    fn statements_name_a_setting() {
        assert_eq!(named("SET grampus.Device='gpu'").as_deref(), Some("grampus.device"));
        assert_eq!(named("show  grampus.device").as_deref(), Some("grampus.device"));
        assert_eq!(named("SELECT 1"), None);
    }
}
