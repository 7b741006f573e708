//! `StoredColumns`: how paged columns are stored. A column is looked up when its first row group is missed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use grampus_orc_layout::encoded_column::{EncodedColumn, EncodedValues};

use crate::decode::group_gather::GatheredColumn;
use crate::error::RunError;
use crate::input::encoded_check::regrouped;
use crate::options::Request;
use crate::runtime::memory::page_table::{PageTable, PagedColumn};
use crate::runtime::memory::residency::Residency;
use crate::runtime::transfer::encoded_columns::stored_form;

/// The columns of a page table.
pub(crate) struct StoredColumns<'a> {
    request: &'a Request<'a>,
    residency: &'a Residency,
    /// By position in the table.
    columns: Vec<StoredColumn>,
}

#[derive(Default)]
struct StoredColumn {
    /// `None`: the CPU decodes it.
    encoded: OnceLock<Option<Arc<EncodedColumn>>>,
    /// The device could not decode it.
    failed: AtomicBool,
}

impl<'a> StoredColumns<'a> {
    pub(crate) fn new(request: &'a Request<'a>, residency: &'a Residency, table: &PageTable) -> Self {
        Self {
            request,
            residency,
            columns: table.columns.iter().map(|_| StoredColumn::default()).collect(),
        }
    }

    /// The column for the device to decode; `None`: the CPU decodes it.
    ///
    /// # Errors
    /// The entries of a dictionary cannot be read.
    pub(crate) fn for_device(&self, column: &PagedColumn) -> Result<Option<GatheredColumn>, RunError> {
        let stored = &self.columns[column.position as usize];
        if !column.on_device || stored.failed.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let Some(encoded) = stored.encoded.get_or_init(|| self.look_up(column)).clone() else {
            return Ok(None);
        };
        let codes = match encoded.values {
            EncodedValues::Dictionary(..) => {
                let codes = self
                    .request
                    .input
                    .decoder
                    .dictionary_codes(column.stripe, column.column);
                codes.map_err(RunError::Decode)?
            }
            _ => Arc::default(),
        };
        Ok(Some(GatheredColumn {
            encoded,
            codes,
            rows: column.rows,
            values: column.cached.values.address(),
            valid: column.cached.valid.as_ref().map(|valid| valid.address()),
            stored: self.request.program.columns[column.column].stored,
            label: column.position,
        }))
    }

    fn look_up(&self, column: &PagedColumn) -> Option<Arc<EncodedColumn>> {
        let encoded = stored_form(self.request, (column.stripe, column.column))?;
        let page_rows = u64::from(column.layout.rows);
        // A page is one row group.
        let is_one_page = column.layout.count == 1 && encoded.data.entries.len() == 1;
        if is_one_page || encoded.group_rows == page_rows {
            return Some(encoded);
        }
        let width = u64::from(self.request.program.columns[column.column].stored.raw_bytes());
        regrouped(&encoded, page_rows, column.rows, width).map(Arc::new)
    }

    /// The device could not decode a column: from now on the CPU decodes it.
    pub(crate) fn leave_to_cpu(&self, column: &PagedColumn) {
        let stripe = &self.request.input.stripes[column.stripe];
        let file = &self.request.input.files[stripe.file].path;
        let name = &self.request.program.columns[column.column].name;
        log::info!(
            "{}, stripe {}: {name} is left to the CPU's decoder",
            file.display(),
            stripe.index
        );
        self.columns[column.position as usize]
            .failed
            .store(true, Ordering::Relaxed);
        self.residency.leave_to_cpu(column.key.file, column.key.column);
    }
}
