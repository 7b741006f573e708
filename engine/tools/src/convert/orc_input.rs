//! ORC files as an [`Input`]: whole columns, through the reader of `grampus-orc-layout`.

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use grampus_orc_layout::Result;
use grampus_orc_layout::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, OrcReaderBuilder, ProjectionMask};
use grampus_orc_layout::file_source::FileSource;
use grampus_orc_layout::metadata_reader::read_tail;
use grampus_orc_layout::read_options::TimestampUnit;
use grampus_orc_layout::source::ChunkReader;
use grampus_orc_layout::tail::FileTail;

use super::input::{BATCH_ROWS, Fault, Input, positions};
use crate::error::ToolError;
use crate::file_source;

/// Opens an ORC file for reading from front to back. Timestamps have the unit that holds all values of their column.
pub(super) fn open(path: &Path, columns: Option<&[String]>) -> Result<Input, ToolError> {
    let (tail, source) = open_tail(path)?;
    let positions = positions(&tail.schema.arrow, columns).map_err(|fault| fault.in_input(path))?;
    let unit = |position: usize| tail.timestamp_unit(tail.schema.fields()[position]).unwrap_or_default();
    let units = (0..tail.schema.fields().len()).map(unit).collect();
    input(tail, source, &positions, units)
}

/// Opens a file whose columns were written from arrays of `schema`. Timestamps have the units of these arrays.
pub(super) fn open_written(path: &Path, schema: &Schema) -> Result<Input, ToolError> {
    let (tail, source) = open_tail(path)?;
    let positions: Vec<usize> = (0..tail.schema.fields().len()).collect();
    let unit = |&position: &usize| {
        let field = schema.fields().get(position);
        field.map_or_else(TimestampUnit::default, |field| TimestampUnit::of(field.data_type()))
    };
    let units = positions.iter().map(unit).collect();
    input(tail, source, &positions, units)
}

/// The columns at `positions`, in this order; `units` has the unit of each column of the file.
fn input(
    tail: Arc<FileTail>,
    source: FileSource,
    positions: &[usize],
    units: Vec<TimestampUnit>,
) -> Result<Input, ToolError> {
    let read_as = |(field, unit): (&Arc<Field>, TimestampUnit)| {
        let data_type = unit.apply(field.data_type());
        Field::clone(field).with_data_type(data_type)
    };
    let fields: Vec<Field> = tail.schema.arrow.fields().iter().zip(units).map(read_as).collect();
    let all: SchemaRef = Arc::new(Schema::new(fields));
    let schema = Arc::new(
        all.project(positions)
            .map_err(|error| Fault::from(error).in_input(Path::new(&*tail.file)))?,
    );
    let metadata = ArrowReaderMetadata::try_new(tail, &ArrowReaderOptions::new().with_schema(all))?;
    let mut reader = OrcReaderBuilder::new_with_metadata(source, metadata)
        .with_projection(ProjectionMask::roots(positions.iter().copied()))
        .with_batch_size(BATCH_ROWS)
        .build()?;
    // The reader returns each column once, in the file's order.
    let mut read = positions.to_vec();
    read.sort_unstable();
    read.dedup();
    let order: Vec<usize> = positions
        .iter()
        .map(|position| read.partition_point(|at| at < position))
        .collect();
    let next = move || {
        let batch = reader.next_batch().map_err(Fault::from).transpose()?;
        Some(batch.and_then(|batch| Ok(batch.project(&order)?)))
    };
    Ok(Input {
        schema,
        batches: Box::new(std::iter::from_fn(next)),
    })
}

fn open_tail(path: &Path) -> Result<(Arc<FileTail>, FileSource)> {
    let source = file_source::open(path)?;
    let tail = read_tail(&source.name(), source.length(), &source)?;
    Ok((Arc::new(tail), source))
}
