//! Columns of ORC stripes in encoded form, in the types of [`grampus_gpu_exec::encoded`].
//!
//! The footer and the row index of a stripe give all that the GPU needs to decode a column.

use std::sync::Arc;

use grampus_gpu_exec::encoded::{
    Change, Clock, Encoded, Entry, MOST_CHANGES, MOST_GROUP_ROWS, MOST_NUMBERS, Runs, Stored, Values,
};
use grampus_orc_layout::encoded_column::{EncodedColumn, EncodedStream, EncodedValues, RunLength, may_be_encoded};
use grampus_orc_layout::schema::ColumnId;
use grampus_orc_layout::stripe::StripeLayout;
use grampus_orc_layout::tail::FileTail;

/// True if the GPU can probably decode a column of a stripe. The row index, which this does not read, may exclude it.
pub(super) fn on_device(tail: &FileTail, stripe: &StripeLayout, column: ColumnId) -> bool {
    let group_rows = tail.row_index_stride.map_or(stripe.info.rows, u64::from);
    let entries = stripe.encodings.get(column as usize).map_or(0, |e| e.dictionary_size);
    may_be_encoded(tail, stripe, column) && group_rows <= MOST_GROUP_ROWS && entries <= MOST_NUMBERS
}

/// The column for the GPU; `None` if its time zone has more changes of its offset than the GPU takes.
pub(super) fn encoded(column: EncodedColumn) -> Option<Encoded> {
    Some(Encoded {
        values: values(column.values)?,
        group_rows: column.group_rows,
        present: column.present.map(stored),
        data: stored(column.data),
        fraction: column.secondary.map(stored),
    })
}

fn values(values: EncodedValues) -> Option<Values> {
    Some(match values {
        EncodedValues::Floats => Values::Raw,
        EncodedValues::Booleans => Values::Booleans,
        EncodedValues::Bytes => Values::Bytes,
        EncodedValues::Integers(version) => Values::Integers(runs(version)),
        EncodedValues::Dictionary(version, entries) => Values::Codes(runs(version), entries),
        EncodedValues::Timestamps(version, clock) => {
            let changes = clock.changes.as_deref().map(|changes| {
                let change = changes.iter().map(|change| Change {
                    from: change.from,
                    offset: change.offset,
                });
                change.collect::<Arc<[Change]>>()
            });
            if changes.as_ref().is_some_and(|changes| changes.len() > MOST_CHANGES) {
                return None;
            }
            let clock = Clock {
                epoch: clock.epoch,
                zone: changes,
            };
            Values::Timestamps(runs(version), clock)
        }
    })
}

fn runs(version: RunLength) -> Runs {
    match version {
        RunLength::V1 => Runs::V1,
        RunLength::V2 => Runs::V2,
    }
}

fn stored(stream: EncodedStream) -> Stored {
    let entry = |entry: &grampus_orc_layout::encoded_column::EncodedEntry| Entry {
        at: entry.at,
        skip: entry.skip,
        end: entry.end,
    };
    Stored {
        offset: stream.offset,
        bytes: stream.length,
        entries: stream.entries.iter().map(entry).collect(),
    }
}

#[cfg(test)]
#[path = "encoded_columns_tests.rs"]
mod tests;
