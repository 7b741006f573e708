//! [`ColumnSet`]: the columns of a generated table, their schema, and trips as batches of them.

use std::str::FromStr;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;

use super::trips::Trips;
use super::{core_columns, full_columns};

/// The columns of a generated table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ColumnSet {
    /// The columns that the queries in `queries/` use: amounts, distance and counts as doubles, two timestamps, two
    /// strings.
    #[default]
    Core,
    /// The 51 columns of the "1.1 billion taxi rides" table.
    Full,
    /// The six doubles of q0–q5 alone, without NULLs (`ehail_fee` is 0): the columns of the BaM paper's measurements.
    Six,
}

impl FromStr for ColumnSet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "core" => Ok(Self::Core),
            "full" => Ok(Self::Full),
            "six" => Ok(Self::Six),
            _ => Err(format!("columns are 'core', 'full' or 'six', not '{text}'")),
        }
    }
}

impl ColumnSet {
    /// Names and types, in file order.
    pub(super) fn schema(self) -> SchemaRef {
        match self {
            Self::Core => core_columns::schema(),
            Self::Full => full_columns::schema(),
            Self::Six => core_columns::six_schema(),
        }
    }

    /// A batch of trips, which were drawn with `seed`. `schema` is the result of [`schema`](Self::schema).
    pub(super) fn batch(self, schema: &SchemaRef, seed: u64, trips: Trips) -> Result<RecordBatch, ArrowError> {
        let arrays = match self {
            Self::Core => core_columns::arrays(trips),
            Self::Full => full_columns::arrays(seed, trips),
            Self::Six => core_columns::six_arrays(trips),
        };
        RecordBatch::try_new(Arc::clone(schema), arrays)
    }
}
