//! The stores of clouds and HTTP servers, by the builders of object_store.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
pub(crate) use object_store::client::{HttpError, HttpErrorKind};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::{BackoffConfig, ClientConfigKey, ClientOptions, HeaderMap, HeaderValue, ObjectStore, RetryConfig};
use percent_encoding::percent_decode_str;
use url::{Position, Url};

use super::{StoreKind, StoreOptions, option_name};
use crate::store_error::StoreError;

/// No request is repeated after this time.
const RETRY_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum pause before a request is repeated.
const MAX_PAUSE: Duration = Duration::from_secs(4);

/// Whether stores of this kind have the option, whose name is in small letters.
pub(super) fn has_option(kind: StoreKind, name: &str) -> bool {
    match kind {
        StoreKind::S3 => name.parse::<AmazonS3ConfigKey>().is_ok(),
        StoreKind::Google => name.parse::<GoogleConfigKey>().is_ok(),
        StoreKind::Azure => name.parse::<AzureConfigKey>().is_ok(),
        StoreKind::Http => name.parse::<ClientConfigKey>().is_ok(),
        StoreKind::Nvme => false,
    }
}

/// The store of `url`, whose name in messages is `shown`.
///
/// # Errors
/// If the options do not fit. The error names the URL.
pub(super) fn build(
    kind: StoreKind,
    url: &Url,
    shown: &str,
    options: &StoreOptions,
) -> Result<Arc<dyn ObjectStore>, StoreError> {
    let failed = |error: object_store::Error| {
        let reason = match error {
            object_store::Error::Generic { source, .. } => source.to_string(),
            other => other.to_string(),
        };
        StoreError::new(shown, reason, kind.settings_advice())
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
    Ok(match kind {
        StoreKind::S3 => {
            let builder = configured!(AmazonS3Builder).with_url(url.as_str());
            let endpoint = builder
                .get_config_value(&AmazonS3ConfigKey::S3Endpoint)
                .or_else(|| builder.get_config_value(&AmazonS3ConfigKey::Endpoint));
            let allowed = builder.get_config_value(&AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp));
            check_endpoint(kind, shown, endpoint, allowed)?;
            Arc::new(builder.build().map_err(failed)?)
        }
        StoreKind::Google => {
            let builder = configured!(GoogleCloudStorageBuilder).with_url(url.as_str());
            let endpoint = builder.get_config_value(&GoogleConfigKey::BaseUrl);
            let allowed = builder.get_config_value(&GoogleConfigKey::Client(ClientConfigKey::AllowHttp));
            check_endpoint(kind, shown, endpoint, allowed)?;
            Arc::new(builder.build().map_err(failed)?)
        }
        StoreKind::Azure => {
            let builder = configured!(MicrosoftAzureBuilder).with_url(url.as_str());
            let endpoint = builder.get_config_value(&AzureConfigKey::Endpoint);
            let allowed = builder.get_config_value(&AzureConfigKey::Client(ClientConfigKey::AllowHttp));
            check_endpoint(kind, shown, endpoint, allowed)?;
            Arc::new(builder.build().map_err(failed)?)
        }
        StoreKind::Http => {
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
        StoreKind::Nvme => {
            return Err(StoreError::new(
                shown,
                "a namespace is no cloud",
                kind.settings_advice(),
            ));
        }
    })
}

/// Refuses an endpoint without TLS that the options do not allow. Each request would fail without this reason.
fn check_endpoint(
    kind: StoreKind,
    shown: &str,
    endpoint: Option<String>,
    allowed: Option<String>,
) -> Result<(), StoreError> {
    let is_plain = endpoint
        .as_ref()
        .is_some_and(|url| url.to_ascii_lowercase().starts_with("http://"));
    let is_true = |value: &str| ["true", "1", "t", "yes", "on", "y"].contains(&value);
    let is_allowed = allowed.is_some_and(|value| is_true(&value.to_ascii_lowercase()));
    if !is_plain || is_allowed {
        return Ok(());
    }
    let name = format!("{}allow_http", kind.prefix().unwrap_or(""));
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
    use super::*;

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
