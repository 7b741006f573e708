//! `ColumnLocator`: where each stripe's columns are, or what is missing of them.
//!
//! A column of a stripe is cached in device memory, or lies in a registered mapping, or has one value in all rows.
//! Everything else is a `MissingColumn`. Space in the pool is reserved for as many of these as fit; the others stream
//! through windows.

use std::ops::Range;

use crate::error::RunError;
use crate::input::Placement;
use crate::input::file_registry::FileId;
use crate::options::{Backing, Place, Request};
use crate::program::{Stored, Type};
use crate::runtime::memory::buffer_pool::{BufferPool, QueryId};
use crate::runtime::memory::cached_column::CachedColumn;
use crate::runtime::memory::column_key::ColumnKey;
use crate::validity;

/// Where a stripe's column is.
#[derive(Debug, Clone)]
pub(crate) enum ColumnLocation {
    /// Not looked up, or left to the NVMe command path.
    Nowhere,
    /// In the pool: cached, or reserved and to be filled.
    Pool(CachedColumn),
    /// In a registered mapping. With the device address of the file's byte 0.
    Mapped(u64),
    /// One value in all rows.
    Constant,
    /// In the windows' memory, chunk by chunk.
    Streamed(Vec<StreamedChunk>),
}

/// Rows of a stripe's column in a window.
#[derive(Debug, Clone)]
pub(crate) struct StreamedChunk {
    /// Rows of the stripe.
    pub(crate) rows: Range<u64>,
    /// Offset of the values in the windows' memory.
    pub(crate) values: usize,
    /// Offset of the validity in the windows' memory.
    pub(crate) valid: Option<usize>,
}

/// A stripe's column that is not on the device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MissingColumn {
    pub(crate) stripe: usize,
    pub(crate) column: usize,
    /// Bytes of its values.
    pub(crate) values: u64,
    /// Bytes of its validity.
    pub(crate) valid: Option<u64>,
    /// The column is loaded whole and kept. False: it streams, and only selected rows are loaded.
    pub(crate) whole: bool,
}

impl MissingColumn {
    pub(crate) fn bytes(&self) -> u64 {
        self.values + self.valid.unwrap_or(0)
    }
}

/// Missing columns of a query.
#[derive(Debug, Default)]
pub(crate) struct MissingColumns {
    /// Columns to be loaded before kernels read them.
    pub(crate) loaded: Vec<MissingColumn>,
    /// Columns of which pages are loaded when kernels miss them.
    pub(crate) paged: Vec<MissingColumn>,
}

/// The locations of a query's columns.
#[derive(Debug)]
pub(crate) struct ColumnLocator<'a> {
    pub(crate) request: &'a Request<'a>,
    /// By file of the input.
    file_ids: &'a [FileId],
    /// By stripe, by column.
    pub(crate) locations: Vec<Vec<ColumnLocation>>,
    /// By column: kernels must look whether a value is there.
    pub(crate) nullable: Vec<bool>,
    /// Bytes of columns that were cached before the query.
    pub(crate) cached_bytes: u64,
}

impl<'a> ColumnLocator<'a> {
    pub(crate) fn new(request: &'a Request<'a>, file_ids: &'a [FileId]) -> Self {
        let (stripes, columns) = (request.input.stripes.len(), request.program.columns.len());
        Self {
            request,
            file_ids,
            locations: vec![vec![ColumnLocation::Nowhere; columns]; stripes],
            nullable: (0..columns).map(|column| request.has_nulls(column)).collect(),
            cached_bytes: 0,
        }
    }

    pub(crate) fn ty(&self, column: usize) -> Type {
        self.request.program.columns[column].ty
    }

    pub(crate) fn stored(&self, column: usize) -> Stored {
        self.request.program.columns[column].stored
    }

    /// The key of a column in the pool.
    pub(crate) fn key(&self, missing: &MissingColumn) -> ColumnKey {
        self.key_of(missing.stripe, missing.column)
    }

    fn key_of(&self, stripe: usize, column: usize) -> ColumnKey {
        ColumnKey::of(self.request, self.file_ids, stripe, column)
    }

    /// Looks up every stripe's columns and returns the missing ones, column by column: so a column's stripes come to
    /// lie one after the other. `mapped`: by file of the input, the device address of byte 0 of its mapping.
    pub(crate) fn locate(
        &mut self,
        (pool, query): (&mut BufferPool, QueryId),
        mapped: &[Option<u64>],
        backings: &[Backing],
    ) -> MissingColumns {
        let mut missing = MissingColumns::default();
        for (column, backing) in backings.iter().enumerate().filter(|(_, b)| **b != Backing::Queued) {
            for (at, stripe) in self.request.input.stripes.iter().enumerate() {
                let selected: u64 = stripe.selected.iter().map(|r| r.end - r.start).sum();
                if selected == 0 {
                    continue;
                }
                let mapped = mapped[stripe.file].filter(|_| *backing == Backing::Mapped);
                let found = match (self.request.place(stripe, column), mapped) {
                    (Place::Constant(_), _) => Some(ColumnLocation::Constant),
                    (Place::Raw(_), Some(address)) => Some(ColumnLocation::Mapped(address)),
                    _ => pool.find(query, &self.key_of(at, column)).map(ColumnLocation::Pool),
                };
                if let Some(found) = found {
                    if let ColumnLocation::Pool(cached) = &found {
                        self.cached_bytes += cached.bytes();
                    }
                    self.locations[at][column] = found;
                    continue;
                }
                let to = match backing {
                    Backing::Paged => &mut missing.paged,
                    _ => &mut missing.loaded,
                };
                to.push(MissingColumn {
                    stripe: at,
                    column,
                    values: stripe.rows * u64::from(self.stored(column).bytes()),
                    valid: match stripe.columns[column] {
                        Placement::Decoded { .. } if self.nullable[column] => Some(validity::bytes_of(stripe.rows)),
                        _ => None,
                    },
                    whole: selected * 2 >= stripe.rows,
                });
            }
        }
        self.keep_few_parts(&mut missing.loaded);
        self.keep_parts_needed_again(pool, &mut missing.loaded);
        missing
    }

    /// Loads stripes whole of which few rows are selected, if they are the smaller part of the query. A range of rows
    /// begins and ends within stripes, and whatever streams moves again in each run.
    fn keep_few_parts(&self, loaded: &mut [MissingColumn]) {
        let bytes = |whole: bool| -> u64 {
            let columns = loaded.iter().filter(|missing| missing.whole == whole);
            columns.map(MissingColumn::bytes).sum()
        };
        if bytes(false) <= self.cached_bytes + bytes(true) {
            loaded.iter_mut().for_each(|missing| missing.whole = true);
        }
    }

    /// Loads stripes whole of which an earlier query has loaded some rows, while there is memory that holds nothing.
    /// The first query loads only what it needs; the third one moves nothing.
    fn keep_parts_needed_again(&self, pool: &mut BufferPool, loaded: &mut [MissingColumn]) {
        let whole: u64 = loaded.iter().filter(|m| m.whole).map(MissingColumn::bytes).sum();
        let mut unused = pool.unused().saturating_sub(whole);
        for missing in loaded.iter_mut().filter(|m| !m.whole) {
            if pool.parts.note(self.key(missing)) && missing.bytes() <= unused {
                unused -= missing.bytes();
                missing.whole = true;
            }
        }
    }

    /// Reserves space in the pool for a column, if `max_bytes` and the pool allow it.
    pub(crate) fn reserve(
        &mut self,
        (pool, query): (&mut BufferPool, QueryId),
        missing: &MissingColumn,
        max_bytes: u64,
    ) -> Result<Option<CachedColumn>, RunError> {
        if !missing.whole || missing.bytes() > max_bytes {
            return Ok(None);
        }
        let valid = missing.valid.map(|bytes| bytes as usize);
        let reserved = pool.reserve(query, self.key(missing), missing.values as usize, valid)?;
        if let Some(cached) = &reserved {
            self.locations[missing.stripe][missing.column] = ColumnLocation::Pool(cached.clone());
        }
        Ok(reserved)
    }
}
