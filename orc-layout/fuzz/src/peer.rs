//! orc-rust as the second reader: the same bytes, read by another implementation.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::{cast, concat};
use arrow::datatypes::SchemaRef;
use bytes::Bytes;

/// All columns of a file, or `None` if orc-rust returns an error or panics, which it does on corrupt input.
pub fn read(file: Bytes, schema: &SchemaRef) -> Option<RecordBatch> {
    quietly(|| {
        let reader = orc_rust::ArrowReaderBuilder::try_new(file)
            .ok()?
            .with_batch_size(5_000)
            .build();
        let batches: Vec<RecordBatch> = reader.collect::<Result<_, _>>().ok()?;
        // By itself, orc-rust calls columns without nulls not nullable, stripe by stripe.
        let column = |(index, field): (usize, &arrow::datatypes::FieldRef)| -> Option<ArrayRef> {
            let parts = batches.iter().map(|batch| cast(batch.column(index), field.data_type()));
            let parts: Vec<ArrayRef> = parts.collect::<Result<_, _>>().ok()?;
            let parts: Vec<&dyn Array> = parts.iter().map(|part| &**part).collect();
            concat(&parts).ok()
        };
        if batches.is_empty() {
            return Some(RecordBatch::new_empty(schema.clone()));
        }
        let columns: Option<Vec<ArrayRef>> = schema.fields().iter().enumerate().map(column).collect();
        RecordBatch::try_new(schema.clone(), columns?).ok()
    })
}

/// The result of `body`, or `None` if it panics. libFuzzer's hook ends the process at a panic, so that hook is not
/// called meanwhile.
fn quietly<T>(body: impl FnOnce() -> Option<T>) -> Option<T> {
    thread_local!(static QUIET: Cell<bool> = const { Cell::new(false) });
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                hook(panic);
            }
        }));
    });
    QUIET.set(true);
    let result = catch_unwind(AssertUnwindSafe(body));
    QUIET.set(false);
    result.ok().flatten()
}
