//! [`LazyStores`]: object stores by URL, made when a statement first names one.
//!
//! - A store is known by scheme, user, host and port. So `abfss://A@account` and `abfss://B@account` are two stores.
//! - Its options come from the environment, under the names that object_store documents: `AWS_…`, `GOOGLE_…`,
//!   `AZURE_…`.
//! - OPTIONS of a statement give a store of its own, which the statement's table alone uses. Its URL has a password
//!   that stands for the options. Equal options of one bucket are one store.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::ObjectStoreRegistry;
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use url::{Position, Url};

use super::named_store::NamedStore;
use super::secrets::Secrets;
use super::store_kind::{StoreKind, StoreOptions};
use super::store_location::{remote, shown};
use crate::redaction::{OPTIONS_PASSWORD, without_passwords};
use crate::store_error::StoreError;

/// A registry that makes the stores that it lacks.
pub struct LazyStores {
    state: Mutex<State>,
    secrets: Arc<Secrets>,
}

impl fmt::Debug for LazyStores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyStores").finish_non_exhaustive()
    }
}

struct State {
    stores: HashMap<String, Arc<dyn ObjectStore>>,
    /// The URL and the options behind each password.
    options: Vec<(Url, StoreOptions)>,
}

impl Default for LazyStores {
    fn default() -> Self {
        let local: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new());
        let stores = HashMap::from([("file://".to_owned(), local)]);
        let options = Vec::new();
        Self {
            state: Mutex::new(State { stores, options }),
            secrets: Arc::default(),
        }
    }
}

impl LazyStores {
    /// Locks the state. Entries are inserted whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The passwords and keys in the place of which something else stands.
    pub(crate) fn secrets(&self) -> &Arc<Secrets> {
        &self.secrets
    }

    /// The location of a store of these options.
    pub(crate) fn locate(&self, location: &str, options: &StoreOptions) -> String {
        match remote(location) {
            Some(url) if !options.is_empty() => self.with_options(&url, options.clone()).into(),
            // DataFusion parses the location too, and takes the colons of an address for a port.
            Some(url) if StoreKind::of(&url) == Some(StoreKind::Nvme) => url.into(),
            _ => location.to_owned(),
        }
    }

    /// The URL under which a store of these options is known.
    fn with_options(&self, url: &Url, options: StoreOptions) -> Url {
        let mut store = url.clone();
        store.set_path("");
        let mut state = self.lock();
        let known = state
            .options
            .iter()
            .position(|known| known.0 == store && known.1 == options);
        let place = known.unwrap_or_else(|| {
            state.options.push((store, options));
            state.options.len() - 1
        });
        let mut url = url.clone();
        // Fails for URLs without a host, which no store has.
        let _ = url.set_password(Some(&format!("{OPTIONS_PASSWORD}{place}")));
        url
    }
}

impl State {
    /// The URL without the password that stands for options, and the options.
    fn resolve(&self, url: &Url) -> (Url, StoreOptions) {
        let place = url
            .password()
            .and_then(|password| password.strip_prefix(OPTIONS_PASSWORD));
        let place = place.and_then(|place| self.options.get(place.parse::<usize>().ok()?));
        let named = place.filter(|(known, _)| known.scheme() == url.scheme() && known.host() == url.host());
        named.map_or_else(|| (url.clone(), StoreOptions::new()), Clone::clone)
    }
}

/// Scheme, user, host and port.
fn key(url: &Url) -> String {
    url[..Position::BeforePath].to_owned()
}

impl ObjectStoreRegistry for LazyStores {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.lock().stores.insert(key(url), store)
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        let store = self.lock().stores.remove(&key(url));
        store.ok_or_else(|| DataFusionError::Plan(format!("{}: no such store", without_passwords(url.as_str()))))
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        let mut state = self.lock();
        if let Some(store) = state.stores.get(&key(url)) {
            return Ok(Arc::clone(store));
        }
        let (known, options) = state.resolve(url);
        let Some(known) = self.secrets.with_password(&known) else {
            let reason = "what stands for its password or OPTIONS is of another session";
            let error = StoreError::new(shown(&key(url)), reason, "name the password or the OPTIONS here");
            return Err(DataFusionError::External(Box::new(error)));
        };
        let store = open(&known, options).map_err(|error| DataFusionError::External(Box::new(error)))?;
        state.stores.insert(key(url), Arc::clone(&store));
        Ok(store)
    }
}

/// The store of a URL, configured by `options` and, for what they lack, by the environment.
fn open(url: &Url, options: StoreOptions) -> Result<Arc<dyn ObjectStore>, StoreError> {
    let shown = shown(&key(url));
    let Some(kind) = StoreKind::of(url) else {
        return Err(StoreError::new(
            shown,
            format!("the scheme {} is not known", url.scheme()),
            format!("known are local files and {}", StoreKind::schemes()),
        ));
    };
    if let Some(advice) = bucket_in_path(url) {
        let reason = "this host's stores have the bucket in the path";
        return Err(StoreError::new(shown, reason, advice));
    }
    let mut settings = kind.environment(&shown, std::env::vars_os())?;
    settings.extend(options);
    let store = kind.build(url, &shown, &settings)?;
    if kind == StoreKind::Nvme {
        return Ok(store); // its errors have the user's words already
    }
    Ok(Arc::new(NamedStore::new(kind, &shown, store)))
}

/// How to write the URL of a cloud's host whose path begins with the bucket. DataFusion has one store per host.
fn bucket_in_path(url: &Url) -> Option<String> {
    let host = url.host_str().filter(|_| url.scheme() == "https")?;
    if let Some(server) = host
        .strip_suffix(".amazonaws.com")
        .filter(|server| server.starts_with("s3"))
    {
        let region = server.trim_start_matches("s3").trim_start_matches(['.', '-']);
        return Some(match region {
            "" => "write s3://BUCKET/PATH".to_owned(),
            _ => format!("write s3://BUCKET/PATH and set AWS_REGION={region}"),
        });
    }
    if host.ends_with(".r2.cloudflarestorage.com") {
        return Some(format!(
            "write s3://BUCKET/PATH and set AWS_ENDPOINT=https://{host} and AWS_REGION=auto"
        ));
    }
    let (account, domain) = host.split_once('.')?;
    let is_azure = ["core.windows.net", "fabric.microsoft.com"].iter().any(|azure| {
        ["dfs", "blob"]
            .iter()
            .any(|service| domain.strip_prefix(service).and_then(|rest| rest.strip_prefix('.')) == Some(azure))
    });
    is_azure.then(|| format!("write abfss://CONTAINER@{account}.{domain}/PATH"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn refusal(text: &str) -> String {
        LazyStores::default().get_store(&url(text)).unwrap_err().to_string()
    }

    #[test]
    fn containers_of_one_account_are_different_stores() {
        let stores = LazyStores::default();
        let options = StoreOptions::from([("azure_storage_account_key".to_owned(), "a2V5".to_owned())]);
        let store = |container: &str| {
            let place = url(&format!("abfss://{container}@account.dfs.core.windows.net/x.orc"));
            stores.get_store(&stores.with_options(&place, options.clone())).unwrap()
        };
        let (a, b) = (store("a"), store("b"));
        assert!(!Arc::ptr_eq(&a, &b));
        assert!(Arc::ptr_eq(&a, &store("a")));
        assert_eq!(a.to_string(), "abfss://a@account.dfs.core.windows.net");
    }

    #[test]
    fn options_give_a_bucket_a_store_of_their_own() {
        let stores = LazyStores::default();
        let place = url("s3://bucket/a/b.orc");
        let region = |region: &str| StoreOptions::from([("aws_region".to_owned(), region.to_owned())]);
        let one = stores.with_options(&place, region("eu-west-1"));
        let other = stores.with_options(&url("s3://bucket/c.orc"), region("us-west-2"));
        let same = stores.with_options(&url("s3://bucket/d.orc"), region("eu-west-1"));
        assert_eq!((key(&one), one.path()), (key(&same), "/a/b.orc"));
        let opened = |url: &Url| stores.get_store(url).unwrap();
        assert!(Arc::ptr_eq(&opened(&one), &opened(&same)));
        assert!(!Arc::ptr_eq(&opened(&one), &opened(&other)));
        assert!(!Arc::ptr_eq(&opened(&one), &opened(&place)));
        assert_eq!(without_passwords(one.as_str()), "s3://bucket/a/b.orc");
    }

    #[test]
    fn unknown_scheme_is_named() {
        let error = refusal("hdfs://host/a.orc");
        assert!(error.contains("hdfs://host: the scheme hdfs is not known"), "{error}");
        assert!(error.contains("local files and s3, s3a, gs, az,"), "{error}");
    }

    #[test]
    fn hosts_with_the_bucket_in_the_path_are_refused() {
        for (place, expected) in [
            (
                "https://s3.eu-west-1.amazonaws.com/bucket/a.orc",
                "write s3://BUCKET/PATH and set AWS_REGION=eu-west-1",
            ),
            ("https://s3.amazonaws.com/bucket/a.orc", "write s3://BUCKET/PATH"),
            (
                "https://acct.r2.cloudflarestorage.com/bucket/a.orc",
                "set AWS_ENDPOINT=https://acct.r2.cloudflarestorage.com and AWS_REGION=auto",
            ),
            (
                "https://acct.blob.core.windows.net/container/a.orc",
                "write abfss://CONTAINER@acct.blob.core.windows.net/PATH",
            ),
        ] {
            let error = refusal(place);
            assert!(
                error.contains(expected) && error.contains("bucket in the path"),
                "{error}"
            );
        }
    }

    #[test]
    fn password_of_a_url_is_in_no_message() {
        let error = refusal("ftp://user:secret@host/a.orc");
        assert!(
            error.contains("ftp://user:***@host") && !error.contains("secret"),
            "{error}"
        );
        let store = LazyStores::default()
            .get_store(&url("http://user:secret@localhost/a.orc"))
            .unwrap();
        assert_eq!(store.to_string(), "http://user:***@localhost");
        assert!(!format!("{store:?}").contains("secret"), "{store:?}");
    }
}
