//! [`replace`]: `LIKE 'a!%' ESCAPE '!'` as a pattern with backslashes.

use datafusion::sql::sqlparser::ast::{Expr, Value, ValueWithSpan};

/// Gives the pattern of an expression backslashes in place of another escape character.
pub(super) fn replace(expr: &mut Expr) {
    if let Expr::Like {
        pattern, escape_char, ..
    }
    | Expr::ILike {
        pattern, escape_char, ..
    } = expr
        && let Some(escape) = escape_char.as_ref().and_then(text)
        && let Expr::Value(ValueWithSpan { value, .. }) = pattern.as_mut()
        && let Value::SingleQuotedString(written) = value
        && let Some(with_backslashes) = with_backslashes(written, escape)
    {
        *written = with_backslashes;
        *escape_char = None;
    }
}

fn text(value: &ValueWithSpan) -> Option<&str> {
    match &value.value {
        Value::SingleQuotedString(text) => Some(text),
        _ => None,
    }
}

/// The pattern with a backslash as its escape character. `None`: the pattern ends in an escape character, or `escape`
/// is longer than a character.
fn with_backslashes(pattern: &str, escape: &str) -> Option<String> {
    let mut escape = escape.chars();
    let (escape, None) = (escape.next(), escape.next()) else {
        return None;
    };
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern.chars();
    while let Some(character) = rest.next() {
        let character = match Some(character) == escape {
            true => {
                let escaped = rest.next()?;
                if matches!(escaped, '%' | '_') {
                    out.push('\\');
                }
                escaped
            }
            false => character,
        };
        if character == '\\' {
            out.push('\\');
        }
        out.push(character);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_backslashes_in_place_of_other_escapes() {
        for (pattern, escape, expected) in [
            ("a!%b", "!", Some(r"a\%b")),
            ("100$%$_%_$$", "$", Some(r"100\%\_%_$")),
            (r"a\b!%", "!", Some(r"a\\b\%")),
            (r"a\%", r"\", Some(r"a\%")),
            (r"a\b", r"\", Some("ab")),
            ("!x", "!", Some("x")),
            ("é%%", "é", Some(r"\%%")),
            (r"a\%", "", Some(r"a\\%")),
            ("a!", "!", None),
            ("a", "!!", None),
        ] {
            assert_eq!(
                with_backslashes(pattern, escape).as_deref(),
                expected,
                "{pattern} {escape}"
            );
        }
    }
}
