//! Settings: those a session starts with ([`GrampusConfig`]) and those that SQL can change
//! (`SET grampus.local_io = 'read'`, [`GrampusOptions`]).

use std::any::Any;
use std::fmt;
use std::str::FromStr;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::common::config_err;
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

/// How local files are read. On 20 million rows in the page cache, one thread, a scan of the predicate column took
/// 9 ms of processor time through a map and 35 ms through positioned reads (which copy); six columns at 0.47 % of the
/// rows took 30 and 165 ms.
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

/// The settings named `grampus.*`: `SET` changes them, `SHOW` prints them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GrampusOptions {
    /// How local files are read.
    pub local_io: LocalIo,
    /// Most rows that a filter looks at in one step.
    pub tile_rows: usize,
    /// Whether stripes and row groups are skipped whose statistics or bloom filters exclude the filter.
    pub prune: bool,
}

impl Default for GrampusOptions {
    fn default() -> Self {
        Self {
            local_io: LocalIo::default(),
            tile_rows: 65_536,
            prune: true,
        }
    }
}

impl ExtensionOptions for GrampusOptions {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "local_io" => self.local_io = value.parse()?,
            "tile_rows" => match value.parse() {
                Ok(rows) if rows > 0 => self.tile_rows = rows,
                _ => return config_err!("grampus.tile_rows is a number of rows, at least 1, not '{value}'"),
            },
            "prune" => match value.to_ascii_lowercase().parse() {
                Ok(prune) => self.prune = prune,
                Err(_) => return config_err!("grampus.prune is true or false, not '{value}'"),
            },
            _ => return config_err!("there is no setting grampus.{key}; SHOW ALL lists them"),
        }
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let entry = |name: &str, value: String, description| ConfigEntry {
            key: format!("{}.{name}", Self::PREFIX),
            value: Some(value),
            description,
        };
        vec![
            entry(
                "local_io",
                self.local_io.to_string(),
                "How local files are read: 'mmap' (memory map) or 'read' (positioned reads)",
            ),
            entry(
                "tile_rows",
                self.tile_rows.to_string(),
                "Most rows that a filter looks at in one step",
            ),
            entry(
                "prune",
                self.prune.to_string(),
                "Skip stripes and row groups whose statistics or bloom filters exclude the filter",
            ),
        ]
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
