//! Settings: those a session starts with ([`GrampusConfig`]) and those that SQL can change
//! (`SET grampus.local_io = 'read'`, [`GrampusOptions`]).

use std::fmt;
use std::str::FromStr;

use datafusion::common::config::{ConfigExtension, ConfigField, Visit};
use datafusion::common::{config_err, extensions_options};
use datafusion::error::{DataFusionError, Result};

/// What a session starts with. `None` leaves DataFusion's default.
#[derive(Debug, Clone, Default)]
pub struct GrampusConfig {
    /// How many partitions a query runs on; `None`: one per core.
    pub target_partitions: Option<usize>,
    /// Memory that queries may use for sorting, grouping, joining and fetched data, in bytes; `None`: no limit.
    pub memory_limit_bytes: Option<usize>,
    /// Rows per batch between operators; `None`: 8192.
    pub batch_rows: Option<usize>,
    /// Initial values of the `grampus.*` settings.
    pub options: GrampusOptions,
}

/// How local files are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LocalIo {
    /// Through a memory map: values are loaded from the page cache where they lie.
    #[default]
    Mmap,
    /// Through positioned reads into buffers.
    Read,
}

impl FromStr for LocalIo {
    type Err = DataFusionError;

    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "mmap" => Ok(Self::Mmap),
            "read" => Ok(Self::Read),
            _ => config_err!("grampus.local_io is 'mmap' or 'read', not '{text}'"),
        }
    }
}

impl fmt::Display for LocalIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mmap => "mmap",
            Self::Read => "read",
        })
    }
}

impl ConfigField for LocalIo {
    fn visit<V: Visit>(&self, visit: &mut V, key: &str, description: &'static str) {
        visit.some(key, self, description);
    }

    fn set(&mut self, _key: &str, value: &str) -> Result<()> {
        *self = value.parse()?;
        Ok(())
    }
}

extensions_options! {
    /// The settings named `grampus.*`: `SET` changes them, `SHOW` prints them.
    pub struct GrampusOptions {
        /// How local files are read: 'mmap' (memory map) or 'read' (positioned reads)
        pub local_io: LocalIo, default = LocalIo::default()
        /// Most rows that a filter looks at in one step
        pub tile_rows: usize, default = 65_536
        /// Skip stripes and row groups whose statistics or bloom filters exclude the filter
        pub prune: bool, default = true
    }
}

impl ConfigExtension for GrampusOptions {
    const PREFIX: &'static str = "grampus";
}

#[cfg(test)]
mod tests {
    use datafusion::common::config::ConfigOptions;

    use super::*;

    #[test]
    fn settings_are_set_by_name_and_wrong_values_say_what_is_right() {
        let mut options = ConfigOptions::default();
        options.extensions.insert(GrampusOptions::default());
        options.set("grampus.local_io", "READ").unwrap();
        options.set("grampus.tile_rows", "1000").unwrap();
        let grampus = options.extensions.get::<GrampusOptions>().unwrap();
        assert_eq!((grampus.local_io, grampus.tile_rows), (LocalIo::Read, 1000));
        let error = options.set("grampus.local_io", "tape").unwrap_err();
        assert!(error.to_string().contains("'mmap' or 'read', not 'tape'"), "{error}");
    }
}
