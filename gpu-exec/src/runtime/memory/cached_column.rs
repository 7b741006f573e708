//! `CachedColumn`: where a stripe's column is in device memory. `PresenceBitmap`: the pages of it that are there.

use crate::runtime::memory::arena::DeviceRange;

/// A stripe's column in device memory: its values, and a bit of validity for each if some may be NULL.
#[derive(Debug, Clone)]
pub(crate) struct CachedColumn {
    pub(crate) values: DeviceRange,
    pub(crate) valid: Option<DeviceRange>,
}

impl CachedColumn {
    pub(crate) fn bytes(&self) -> u64 {
        (self.values.len + self.valid.as_ref().map_or(0, |v| v.len)) as u64
    }
}

/// The pages of a partially resident column that are there.
#[derive(Debug, Clone)]
pub(crate) struct PresenceBitmap {
    /// A bit for each page, in device memory.
    pub(crate) there: DeviceRange,
    pub(crate) pages: u32,
    /// Rows of a page.
    pub(crate) page_rows: u32,
    pub(crate) missing: u32,
}
