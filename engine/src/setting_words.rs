//! `words!`: settings whose values are words.

/// Parses and prints the words of a setting's values.
macro_rules! words {
    ($type:ident, $setting:literal: $($word:literal => $value:ident),+) => {
        impl std::str::FromStr for $type {
            type Err = datafusion::error::DataFusionError;

            fn from_str(text: &str) -> datafusion::error::Result<Self> {
                match text.to_ascii_lowercase().as_str() {
                    $($word => Ok(Self::$value),)+
                    _ => {
                        let words = [$($word),+].join(", ");
                        datafusion::common::config_err!("grampus.{} is one of {words}, not '{text}'", $setting)
                    }
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self {
                    $(Self::$value => $word,)+
                })
            }
        }
    };
}

pub(crate) use words;
