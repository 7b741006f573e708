//! [`ArrowReaderMetadata`], the tail of a file and the schema in which its columns are returned.

use std::str::FromStr;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};

use super::options::ArrowReaderOptions;
use super::output_column::OutputColumn;
use crate::error::{LayoutError, Result};
use crate::metadata_reader::read_tail;
use crate::source::ChunkReader;
use crate::tail::FileTail;

/// The tail of a file and the schema in which its columns are returned. Several readers of a file can share it.
#[derive(Debug, Clone)]
pub struct ArrowReaderMetadata {
    tail: Arc<FileTail>,
    schema: SchemaRef,
    columns: Arc<[OutputColumn]>,
}

impl ArrowReaderMetadata {
    /// Reads the tail of a file.
    ///
    /// # Errors
    /// As [`read_tail`] and [`try_new`](Self::try_new).
    pub fn load(source: &impl ChunkReader, options: &ArrowReaderOptions) -> Result<Self> {
        let tail = read_tail(&source.name(), source.length(), source)?;
        Self::try_new(Arc::new(tail), options)
    }

    /// The metadata of a file whose tail is known.
    ///
    /// # Errors
    /// `InvalidRequest` if the options ask for types that the columns cannot have, or for an unknown zone.
    pub fn try_new(tail: Arc<FileTail>, options: &ArrowReaderOptions) -> Result<Self> {
        let fields = tail.schema.fields().len();
        if let Some(schema) = &options.schema
            && schema.fields().len() != fields
        {
            let reason = format!("the schema has {} columns, the file {fields}", schema.fields().len());
            return Err(LayoutError::invalid_request(&tail.file, reason));
        }
        if let Some(zone) = &options.zone
            && !is_zone(zone)
        {
            let reason = format!("{zone} is no zone; examples are Europe/Berlin and +02:00");
            return Err(LayoutError::invalid_request(&tail.file, reason));
        }
        let columns = (0..fields).map(|position| OutputColumn::new(&tail, position, options));
        let columns: Arc<[OutputColumn]> = columns.collect::<Result<_>>()?;
        let metadata = options.schema.as_ref().map(|schema| schema.metadata().clone());
        let schema = Schema::new(columns.iter().map(|column| column.field.clone()).collect::<Vec<_>>());
        Ok(Self {
            tail,
            schema: Arc::new(schema.with_metadata(metadata.unwrap_or_default())),
            columns,
        })
    }

    /// The file's stripes, types, statistics and user metadata.
    pub fn metadata(&self) -> &Arc<FileTail> {
        &self.tail
    }

    /// The schema of all columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The columns of the root struct, in order.
    pub(super) fn columns(&self) -> &Arc<[OutputColumn]> {
        &self.columns
    }
}

/// An IANA name, or an offset as Arrow writes it: "+02:00".
fn is_zone(zone: &str) -> bool {
    let is_offset = |zone: &str| match zone.as_bytes() {
        [b'+' | b'-', hour, hours, b':', minute, minutes] => {
            [hour, hours, minute, minutes]
                .iter()
                .all(|digit| digit.is_ascii_digit())
                && (*hour, *hours) <= (b'2', b'3')
                && *minute <= b'5'
        }
        _ => false,
    };
    chrono_tz::Tz::from_str(zone).is_ok() || is_offset(zone)
}
