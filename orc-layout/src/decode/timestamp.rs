//! [`TimestampDecoder`] of TIMESTAMP and TIMESTAMP_INSTANT. Input: seconds since 2015 (in the writer's zone, or UTC)
//! and nanoseconds without trailing zeros. Output: 64-bit nanoseconds or microseconds since 1970; local timestamps are
//! wall-clock time.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{ArrowTimestampType, TimestampMicrosecondType, TimestampNanosecondType};

use super::clock::WallClock;
use super::cursor::StreamSource;
use super::int::IntReader;
use super::presence::{Presence, with_nulls};
use super::steps::Step;
use super::{Decoder, EntryPoint};
use crate::calendar::proleptic_second;
use crate::error::{LayoutError, Result};
use crate::proto::column_encoding::Kind as Encoding;
use crate::proto::stream::Kind;
use crate::read_options::TimestampUnit;
use crate::schema::ColumnId;
use crate::writer_zone::WriterZone;

const NANOS: i64 = 1_000_000_000;
const MICROS: i64 = 1_000_000;

/// TIMESTAMP, TIMESTAMP_INSTANT.
pub(super) struct TimestampDecoder {
    presence: Presence,
    seconds: IntReader,
    nanos: IntReader,
    values: Vec<i64>,
    scratch: Vec<i64>,
    /// Zero of the seconds stream, in seconds since 1970.
    epoch: i64,
    /// The writer's zone, unless its wall clock is UTC's.
    zone: Option<WallClock>,
    instant: bool,
    unit: TimestampUnit,
    /// The seconds count days of the hybrid calendar.
    is_hybrid: bool,
    source: StreamSource,
    column: ColumnId,
}

impl TimestampDecoder {
    /// A decoder at the stripe's start.
    ///
    /// # Errors
    /// `Unsupported` if the writer's zone is not known.
    pub(super) fn open(source: &StreamSource, column: ColumnId, encoding: Encoding, instant: bool) -> Result<Self> {
        let zone = match instant {
            true => &WriterZone::Utc,
            false => &source.stripe.writer_timezone,
        };
        let Some(clock) = WallClock::of(zone, source.stripe.early_offsets) else {
            return Err(unknown_zone(source, column, zone));
        };
        Ok(Self {
            presence: Presence::open(source, column),
            seconds: IntReader::new(source.open(column, Kind::Data), encoding, true),
            nanos: IntReader::new(source.open(column, Kind::Secondary), encoding, false),
            values: Vec::new(),
            scratch: Vec::new(),
            epoch: clock.epoch(),
            zone: (!clock.is_utc()).then_some(clock),
            instant,
            unit: source.options.timestamp_unit,
            is_hybrid: source.tail.is_hybrid_calendar,
            source: source.clone(),
            column,
        })
    }

    /// The value in the decoder's unit since 1970, from its two parts; `None` if the value does not fit 64 bits.
    fn value(&mut self, stored: i64, nanos: i64) -> Option<i64> {
        let mut seconds = stored.checked_add(self.epoch)?;
        let nanos = unscale(nanos)?;
        // Writers divide milliseconds by 1,000 towards zero. Before 1970, a fraction of a millisecond and more means
        // that the second was rounded up (ORC-763).
        if seconds < 0 && nanos > 999_999 {
            seconds = seconds.checked_sub(1)?;
        }
        if let Some(zone) = &mut self.zone {
            seconds = seconds.checked_add(zone.offset(seconds)?)?;
        }
        if self.is_hybrid {
            seconds = proleptic_second(seconds);
        }
        let (per_second, fraction) = match self.unit {
            TimestampUnit::Nanosecond => (NANOS, nanos),
            TimestampUnit::Microsecond => (MICROS, nanos.div_euclid(1_000)),
        };
        match seconds.checked_mul(per_second) {
            Some(whole) => whole.checked_add(fraction),
            // The fraction may bring the earliest second back into range.
            None => i64::try_from(i128::from(seconds) * i128::from(per_second) + i128::from(fraction)).ok(),
        }
    }

    /// Units in a second, if all values are seconds of UTC in the proleptic calendar whose arithmetic cannot overflow:
    /// most columns' are, and the loop over them needs no conditions.
    fn whole_seconds(&self, stored: &[i64], nanos: &[i64]) -> Option<i64> {
        // With the epoch, 9e9 s at most: 9.2e9 s are 2^63 ns.
        const SAFE: Range<i64> = -7_500_000_000..7_500_000_000;
        let is_plain = self.zone.is_none() && !self.is_hybrid && (0..1_500_000_000).contains(&self.epoch);
        let is_whole = |(stored, nanos): (&i64, &i64)| *nanos == 0 && SAFE.contains(stored);
        (is_plain && stored.iter().zip(nanos).all(is_whole)).then_some(match self.unit {
            TimestampUnit::Nanosecond => NANOS,
            TimestampUnit::Microsecond => MICROS,
        })
    }

    fn out_of_range(&self, stored: i64) -> LayoutError {
        let instant = stored
            .checked_add(self.epoch)
            .and_then(|seconds| chrono::DateTime::from_timestamp(seconds, 0));
        let value = instant.map_or_else(
            || format!("{stored} s after 2015"),
            |instant| instant.naive_utc().to_string(),
        );
        let reason = match self.unit {
            TimestampUnit::Nanosecond => format!(
                "timestamp {value} is not between 1677-09-21 and 2262-04-11, the range of nanoseconds: \
                 SET grampus.timestamp_unit = 'us', and open the table again"
            ),
            TimestampUnit::Microsecond => format!("timestamp {value} is beyond the range of microseconds"),
        };
        self.source.out_of_range(self.column, reason)
    }

    fn array<T: ArrowTimestampType>(&self, values: Vec<i64>, nulls: Option<NullBuffer>) -> ArrayRef {
        let array = PrimitiveArray::<T>::new(values.into(), nulls);
        Arc::new(if self.instant {
            array.with_timezone("UTC")
        } else {
            array
        })
    }
}

fn unknown_zone(source: &StreamSource, column: ColumnId, zone: &WriterZone) -> LayoutError {
    let path = source.tail.schema.path(column);
    LayoutError::unsupported(
        &source.tail.file,
        format!(
            "time zone {zone} (of the writer of stripe {})",
            source.stripe.info.index
        ),
        &format!("it is not known; select other columns than {path}, or write the file in another zone"),
    )
}

/// Restores trailing zeros: the low three bits hold their number, less one.
///
/// ORC C++ stores what pyarrow gives it: before 1970, whole seconds rounded up and negative nanoseconds.
#[inline]
fn unscale(stored: i64) -> Option<i64> {
    const FACTORS: [i64; 8] = [1, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
    let digits = stored >> 3;
    // A second or more is no time within its second.
    let nanos = digits.checked_mul(FACTORS[(stored & 7) as usize])?;
    (1 - NANOS..NANOS).contains(&nanos).then_some(nanos)
}

impl Decoder for TimestampDecoder {
    fn streams(&mut self, visit: &mut dyn FnMut(&mut dyn EntryPoint) -> Result<()>) -> Result<()> {
        self.presence.stream().map_or(Ok(()), &mut *visit)?;
        visit(&mut self.seconds)?;
        visit(&mut self.nanos)
    }

    fn select(&mut self, rows: &[Step]) -> Result<()> {
        let steps = self.presence.select(rows)?;
        let first = self.values.len();
        self.scratch.clear();
        self.seconds.select(steps, &mut self.values)?;
        self.nanos.select(steps, &mut self.scratch)?;
        let mut values = std::mem::take(&mut self.values);
        let nanos = std::mem::take(&mut self.scratch);
        let added = &mut values[first..];
        match self.whole_seconds(added, &nanos) {
            Some(per_second) => {
                let epoch = self.epoch;
                added
                    .iter_mut()
                    .for_each(|value| *value = (*value + epoch) * per_second);
            }
            None => {
                for (value, &nanos) in added.iter_mut().zip(&nanos) {
                    let stored = *value;
                    *value = self.value(stored, nanos).ok_or_else(|| self.out_of_range(stored))?;
                }
            }
        }
        self.values = values;
        self.scratch = nanos;
        Ok(())
    }

    fn finish(&mut self, parent: Option<&NullBuffer>) -> Result<ArrayRef> {
        let nulls = self.presence.finish(parent);
        let values = with_nulls(std::mem::take(&mut self.values), nulls.as_ref());
        Ok(match self.unit {
            TimestampUnit::Nanosecond => self.array::<TimestampNanosecondType>(values, nulls),
            TimestampUnit::Microsecond => self.array::<TimestampMicrosecondType>(values, nulls),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_regain_their_zeros() {
        // The specification's examples: 1,000 is 0x0a, 100,000 is 0x0c.
        assert_eq!(
            [unscale(0x0a), unscale(0x0c), unscale(0)],
            [Some(1_000), Some(100_000), Some(0)]
        );
        assert_eq!(unscale(999_999_999 << 3), Some(999_999_999));
        assert_eq!(unscale(1_000_000_000 << 3), None);
        assert_eq!(unscale(-1_000_000_000 << 3), None);
        // What pyarrow writes for 1969-12-31 23:59:59.000001, beside the second 0.
        assert_eq!(unscale((-999_999 << 3) | 2), Some(-999_999_000));
    }
}
