//! [`TextType`], the ORC type of a text column: STRING, CHAR or VARCHAR.

use std::fmt;
use std::str::FromStr;

/// The key of an Arrow field's metadata that states the ORC type of a text column: `char(10)` or `varchar(10)`. Readers
/// set it, and the writer takes it up.
pub const TEXT_TYPE_KEY: &str = "orc:type";

/// The ORC type of a text column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum TextType {
    /// Text of any length.
    #[default]
    String,
    /// Text of a fixed number of characters, filled with blanks.
    Char {
        /// Number of characters, at least 1.
        length: u32,
    },
    /// Text of a limited number of characters.
    Varchar {
        /// Most characters, at least 1.
        length: u32,
    },
}

/// "string", "char(10)", "varchar(10)".
impl fmt::Display for TextType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String => f.write_str("string"),
            Self::Char { length } => write!(f, "char({length})"),
            Self::Varchar { length } => write!(f, "varchar({length})"),
        }
    }
}

impl FromStr for TextType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let length = |prefix: &str| {
            let digits = text.strip_prefix(prefix)?.strip_prefix('(')?.strip_suffix(')')?;
            digits.parse().ok().filter(|&length| length > 0)
        };
        if text == "string" {
            Ok(Self::String)
        } else if let Some(length) = length("char") {
            Ok(Self::Char { length })
        } else if let Some(length) = length("varchar") {
            Ok(Self::Varchar { length })
        } else {
            Err(format!(
                "{text} is no type of text: string, char(10) and varchar(10) are examples"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_as_they_are_written() {
        for (text, text_type) in [
            ("string", TextType::String),
            ("char(1)", TextType::Char { length: 1 }),
            ("varchar(65535)", TextType::Varchar { length: 65_535 }),
        ] {
            assert_eq!(text.parse(), Ok(text_type));
            assert_eq!(text_type.to_string(), text);
        }
        for text in [
            "char",
            "char()",
            "char(0)",
            "char(-1)",
            "varchar(4294967296)",
            "text",
            "char(1) ",
        ] {
            assert!(text.parse::<TextType>().is_err(), "{text}");
        }
    }
}
