//! [`StoreKind`]: the kinds of object stores, with their schemes and options.
//!
//! ```text
//! cloud_stores  the builders of object_store; `without_clouds` without the feature `clouds`
//! ```

#[cfg(feature = "clouds")]
mod cloud_stores;
#[cfg(not(feature = "clouds"))]
#[path = "without_clouds.rs"]
mod cloud_stores;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;

use datafusion::common::utils::datafusion_strsim::levenshtein;
use object_store::ObjectStore;
use url::Url;

use super::nvme_store;
use crate::store_error::StoreError;
pub(super) use cloud_stores::{HttpError, HttpErrorKind};

/// Options of one store by name, as object_store knows them: `aws_region`.
pub(crate) type StoreOptions = BTreeMap<String, String>;

/// A kind of object store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreKind {
    S3,
    Google,
    Azure,
    Http,
    /// Files of an NVMe namespace, through the driver of this process.
    Nvme,
}

/// The schemes of URLs for which stores are made.
const SCHEMES: [(&str, StoreKind); 11] = [
    ("s3", StoreKind::S3),
    ("s3a", StoreKind::S3),
    ("gs", StoreKind::Google),
    ("az", StoreKind::Azure),
    ("adl", StoreKind::Azure),
    ("azure", StoreKind::Azure),
    ("abfs", StoreKind::Azure),
    ("abfss", StoreKind::Azure),
    ("http", StoreKind::Http),
    ("https", StoreKind::Http),
    ("nvme", StoreKind::Nvme),
];

/// Options of every kind's connections, after the kind's prefix. HTTP's have no prefix.
const CONNECTION_OPTIONS: [&str; 5] = [
    "allow_invalid_certificates",
    "connect_timeout",
    "proxy_url",
    "timeout",
    "user_agent",
];

impl StoreKind {
    /// The kind of a URL's store.
    pub(crate) fn of(url: &Url) -> Option<Self> {
        let scheme = url.scheme();
        let kind = SCHEMES.iter().find(|(name, _)| *name == scheme)?.1;
        // Buckets in host names. Other hosts of the clouds have the bucket in the path.
        let is_bucket = scheme == "https" && url.host_str().is_some_and(|host| host.ends_with(".amazonaws.com"));
        Some(if is_bucket { Self::S3 } else { kind })
    }

    /// All schemes, for messages.
    pub(crate) fn schemes() -> String {
        SCHEMES.map(|(name, _)| name).join(", ")
    }

    /// Whether a store of this kind has the option, whose name is in small letters.
    pub(crate) fn has_option(self, name: &str) -> bool {
        self != Self::Nvme && cloud_stores::has_option(self, name)
    }

    /// The beginning of the names of options, and of variables in capitals.
    pub(crate) fn prefix(self) -> Option<&'static str> {
        match self {
            Self::S3 => Some("aws_"),
            Self::Google => Some("google_"),
            Self::Azure => Some("azure_"),
            Self::Http | Self::Nvme => None,
        }
    }

    /// The usual options, for suggestions.
    pub(crate) fn usual_options(self) -> Vec<String> {
        let own: &[&str] = match self {
            Self::S3 => &[
                "access_key_id",
                "allow_http",
                "endpoint",
                "region",
                "request_payer",
                "role_arn",
                "secret_access_key",
                "server_side_encryption",
                "session_token",
                "skip_signature",
                "virtual_hosted_style_request",
            ],
            Self::Google => &[
                "application_credentials",
                "base_url",
                "service_account",
                "service_account_key",
                "skip_signature",
            ],
            Self::Azure => &[
                "allow_http",
                "client_id",
                "client_secret",
                "endpoint",
                "skip_signature",
                "storage_account_key",
                "storage_account_name",
                "storage_sas_token",
                "storage_use_emulator",
                "tenant_id",
                "use_azure_cli",
            ],
            Self::Http => &["allow_http"],
            Self::Nvme => return Vec::new(),
        };
        let prefix = self.prefix().unwrap_or("");
        own.iter()
            .chain(&CONNECTION_OPTIONS)
            .map(|name| format!("{prefix}{name}"))
            .collect()
    }

    /// The options that the environment's variables give: those of the kind, in capitals. Empty ones count as unset.
    ///
    /// # Errors
    /// If the value of such a variable is not UTF-8.
    pub(crate) fn environment(
        self,
        url: &str,
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<StoreOptions, StoreError> {
        let Some(prefix) = self.prefix() else {
            return Ok(StoreOptions::new());
        };
        let mut options = StoreOptions::new();
        for (variable, value) in variables {
            let Some(name) = variable.to_str().map(str::to_ascii_lowercase) else {
                continue;
            };
            if !name.starts_with(prefix) || !self.has_option(&name) || value.is_empty() {
                continue;
            }
            let Some(value) = value.to_str() else {
                let reason = format!("the value of the variable {} is not UTF-8", name.to_ascii_uppercase());
                return Err(StoreError::new(url, reason, "set it again, or unset it"));
            };
            options.insert(name, value.to_owned());
        }
        Ok(options)
    }

    /// The store of `url`, whose name in messages is `shown`.
    ///
    /// # Errors
    /// If the options do not fit. The error names the URL.
    pub(crate) fn build(
        self,
        url: &Url,
        shown: &str,
        options: &StoreOptions,
    ) -> Result<Arc<dyn ObjectStore>, StoreError> {
        match self {
            Self::Nvme => Ok(Arc::new(nvme_store::open(url)?)),
            _ => cloud_stores::build(self, url, shown, options),
        }
    }

    /// Where the options of a store come from.
    pub(crate) fn settings_advice(self) -> String {
        let (names, option) = match self {
            Self::S3 => (
                "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT",
                "aws.region",
            ),
            Self::Google => (
                "GOOGLE_APPLICATION_CREDENTIALS, GOOGLE_SERVICE_ACCOUNT",
                "google.service_account",
            ),
            Self::Azure => (
                "AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN",
                "azure.storage_account_name",
            ),
            Self::Http => return "check the URL and the table's OPTIONS".to_owned(),
            Self::Nvme => return "check the URL; stores of NVMe namespaces have no OPTIONS".to_owned(),
        };
        format!("check the variables {names} or the table's OPTIONS ('{option}' '…')")
    }
}

/// The option as documentation and messages write it: `aws.region`.
pub(crate) fn option_name(name: &str) -> String {
    match name.split_once('_') {
        Some((prefix @ ("aws" | "google" | "azure"), rest)) => format!("{prefix}.{rest}"),
        _ => name.to_owned(),
    }
}

/// The names within a third of their letters of `wanted`, nearest first, at most three.
pub(crate) fn near<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    const MOST: usize = 3;
    let mut near: Vec<(usize, &str)> = names
        .map(|name| (levenshtein(wanted, name), name))
        .filter(|(distance, name)| distance * 3 <= name.len().max(wanted.len()))
        .collect();
    near.sort();
    near.into_iter().take(MOST).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn variables(pairs: &[(&[u8], &[u8])]) -> impl Iterator<Item = (OsString, OsString)> {
        let owned = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let pairs: Vec<_> = pairs.iter().map(|(name, value)| (owned(name), owned(value))).collect();
        pairs.into_iter()
    }

    #[test]
    fn environment_gives_the_kinds_options_and_skips_other_bytes() {
        let found = StoreKind::S3.environment(
            "s3://b",
            variables(&[
                (b"AWS_REGION", b"eu-west-1"),
                (b"AWS_SESSION_TOKEN", b""),
                (b"AWS_PROFILE", b"\xff"),
                (b"OTHER", b"\xff"),
                (b"\xfe", b"x"),
                (b"GOOGLE_BUCKET", b"\xff"),
            ]),
        );
        let expected = BTreeMap::from([("aws_region".to_owned(), "eu-west-1".to_owned())]);
        assert_eq!(found.unwrap(), expected);
        let error = StoreKind::S3.environment("s3://b", variables(&[(b"AWS_REGION", b"\xff")]));
        assert_eq!(
            error.unwrap_err().to_string(),
            "s3://b: the value of the variable AWS_REGION is not UTF-8; set it again, or unset it"
        );
    }

    #[test]
    fn usual_options_are_options() {
        for kind in [StoreKind::S3, StoreKind::Google, StoreKind::Azure, StoreKind::Http] {
            for name in kind.usual_options() {
                assert!(kind.has_option(&name), "{name}");
            }
        }
    }
}
