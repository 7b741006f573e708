//! The user's files of the interactive shell: its history, and [`RcFile`], the statements that it runs first.

use std::path::PathBuf;

/// A file of statements and commands that the shell runs before its first prompt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RcFile {
    pub(crate) path: PathBuf,
    /// Whether the user names the file, so that it must exist.
    pub(crate) is_named: bool,
}

impl RcFile {
    /// The file of `$GRAMPUS_RC`, none if that is empty, else `$XDG_CONFIG_HOME/grampus/grampusrc`, by default
    /// `~/.config/grampus/grampusrc`.
    pub(crate) fn find() -> Option<Self> {
        match std::env::var_os("GRAMPUS_RC") {
            Some(named) => (!named.is_empty()).then(|| Self {
                path: named.into(),
                is_named: true,
            }),
            None => Some(Self {
                path: below("XDG_CONFIG_HOME", "APPDATA", ".config")?.join("grampusrc"),
                is_named: false,
            }),
        }
    }
}

/// `$XDG_STATE_HOME/grampus/history`, by default `~/.local/state/grampus/history`.
pub(crate) fn history() -> Option<PathBuf> {
    Some(below("XDG_STATE_HOME", "LOCALAPPDATA", ".local/state")?.join("history"))
}

/// The folder `grampus` below the folder of an XDG variable, else of Windows's variable, else below `home` in the
/// user's own folder.
fn below(xdg: &str, windows: &str, home: &str) -> Option<PathBuf> {
    let set = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let folder = set(xdg)
        .filter(|path| path.is_absolute())
        .or_else(|| set(windows))
        .or_else(|| Some(set("HOME")?.join(home)))?;
    Some(folder.join("grampus"))
}
