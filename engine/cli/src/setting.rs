//! [`Setting`]: one `--set KEY=VALUE` of the command line.

use std::fmt;
use std::str::FromStr;

/// The name and the value of a setting, unchecked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, value)) if !name.trim().is_empty() => Ok(Self {
                // SET reads names in lower case.
                name: name.trim().to_lowercase(),
                value: value.trim().to_owned(),
            }),
            _ => Err("expected KEY=VALUE, such as grampus.device=gpu".to_owned()),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_all_behind_the_first_equals_sign() {
        let setting: Setting = "datafusion.execution.time_zone = a=b".parse().unwrap();
        assert_eq!(setting.to_string(), "datafusion.execution.time_zone=a=b");
        assert_eq!("grampus.cache_folder=".parse::<Setting>().unwrap().value, "");
        for wrong in ["grampus.device", "=gpu", ""] {
            assert!(wrong.parse::<Setting>().is_err(), "{wrong}");
        }
    }
}
