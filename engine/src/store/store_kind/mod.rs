//! [`StoreKind`]: the kinds of object stores, with their schemes, options and builders.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use datafusion::common::utils::datafusion_strsim::levenshtein;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::{BackoffConfig, ClientConfigKey, ClientOptions, HeaderMap, HeaderValue, ObjectStore, RetryConfig};
use percent_encoding::percent_decode_str;
use url::{Position, Url};

use super::nvme_location::NvmeLocation;
use super::nvme_store;
use crate::store_error::StoreError;

/// Options of one store by name, as object_store knows them: `aws_region`.
pub(crate) type StoreOptions = BTreeMap<String, String>;

/// No request is repeated after this time.
const RETRY_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum pause before a request is repeated.
const MAX_PAUSE: Duration = Duration::from_secs(4);

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
        match self {
            Self::S3 => name.parse::<AmazonS3ConfigKey>().is_ok(),
            Self::Google => name.parse::<GoogleConfigKey>().is_ok(),
            Self::Azure => name.parse::<AzureConfigKey>().is_ok(),
            Self::Http => name.parse::<ClientConfigKey>().is_ok(),
            Self::Nvme => false,
        }
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
        let failed = |error: object_store::Error| {
            let reason = match error {
                object_store::Error::Generic { source, .. } => source.to_string(),
                other => other.to_string(),
            };
            StoreError::new(shown, reason, self.settings_advice())
        };
        macro_rules! configured {
            ($builder:ty) => {
                options.iter().fold(
                    <$builder>::new().with_retry(retry_config()),
                    |builder, (name, value)| {
                        match name.parse() {
                            Ok(key) => builder.with_config(key, value),
                            // The names are checked where they come from.
                            Err(_) => builder,
                        }
                    },
                )
            };
        }
        Ok(match self {
            Self::S3 => {
                let builder = configured!(AmazonS3Builder).with_url(url.as_str());
                let endpoint = builder
                    .get_config_value(&AmazonS3ConfigKey::S3Endpoint)
                    .or_else(|| builder.get_config_value(&AmazonS3ConfigKey::Endpoint));
                let allowed = builder.get_config_value(&AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp));
                self.check_endpoint(shown, endpoint, allowed)?;
                Arc::new(builder.build().map_err(failed)?)
            }
            Self::Google => {
                let builder = configured!(GoogleCloudStorageBuilder).with_url(url.as_str());
                let endpoint = builder.get_config_value(&GoogleConfigKey::BaseUrl);
                let allowed = builder.get_config_value(&GoogleConfigKey::Client(ClientConfigKey::AllowHttp));
                self.check_endpoint(shown, endpoint, allowed)?;
                Arc::new(builder.build().map_err(failed)?)
            }
            Self::Azure => {
                let builder = configured!(MicrosoftAzureBuilder).with_url(url.as_str());
                let endpoint = builder.get_config_value(&AzureConfigKey::Endpoint);
                let allowed = builder.get_config_value(&AzureConfigKey::Client(ClientConfigKey::AllowHttp));
                self.check_endpoint(shown, endpoint, allowed)?;
                Arc::new(builder.build().map_err(failed)?)
            }
            Self::Http => {
                let mut client = ClientOptions::new().with_allow_http(url.scheme() == "http");
                for (name, value) in options {
                    if let Ok(key) = name.parse() {
                        client = client.with_config(key, value);
                    }
                }
                if let Some(headers) = authorization(url) {
                    client = client.with_default_headers(headers);
                }
                let server = format!(
                    "{}://{}",
                    url.scheme(),
                    &url[Position::BeforeHost..Position::BeforePath]
                );
                let builder = HttpBuilder::new()
                    .with_url(server)
                    .with_client_options(client)
                    .with_retry(retry_config());
                Arc::new(builder.build().map_err(failed)?)
            }
            Self::Nvme => Arc::new(nvme_store::open(NvmeLocation::of(url)?)?),
        })
    }

    /// Refuses an endpoint without TLS that the options do not allow. Each request would fail without this reason.
    fn check_endpoint(self, shown: &str, endpoint: Option<String>, allowed: Option<String>) -> Result<(), StoreError> {
        let is_plain = endpoint
            .as_ref()
            .is_some_and(|url| url.to_ascii_lowercase().starts_with("http://"));
        let is_true = |value: &str| ["true", "1", "t", "yes", "on", "y"].contains(&value);
        let is_allowed = allowed.is_some_and(|value| is_true(&value.to_ascii_lowercase()));
        if !is_plain || is_allowed {
            return Ok(());
        }
        let name = format!("{}allow_http", self.prefix().unwrap_or(""));
        Err(StoreError::new(
            shown,
            format!("the endpoint {} has no TLS", endpoint.unwrap_or_default()),
            format!(
                "set {}=true, or OPTIONS ('{}' 'true') of the table, to allow that",
                name.to_ascii_uppercase(),
                option_name(&name)
            ),
        ))
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

fn retry_config() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            max_backoff: MAX_PAUSE,
            ..BackoffConfig::default()
        },
        retry_timeout: RETRY_TIMEOUT,
        ..RetryConfig::default()
    }
}

/// The header that carries a URL's user and password (RFC 7617).
fn authorization(url: &Url) -> Option<HeaderMap> {
    let password = url.password().unwrap_or("");
    if url.username().is_empty() && password.is_empty() {
        return None;
    }
    let mut user: Vec<u8> = percent_decode_str(url.username()).collect();
    user.push(b':');
    user.extend(percent_decode_str(password));
    let mut value = HeaderValue::from_str(&format!("Basic {}", BASE64_STANDARD.encode(user))).ok()?;
    value.set_sensitive(true);
    let mut headers = HeaderMap::new();
    headers.insert("authorization", value);
    Some(headers)
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

    #[test]
    fn endpoint_without_tls_needs_a_word() {
        let url = Url::parse("s3://bucket/").unwrap();
        let mut options = StoreOptions::from([("aws_endpoint".to_owned(), "http://localhost:1".to_owned())]);
        let error = StoreKind::S3
            .build(&url, "s3://bucket", &options)
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("s3://bucket: the endpoint http://localhost:1 has no TLS"),
            "{error}"
        );
        assert!(
            error.contains("AWS_ALLOW_HTTP=true") && error.contains("'aws.allow_http'"),
            "{error}"
        );
        options.insert("aws_allow_http".to_owned(), "TRUE".to_owned());
        StoreKind::S3.build(&url, "s3://bucket", &options).unwrap();
    }

    #[test]
    fn user_of_a_url_becomes_a_header() {
        let url = Url::parse("https://user:p%40ss@host/").unwrap();
        let headers = authorization(&url).unwrap();
        // printf 'user:p@ss' | base64
        assert_eq!(headers["authorization"], "Basic dXNlcjpwQHNz");
        assert_eq!(authorization(&Url::parse("https://host/").unwrap()), None);
    }
}
