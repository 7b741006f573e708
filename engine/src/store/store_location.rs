//! [`listing_url`]: a location as DataFusion lists it, with patterns in URLs too.

use datafusion::datasource::listing::ListingTableUrl;
use datafusion::error::{DataFusionError, Result};
use glob::Pattern;
use url::Url;

use super::nvme_location;
use super::store_kind::StoreKind;
use crate::error::message;
use crate::redaction::without_passwords;
use crate::store_error::StoreError;

/// The kind of a location's store, if the location is the URL of a store.
pub(crate) fn kind_of(location: &str) -> Option<StoreKind> {
    StoreKind::of(&remote(location)?)
}

/// The URL of a location, unless the location is a path.
pub(crate) fn remote(location: &str) -> Option<Url> {
    let is_url = location.contains("://") && !location.starts_with('/');
    is_url.then(|| nvme_location::parse(location).or_else(|| Url::parse(location).ok()))?
}

/// The URL of a store as people write it, without passwords.
pub(crate) fn shown(url: &str) -> String {
    nvme_location::shown(&without_passwords(url))
}

/// The listing of a location: a path or a URL, of a file, a folder or a pattern.
///
/// # Errors
/// If the text is no URL, its pattern is wrong, or it has a query, which stores are not sent.
pub(crate) fn listing_url(location: &str) -> Result<ListingTableUrl> {
    let named = |reason: String| DataFusionError::Plan(format!("{}: {reason}", without_passwords(location)));
    let Some(url) = remote(location).filter(|url| StoreKind::of(url).is_some()) else {
        return ListingTableUrl::parse(location).map_err(|error| named(message(&error)));
    };
    if url.query().is_some() || url.fragment().is_some() {
        let reason = "the part after ? or # is not sent to the store";
        let advice = "leave it out; signed URLs cannot be used; write ? in a name as %3F, and * in a pattern";
        let shown = without_passwords(&url[..url::Position::AfterPath]);
        return Err(DataFusionError::External(Box::new(StoreError::new(
            shown, reason, advice,
        ))));
    }
    let path = url.path();
    let Some(wild) = path.find(['*', '[']) else {
        return ListingTableUrl::try_new(url, None);
    };
    let folder = path[..wild].rfind('/').map_or(0, |slash| slash + 1);
    // A slash at the end says that folders are meant, whose names are matched without it.
    let pattern = path[folder..].trim_end_matches('/');
    let pattern = Pattern::new(pattern).map_err(|error| named(error.to_string()))?;
    let mut base = url.clone();
    base.set_path(&path[..folder]);
    ListingTableUrl::try_new(base, Some(pattern))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_urls_list_the_folder_before_them() {
        let url = listing_url("s3://bucket/a/2019-*.orc").unwrap();
        assert_eq!((url.as_str(), url.prefix().as_ref()), ("s3://bucket/a/", "a"));
        assert_eq!(url.get_glob().as_ref().unwrap().as_str(), "2019-*.orc");
        assert!(url.is_collection());
        let file = listing_url("s3://bucket/a/b.orc").unwrap();
        assert_eq!((file.as_str(), file.get_glob()), ("s3://bucket/a/b.orc", &None));
    }

    #[test]
    fn addresses_of_controllers_are_hosts() {
        let url = listing_url("nvme://0000:01:00.0/year=*/a-b.orc").unwrap();
        assert_eq!(url.as_str(), "nvme://0000-01-00.0/");
        assert_eq!(url.get_glob().as_ref().unwrap().as_str(), "year=*/a-b.orc");
        assert_eq!(shown(url.object_store().as_str()), "nvme://0000:01:00.0/");
    }

    #[test]
    fn query_of_a_url_is_refused_without_its_secret() {
        let error = listing_url("https://u:pw@host/a.csv?token=abc")
            .unwrap_err()
            .to_string();
        assert!(error.contains("https://u:***@host/a.csv: the part after ?"), "{error}");
        assert!(!error.contains("abc") && !error.contains("pw"), "{error}");
    }
}
