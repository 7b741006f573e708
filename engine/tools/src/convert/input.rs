//! [`Input`]: a file as a stream of batches of the wanted columns, and [`Fault`]: why a batch or a file is missing.

use std::io;
use std::path::Path;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use grampus_orc_layout::LayoutError;
use parquet::errors::ParquetError;

use crate::error::{Cause, ToolError};

/// Rows per batch.
pub(super) const BATCH_ROWS: usize = 8192;

/// A file's batches, in row order.
pub(super) struct Input {
    /// The schema of the batches: the wanted columns in the wanted order.
    pub(super) schema: SchemaRef,
    pub(super) batches: Batches,
}

/// The batches of a file. Another thread than the writer's may read them.
pub(super) type Batches = Box<dyn Iterator<Item = Result<RecordBatch, Fault>> + Send>;

impl Input {
    /// An input whose reader yields columns in another order: `order` gives the reader's position of each column of
    /// `schema`.
    pub(super) fn reordered(
        schema: Schema,
        order: Vec<usize>,
        batches: impl Iterator<Item = Result<RecordBatch, ArrowError>> + Send + 'static,
    ) -> Self {
        let reorder = move |batch: Result<RecordBatch, ArrowError>| Ok(batch?.project(&order)?);
        Self {
            schema: schema.into(),
            batches: Box::new(batches.map(reorder)),
        }
    }
}

/// Why a file has no further batch, without the file's name.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) reason: String,
    cause: Option<Cause>,
}

impl Fault {
    /// The error for the file or folder `path`. Some reasons begin with the path, which the error names itself.
    pub(super) fn in_input(self, path: &Path) -> ToolError {
        let named = format!("{}: ", path.display());
        let reason = self.reason.strip_prefix(&named).map(str::to_owned);
        ToolError::Input {
            path: path.to_owned(),
            reason: reason.unwrap_or(self.reason),
            cause: self.cause,
        }
    }
}

impl From<String> for Fault {
    fn from(reason: String) -> Self {
        Self { reason, cause: None }
    }
}

impl From<&str> for Fault {
    fn from(reason: &str) -> Self {
        reason.to_owned().into()
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self {
            reason: error.to_string(),
            cause: Some(error.into()),
        }
    }
}

impl From<ParquetError> for Fault {
    fn from(error: ParquetError) -> Self {
        Self {
            reason: error.to_string(),
            cause: Some(error.into()),
        }
    }
}

impl From<LayoutError> for Fault {
    fn from(error: LayoutError) -> Self {
        Self {
            reason: error.to_string(),
            cause: Some(error.into()),
        }
    }
}

/// The reason is Arrow's message without the name of its variant.
impl From<ArrowError> for Fault {
    fn from(error: ArrowError) -> Self {
        let reason = match &error {
            ArrowError::CastError(text)
            | ArrowError::ParseError(text)
            | ArrowError::SchemaError(text)
            | ArrowError::ComputeError(text)
            | ArrowError::CsvError(text)
            | ArrowError::ParquetError(text)
            | ArrowError::InvalidArgumentError(text) => text.clone(),
            ArrowError::ExternalError(inner) => inner.to_string(),
            other => other.to_string(),
        };
        Self {
            reason,
            cause: Some(error.into()),
        }
    }
}

/// Positions of the wanted columns in a file's schema.
///
/// # Errors
/// Names the first column that the file does not have.
pub(super) fn positions(schema: &Schema, columns: Option<&[String]>) -> Result<Vec<usize>, Fault> {
    let Some(columns) = columns else {
        return Ok((0..schema.fields().len()).collect());
    };
    let position = |name: &String| {
        schema.index_of(name).map_err(|_| {
            let names: Vec<_> = schema.fields().iter().map(|f| f.name().as_str()).collect();
            format!("there is no column '{name}'; there are {}", names.join(", ")).into()
        })
    };
    columns.iter().map(position).collect()
}
