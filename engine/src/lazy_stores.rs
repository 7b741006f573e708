//! [`LazyStores`]: object stores by URL, made when a statement first names one.
//!
//! `s3://`, `s3a://`, `gs://`, `az://`, `abfs://`, `abfss://`, `http://` and `https://` are known. Credentials, region
//! and endpoint come from the environment, under the names that object_store documents: `AWS_…`, `GOOGLE_…`, `AZURE_…`.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry};
use object_store::{ObjectStore, parse_url_opts};
use url::Url;

/// The schemes for which stores are made.
const SCHEMES: [&str; 10] = [
    "s3", "s3a", "gs", "az", "adl", "azure", "abfs", "abfss", "http", "https",
];
/// Beginnings of the environment's variables that configure stores.
const PREFIXES: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];

/// A registry that makes the stores that it lacks.
#[derive(Debug, Default)]
pub struct LazyStores {
    known: DefaultObjectStoreRegistry,
}

impl ObjectStoreRegistry for LazyStores {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.known.register_store(url, store)
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.known.deregister_store(url)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        let missing = match self.known.get_store(url) {
            Ok(store) => return Ok(store),
            Err(missing) => missing,
        };
        if !is_remote(url) {
            return Err(missing);
        }
        let store = open(url, &HashMap::new())?;
        self.known.register_store(url, Arc::clone(&store));
        Ok(store)
    }
}

/// Whether a store of this URL can be made.
pub(crate) fn is_remote(url: &Url) -> bool {
    SCHEMES.contains(&url.scheme())
}

/// The store of a URL, configured by the environment and by `options`, which come first: `aws.region` or `aws_region`.
///
/// # Errors
/// If the store cannot be configured. The error names the URL.
pub(crate) fn open(url: &Url, options: &HashMap<String, String>) -> Result<Arc<dyn ObjectStore>> {
    let mut settings: HashMap<String, String> = std::env::vars()
        .filter(|(name, _)| PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
        .collect();
    settings.extend(
        options
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase().replace('.', "_"), value.clone())),
    );
    match parse_url_opts(url, settings) {
        Ok((store, _)) => Ok(store.into()),
        Err(error) => plan_err!("{url}: {error}"),
    }
}

/// Makes the stores of `locations` again with a statement's OPTIONS, if it has any. The stores then serve all
/// statements of the session.
///
/// # Errors
/// If a store cannot be configured.
pub(crate) fn register_with_options(
    state: &dyn Session,
    locations: &[String],
    options: &HashMap<String, String>,
) -> Result<()> {
    let remote = locations.iter().filter_map(|location| Url::parse(location).ok());
    for url in remote.filter(|url| is_remote(url) && !options.is_empty()) {
        let options: HashMap<String, String> = options
            .iter()
            .map(|(name, value)| (name.strip_prefix("format.").unwrap_or(name).to_owned(), value.clone()))
            .collect();
        state.runtime_env().register_object_store(&url, open(&url, &options)?);
    }
    Ok(())
}
