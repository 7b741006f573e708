//! Syncs of folders, and the modes and owners of files that replace others.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Links that a path may go through, as in Linux.
const MAX_LINKS: usize = 40;

/// Makes the names in a folder durable. File systems without such a call are taken at their word.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    let folder = match File::open(folder) {
        // This user may write there, but not list.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(()),
        opened => opened?,
    };
    match folder.sync_all() {
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

/// Gives a new file the group of the folder in which it will appear, if that folder hands its group on.
pub(crate) fn take_group(folder: &Metadata, new: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, chown};
        const SET_GROUP: u32 = 0o2000;
        if folder.mode() & SET_GROUP != 0 && fs::metadata(new)?.gid() != folder.gid() {
            let _ = chown(new, None, Some(folder.gid()));
        }
    }
    #[cfg(not(unix))]
    let _ = (folder, new);
    Ok(())
}

/// The folder above `path`, and the path without links. The folder is created if it does not exist.
pub(crate) fn resolve(path: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let resolved = without_links(path)?;
    let Some(parent) = resolved.parent() else {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is the root folder"));
    };
    fs::create_dir_all(parent)?;
    Ok((parent.to_owned(), resolved))
}

/// The path without links. What it names need not exist, nor the folders above. Nothing is created.
pub(crate) fn without_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::canonicalize(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            resolved => return resolved,
        }
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        // A link to what does not exist yet names that.
        match fs::read_link(&path) {
            Ok(target) => path = parent.join(target),
            Err(_) => {
                let name = path
                    .file_name()
                    .ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "the path ends in '..'"))?;
                return Ok(without_links(parent)?.join(name));
            }
        }
    }
    Err(io::Error::other("too many links, one to the other"))
}

/// The folder itself, or the nearest one above that exists.
pub(crate) fn existing_folder(folder: &Path) -> &Path {
    let mut folders = folder.ancestors();
    folders.find(|folder| folder.is_dir()).unwrap_or(Path::new("/"))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_what_need_not_exist() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        symlink("b", folder.join("a")).unwrap();
        symlink(folder.join("new/c"), folder.join("b")).unwrap();
        assert_eq!(without_links(&folder.join("a")).unwrap(), folder.join("new/c"));
        assert_eq!(without_links(&folder.join("x/y")).unwrap(), folder.join("x/y"));
        symlink("loop", folder.join("loop")).unwrap();
        without_links(&folder.join("loop")).unwrap_err();
    }
}
