//! [`LazyStores`]: object stores by URL, made when a statement first names one.
//!
//! - A store is known by scheme, user, host and port. So `abfss://A@account` and `abfss://B@account` are two stores.
//! - Its options come from the environment, under the names that object_store documents: `AWS_…`, `GOOGLE_…`,
//!   `AZURE_…`.
//! - OPTIONS of a statement give a store of its own, which the statement's table alone uses. Its URL has a password
//!   that stands for the options. Equal options of one bucket are one store.
//! - Stores and options that were not used for long are forgotten when there are many. A forgotten store is made again.

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

/// Stores that were made and are kept.
const MAX_MADE_STORES: usize = 256;
/// Sets of OPTIONS that are kept. They are small, and what was forgotten has to be named again.
const MAX_OPTIONS: usize = 4096;

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

/// **Invariant:** `made` and `options` have bounds, and lose what was used least recently.
struct State {
    /// Stores that were registered, by scheme, user, host and port. They stay.
    registered: HashMap<String, Arc<dyn ObjectStore>>,
    /// Stores that were made, likewise.
    made: HashMap<String, Used<Arc<dyn ObjectStore>>>,
    /// The URL and the options behind each password, by the password's number.
    options: HashMap<u64, Used<(Url, StoreOptions)>>,
    /// The number of each set of options.
    numbers: HashMap<(Url, StoreOptions), u64>,
    next_number: u64,
    /// Counts uses.
    clock: u64,
}

/// A value, and when it was used last.
struct Used<T> {
    value: T,
    at: u64,
}

impl Default for LazyStores {
    fn default() -> Self {
        let local: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new());
        let state = State {
            registered: HashMap::from([("file://".to_owned(), local)]),
            made: HashMap::new(),
            options: HashMap::new(),
            numbers: HashMap::new(),
            next_number: 0,
            clock: 0,
        };
        Self {
            state: Mutex::new(state),
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
        let number = self.lock().number_of(store, options);
        let mut url = url.clone();
        // Fails for URLs without a host, which no store has.
        let _ = url.set_password(Some(&format!("{OPTIONS_PASSWORD}{number}")));
        url
    }
}

impl State {
    fn now(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// The number of the password that stands for the options of a store.
    fn number_of(&mut self, store: Url, options: StoreOptions) -> u64 {
        let at = self.now();
        let value = (store, options);
        if let Some(&number) = self.numbers.get(&value) {
            if let Some(known) = self.options.get_mut(&number) {
                known.at = at;
            }
            return number;
        }
        while self.options.len() >= MAX_OPTIONS
            && let Some(oldest) = oldest(&self.options)
            && let Some(forgotten) = self.options.remove(&oldest)
        {
            self.numbers.remove(&forgotten.value);
        }
        // A number is of one set of options for ever: a table may still have the URL of forgotten ones.
        let number = self.next_number;
        self.next_number += 1;
        self.numbers.insert(value.clone(), number);
        self.options.insert(number, Used { value, at });
        number
    }

    /// The URL without the password that stands for options, and the options.
    fn resolve(&mut self, url: &Url) -> (Url, StoreOptions) {
        let at = self.now();
        let number = url
            .password()
            .and_then(|password| password.strip_prefix(OPTIONS_PASSWORD));
        let known = number.and_then(|number| self.options.get_mut(&number.parse().ok()?));
        let named = known.filter(|known| {
            let (store, _) = &known.value;
            store.scheme() == url.scheme() && store.host() == url.host()
        });
        match named {
            Some(known) => {
                known.at = at;
                known.value.clone()
            }
            None => (url.clone(), StoreOptions::new()),
        }
    }

    /// The store with this key, if there is one.
    fn store(&mut self, key: &str) -> Option<Arc<dyn ObjectStore>> {
        let at = self.now();
        if let Some(registered) = self.registered.get(key) {
            return Some(Arc::clone(registered));
        }
        let made = self.made.get_mut(key)?;
        made.at = at;
        Some(Arc::clone(&made.value))
    }

    /// Keeps a store that was made.
    fn keep(&mut self, key: String, store: Arc<dyn ObjectStore>) {
        let at = self.now();
        while self.made.len() >= MAX_MADE_STORES
            && let Some(oldest) = oldest(&self.made)
        {
            self.made.remove(&oldest);
        }
        self.made.insert(key, Used { value: store, at });
    }
}

/// The key of the value that was used least recently.
fn oldest<K: Clone, T>(used: &HashMap<K, Used<T>>) -> Option<K> {
    let oldest = used.iter().min_by_key(|(_, used)| used.at);
    oldest.map(|(key, _)| key.clone())
}

/// Scheme, user, host and port.
fn key(url: &Url) -> String {
    url[..Position::BeforePath].to_owned()
}

impl ObjectStoreRegistry for LazyStores {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        let mut state = self.lock();
        let made = state.made.remove(&key(url)).map(|made| made.value);
        state.registered.insert(key(url), store).or(made)
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        let mut state = self.lock();
        let registered = state.registered.remove(&key(url));
        let store = registered.or_else(|| state.made.remove(&key(url)).map(|made| made.value));
        store.ok_or_else(|| DataFusionError::Plan(format!("{}: no such store", without_passwords(url.as_str()))))
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        let mut state = self.lock();
        // Options of a store in use are in use too.
        let (known, options) = state.resolve(url);
        if let Some(store) = state.store(&key(url)) {
            return Ok(store);
        }
        let Some(known) = self.secrets.with_password(&known) else {
            let reason = "what stands for its password or OPTIONS is of another session, or was not used for long";
            let error = StoreError::new(shown(&key(url)), reason, "name the password or the OPTIONS here");
            return Err(DataFusionError::External(Box::new(error)));
        };
        let store = open(&known, options).map_err(|error| DataFusionError::External(Box::new(error)))?;
        state.keep(key(url), Arc::clone(&store));
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
    fn stores_and_options_have_bounds() {
        let stores = LazyStores::default();
        let own: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new());
        stores.register_store(&url("s3://own"), Arc::clone(&own));
        let place = url("s3://bucket/a.orc");
        let region = |k: usize| StoreOptions::from([("aws_region".to_owned(), format!("region-{k}"))]);
        let first = stores.with_options(&place, region(0));
        let last = stores.with_options(&place, region(1));
        let opened = stores.get_store(&first).unwrap();
        for k in 2..MAX_OPTIONS + 500 {
            let named = stores.with_options(&place, region(k));
            // The first one is in use meanwhile.
            assert_eq!(stores.with_options(&place, region(0)), first);
            if k.is_multiple_of(16) {
                stores.get_store(&named).unwrap();
            }
        }
        let state = stores.lock();
        assert_eq!((state.options.len(), state.numbers.len()), (MAX_OPTIONS, MAX_OPTIONS));
        assert!(state.made.len() <= MAX_MADE_STORES, "{}", state.made.len());
        drop(state);
        assert!(Arc::ptr_eq(&stores.get_store(&url("s3://own")).unwrap(), &own));
        // A forgotten store is made again, and forgotten options are an error that says what to do.
        assert!(!Arc::ptr_eq(&stores.get_store(&first).unwrap(), &opened));
        let error = stores.get_store(&last).unwrap_err().to_string();
        assert!(error.contains("name the password or the OPTIONS here"), "{error}");
        assert_ne!(stores.with_options(&place, region(1)), last);
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
