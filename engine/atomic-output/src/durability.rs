//! Syncs of folders, and the modes and owners of files that replace others.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Makes the names in a folder durable. File systems without such a call are taken at their word.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    match File::open(folder)?.sync_all() {
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
        result => result,
    }
}

/// Gives the new file or folder the mode of the one that it replaces, and its owner if the process may.
pub(crate) fn take_over(old: &Metadata, new: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, chown};
        let made = fs::metadata(new)?;
        if (made.uid(), made.gid()) != (old.uid(), old.gid()) {
            // A process without the right keeps its own user and group.
            let _ = chown(new, Some(old.uid()), Some(old.gid()));
        }
    }
    fs::set_permissions(new, old.permissions())
}

/// The folder above `path`, and the path without links. The folder is created if it does not exist.
pub(crate) fn resolve(path: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let resolved = match fs::canonicalize(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let name = path
                .file_name()
                .ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "the path ends in '..'"))?;
            let parent = match path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent,
                _ => Path::new("."),
            };
            fs::create_dir_all(parent)?;
            fs::canonicalize(parent)?.join(name)
        }
        resolved => resolved?,
    };
    match resolved.parent() {
        Some(parent) => Ok((parent.to_owned(), resolved)),
        None => Err(io::Error::new(ErrorKind::InvalidInput, "it is the root folder")),
    }
}
