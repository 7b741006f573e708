//! `FoundFile` and the search for a table's files: paths, folders, globs and URLs are expanded to the files there.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::plan_err;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::error::{DataFusionError, Result};
use futures::TryStreamExt;
use glob::MatchOptions;
use grampus_atomic_output::FolderLock;
use object_store::{ObjectMeta, ObjectStoreExt};

use super::row_versions;
use crate::file::{Identity, Place};
use crate::redaction::without_passwords;
use crate::store::store_location::{listing_url, shown};
use crate::store_error::StoreError;

/// Maximum depth of nested folders. Deeper nesting counts as a loop of links.
const MAX_DEPTH: usize = 32;

/// A file that belongs to a table.
#[derive(Debug, Clone)]
pub(crate) struct FoundFile {
    /// The name in error messages: path or URL.
    pub(crate) name: Arc<str>,
    /// The file's place.
    pub(crate) place: Place,
    /// The version of the file at the time of the search.
    pub(crate) identity: Identity,
    /// The folders between the location and the file, outermost first.
    pub(crate) folders: Vec<String>,
    /// True if the location is the file itself, not a folder or a pattern that contains the file.
    pub(crate) is_named: bool,
}

impl FoundFile {
    /// Whether nothing is at the file's local path any more. A file that a statement names is not looked for.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(&self.place, Place::Local(path) if !self.is_named && is_missing(path))
    }
}

/// The files at `locations`, sorted by name, without those of 0 bytes. A folder's lock is held while it is listed, so
/// that a statement that publishes several files there shows all of them or none.
///
/// Each file of a folder is data, whatever its name, as in Hive and Trino. These are left out: hidden files
/// ([`is_hidden_name`]), side files of Hive's streaming, and files of 0 bytes, which Hive writes for empty buckets.
///
/// # Errors
/// If a location does not exist or holds no file, if a location is a file of 0 bytes, or if a folder belongs to a Hive
/// table with row versions.
pub(crate) async fn find_files(state: &dyn Session, locations: &[String]) -> Result<Vec<FoundFile>> {
    find(state, locations, false).await
}

/// Like [`find_files`] for a table that may have no files: there may be no file at `locations`, and no folder.
pub(crate) async fn find_files_if_any(state: &dyn Session, locations: &[String]) -> Result<Vec<FoundFile>> {
    find(state, locations, true).await
}

async fn find(state: &dyn Session, locations: &[String], may_be_empty: bool) -> Result<Vec<FoundFile>> {
    let mut files = Vec::new();
    for location in locations {
        let mut found = match local_path(location) {
            Some(path) if may_be_empty && is_missing(&path) && !is_pattern(location) => Vec::new(),
            Some(path) => find_local(&path, location)?,
            None => find_remote(state, location).await?,
        };
        if found.is_empty() && !may_be_empty {
            return plan_err!("{}: no ORC file there", without_passwords(location));
        }
        if let Some(empty) = found.iter().find(|file| file.is_named && file.identity.length == 0) {
            return plan_err!(
                "{}: the file is empty (0 bytes): no ORC file; remove it or write it again",
                empty.name
            );
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        for file in &found {
            row_versions::refuse_folders(&file.name, &file.folders)?;
        }
        found.retain(|file| file.identity.length > 0);
        files.append(&mut found);
    }
    let mut seen = std::collections::HashSet::new();
    files.retain(|file| seen.insert(file.place.key()));
    Ok(files)
}

/// The local path of a location: without a scheme, or with `file://`.
pub(crate) fn local_path(location: &str) -> Option<PathBuf> {
    match location.split_once("://") {
        None => Some(PathBuf::from(location)),
        Some(("file", _)) => url::Url::parse(location).ok()?.to_file_path().ok(),
        Some(_) => None,
    }
}

fn is_pattern(location: &str) -> bool {
    location.contains(['*', '?', '['])
}

fn is_missing(path: &Path) -> bool {
    fs::metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

fn find_local(path: &Path, location: &str) -> Result<Vec<FoundFile>> {
    let mut files = Vec::new();
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            let _lock = FolderLock::shared(path);
            walk(path, &mut Vec::new(), &mut files)?;
        }
        Ok(metadata) => {
            let mut file = local_file(path, &metadata, Vec::new());
            file.is_named = true;
            files.push(file);
        }
        Err(error) if error.kind() == ErrorKind::NotFound && is_pattern(location) => {
            // The path, since `file://` is no part of the pattern.
            expand(&path.to_string_lossy(), &mut files)?;
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return plan_err!("{location}: no such file or folder");
        }
        Err(error) => return plan_err!("{location}: {error}"),
    }
    Ok(files)
}

/// Finds the files and folders that a glob matches. The folders before the first wildcard are the location.
fn expand(pattern: &str, files: &mut Vec<FoundFile>) -> Result<()> {
    let paths = glob::glob(pattern).map_err(|error| DataFusionError::Plan(format!("{pattern}: {error}")))?;
    let wild = pattern.find(['*', '?', '[']).unwrap_or(pattern.len());
    let base = Path::new(&pattern[..pattern[..wild].rfind('/').map_or(0, |slash| slash + 1)]);
    let _lock = FolderLock::shared(&Path::new(".").join(base));
    for path in paths {
        let path = path.map_err(|error| DataFusionError::Plan(format!("{pattern}: {error}")))?;
        let relative = path.strip_prefix(base).unwrap_or(&path);
        let mut folders: Vec<String> = relative
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        let metadata = metadata(&path)?;
        if metadata.is_dir() {
            walk(&path, &mut folders, files)?;
        } else if !is_hidden(&path) {
            folders.pop();
            files.push(local_file(&path, &metadata, folders));
        }
    }
    Ok(())
}

/// The files in a local folder and below, as [`find_files`] finds them, those of 0 bytes too. The folder is not locked.
pub(crate) fn files_below(folder: &Path) -> Result<Vec<FoundFile>> {
    let mut files = Vec::new();
    walk(folder, &mut Vec::new(), &mut files)?;
    Ok(files)
}

fn walk(folder: &Path, folders: &mut Vec<String>, files: &mut Vec<FoundFile>) -> Result<()> {
    if folders.len() > MAX_DEPTH {
        return plan_err!(
            "{}: more than {MAX_DEPTH} folders deep (a loop of links?)",
            folder.display()
        );
    }
    let failed = |error| DataFusionError::Plan(format!("{}: {error}", folder.display()));
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if is_hidden(&path) {
            continue;
        }
        let metadata = metadata(&path)?;
        if metadata.is_dir() {
            folders.push(name_of(&path));
            walk(&path, folders, files)?;
            folders.pop();
        } else {
            files.push(local_file(&path, &metadata, folders.clone()));
        }
    }
    Ok(())
}

fn metadata(path: &Path) -> Result<fs::Metadata> {
    fs::metadata(path).map_err(|error| DataFusionError::Plan(format!("{}: {error}", path.display())))
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn is_hidden(path: &Path) -> bool {
    is_hidden_name(&name_of(path))
}

/// Whether a name belongs to a file or folder that writers leave beside data.
///
/// - A leading `_` or `.` hides a name in Hive, Spark and Trino: `_SUCCESS`, `_temporary`, `.hive-staging_…`. A
///   partition folder of a column `_c` keeps its `_`: `_c=1`.
/// - `.crc` ends the name of a checksum of Hadoop's local file system.
/// - `_flush_length` ends the name of a side file of Hive's streaming, which holds lengths of the file beside it.
pub(crate) fn is_hidden_name(name: &str) -> bool {
    (name.starts_with('_') && !name.contains('='))
        || name.starts_with('.')
        || name.ends_with(".crc")
        || name.ends_with("_flush_length")
}

fn local_file(path: &Path, metadata: &fs::Metadata, folders: Vec<String>) -> FoundFile {
    FoundFile {
        name: path.to_string_lossy().into(),
        place: Place::Local(path.to_path_buf()),
        identity: Identity::of_local(metadata),
        folders,
        is_named: false,
    }
}

/// Whether a listed object is below the URL's folder and fits its pattern. A `*` stands for no `/`, as in local paths.
fn is_listed(url: &ListingTableUrl, object: &ObjectMeta) -> bool {
    const LITERAL: MatchOptions = MatchOptions {
        case_sensitive: true,
        require_literal_separator: true,
        require_literal_leading_dot: false,
    };
    let Some(mut below) = url.strip_prefix(&object.location) else {
        return false;
    };
    match url.get_glob() {
        Some(pattern) => {
            let below: Vec<&str> = below.collect();
            // A pattern may name folders, whose files are all meant.
            (1..=below.len()).any(|parts| pattern.matches_with(&below[..parts].join("/"), LITERAL))
        }
        None => below.next().is_some(),
    }
}

async fn find_remote(state: &dyn Session, location: &str) -> Result<Vec<FoundFile>> {
    let url = listing_url(location)?;
    let store_url = url.object_store();
    let store = state.runtime_env().object_store(&store_url)?;
    let failed = |error: object_store::Error| match StoreError::find(&error) {
        Some(_) => DataFusionError::ObjectStore(Box::new(error)),
        None => DataFusionError::Plan(format!("{}: {error}", without_passwords(location))),
    };
    let objects: Vec<ObjectMeta> = if url.is_collection() {
        let listed: Vec<ObjectMeta> = store.list(Some(url.prefix())).try_collect().await.map_err(failed)?;
        listed.into_iter().filter(|object| is_listed(&url, object)).collect()
    } else {
        match store.head(url.prefix()).await {
            Ok(object) => vec![object],
            // The location is a folder named without its slash.
            Err(object_store::Error::NotFound { .. }) => {
                store.list(Some(url.prefix())).try_collect().await.map_err(failed)?
            }
            Err(error) => return Err(failed(error)),
        }
    };
    let store_name: Arc<str> = shown(store_url.as_str()).into();
    let store_key: Arc<str> = store_url.as_str().into();
    let files = objects.into_iter().filter_map(|object| {
        let relative = object.location.prefix_match(url.prefix())?;
        let mut folders: Vec<String> = relative.map(|part| part.as_ref().to_owned()).collect();
        let single = folders.is_empty();
        folders.pop();
        let hidden = folders.iter().any(|name| is_hidden_name(name))
            || object
                .location
                .filename()
                .is_some_and(|name| is_hidden_name(name) && !single);
        let file = FoundFile {
            name: format!("{store_name}{}", object.location).into(),
            identity: Identity::of_object(&object),
            place: Place::Remote {
                store: Arc::clone(&store),
                url: Arc::clone(&store_key),
                path: object.location,
            },
            folders,
            is_named: single,
        };
        (!hidden).then_some(file)
    });
    Ok(files.collect())
}
