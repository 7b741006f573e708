//! [`HybridDateDecoder`] of DATE in files that count days in the hybrid calendar.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::Date32Type;

use super::steps::Step;
use super::{Decoder, EntryPoint};
use crate::calendar::proleptic_day;
use crate::error::Result;

/// DATE whose days before 1582-10-15 are Julian; `D` decodes the stored days.
pub(super) struct HybridDateDecoder<D>(D);

impl<D: Decoder> HybridDateDecoder<D> {
    pub(super) fn new(stored: D) -> Self {
        Self(stored)
    }
}

impl<D: Decoder> Decoder for HybridDateDecoder<D> {
    fn streams(&mut self, visit: &mut dyn FnMut(&mut dyn EntryPoint) -> Result<()>) -> Result<()> {
        self.0.streams(visit)
    }

    fn select(&mut self, rows: &[Step]) -> Result<()> {
        self.0.select(rows)
    }

    fn finish(&mut self, parent: Option<&NullBuffer>) -> Result<ArrayRef> {
        let stored = self.0.finish(parent)?;
        // The calendars are at most 16,000 years of leap days apart, so days at the type's end stay there.
        let proleptic = |day: i32| proleptic_day(i64::from(day)).clamp(i32::MIN.into(), i32::MAX.into()) as i32;
        Ok(Arc::new(
            stored.as_primitive::<Date32Type>().unary::<_, Date32Type>(proleptic),
        ))
    }
}
