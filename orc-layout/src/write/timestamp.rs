//! [`TimestampValues`]: seconds since 2015, and nanoseconds without trailing zeros (ORC v1, "Timestamp Columns").

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};

use super::arrow_input::{gather, unexpected};
use super::rle_v2::IntEncoder;
use super::statistics::{Statistics, Typed, bounds_of, widen};
use super::stream::{OutStream, Storage, capacity_bytes};
use crate::bloom::BloomFilter;
use crate::error::{LayoutError, Result};
use crate::proto::stream::Kind;

/// 2015-01-01 00:00:00 UTC in seconds since 1970.
const ORC_EPOCH_SECONDS: i64 = 1_420_070_400;

/// Largest number of nanoseconds with which readers leave a time before 1970 unchanged. Above, readers subtract a
/// second, because the writers of the Apache project round such seconds towards zero.
const ROUNDED_ABOVE_NANOS: i64 = 999_999;

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// Encoders of a timestamp column.
#[derive(Debug)]
pub(super) struct TimestampValues {
    seconds: IntEncoder,
    nanos: IntEncoder,
    raw: Vec<i64>,
    second_scratch: Vec<i64>,
    nano_scratch: Vec<i64>,
}

impl TimestampValues {
    pub(super) fn new(storage: Storage) -> Self {
        Self {
            seconds: IntEncoder::new(OutStream::new(storage), true),
            nanos: IntEncoder::new(OutStream::new(storage), false),
            raw: Vec::new(),
            second_scratch: Vec::new(),
            nano_scratch: Vec::new(),
        }
    }

    pub(super) fn write(
        &mut self,
        name: &str,
        array: &ArrayRef,
        nulls: Option<&NullBuffer>,
        statistics: &mut Statistics,
        bloom: Option<&mut BloomFilter>,
    ) -> Result<()> {
        let DataType::Timestamp(unit, _) = array.data_type() else {
            return Err(unexpected(name, array.data_type()));
        };
        self.raw.clear();
        let values = match unit {
            TimeUnit::Second => array.as_primitive::<TimestampSecondType>().values(),
            TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().values(),
            TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().values(),
            TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().values(),
        };
        gather(values, nulls, &mut self.raw, |value| value);
        match unit {
            TimeUnit::Second => self.encode::<1>(name, statistics, bloom),
            TimeUnit::Millisecond => self.encode::<1_000>(name, statistics, bloom),
            TimeUnit::Microsecond => self.encode::<1_000_000>(name, statistics, bloom),
            TimeUnit::Nanosecond => self.encode::<NANOS_PER_SECOND>(name, statistics, bloom),
        }
    }

    fn encode<const PER_SECOND: i64>(
        &mut self,
        name: &str,
        statistics: &mut Statistics,
        bloom: Option<&mut BloomFilter>,
    ) -> Result<()> {
        let split = |value: i64| {
            let seconds = value.div_euclid(PER_SECOND);
            (seconds, value.rem_euclid(PER_SECOND) * (NANOS_PER_SECOND / PER_SECOND))
        };
        let Some((min, max)) = bounds_of(&self.raw) else {
            return Ok(());
        };
        if split(min).0.checked_sub(ORC_EPOCH_SECONDS).is_none() {
            return Err(LayoutError::Write(format!(
                "column {name}: the timestamp {min} s from 1970 is too early to be stored"
            )));
        }
        if let Typed::Timestamp { bounds } = &mut statistics.typed {
            let bound = |value| {
                let (seconds, nanos) = split(value);
                (seconds, nanos as u32)
            };
            widen(bounds, bound(min), bound(max));
        }
        if let Some(bloom) = bloom {
            let nanos_per_unit = i128::from(NANOS_PER_SECOND / PER_SECOND);
            let nanos = self.raw.iter().map(|&value| i128::from(value) * nanos_per_unit);
            nanos.for_each(|nanos| bloom.insert_timestamp(nanos));
        }
        self.second_scratch.clear();
        self.nano_scratch.clear();
        for &value in &self.raw {
            let (mut seconds, nanos) = split(value);
            if seconds < 0 && nanos > ROUNDED_ABOVE_NANOS {
                // Readers cannot tell this second from the first one of 1970, and would be a second late.
                if seconds == -1 {
                    return Err(last_second(name, nanos));
                }
                seconds += 1;
            }
            self.second_scratch.push(seconds - ORC_EPOCH_SECONDS);
            self.nano_scratch.push(trim_zeros(nanos));
        }
        self.seconds.write(&self.second_scratch)?;
        self.nanos.write(&self.nano_scratch)
    }

    pub(super) fn position(&mut self, positions: &mut Vec<u64>) -> Result<()> {
        self.seconds.position(positions)?;
        self.nanos.position(positions)
    }

    pub(super) fn finish(&mut self) -> Result<()> {
        self.seconds.flush()?;
        self.nanos.flush()?;
        self.seconds.stream.flush()?;
        self.nanos.stream.flush()
    }

    pub(super) fn streams<'a>(&'a self, push: &mut impl FnMut(Kind, &'a OutStream, bool)) {
        push(Kind::Data, &self.seconds.stream, false);
        push(Kind::Secondary, &self.nanos.stream, false);
    }

    pub(super) fn clear(&mut self) {
        self.seconds.stream.clear();
        self.nanos.stream.clear();
    }

    pub(super) fn buffered_bytes(&self) -> usize {
        self.seconds.buffered_bytes() + self.nanos.buffered_bytes()
    }

    pub(super) fn memory_size(&self) -> usize {
        let scratch = [&self.raw, &self.second_scratch, &self.nano_scratch];
        let scratch: usize = scratch.into_iter().map(capacity_bytes).sum();
        self.seconds.memory_size() + self.nanos.memory_size() + scratch
    }
}

fn last_second(name: &str, nanos: i64) -> LayoutError {
    LayoutError::Write(format!(
        "column {name}: ORC cannot store 1969-12-31T23:59:59.{nanos:09}: between one millisecond into the last second \
         before 1970 and its end, readers are a second late; cut such times to seconds, as \
         date_trunc('second', {name}) does, or leave the column out"
    ))
}

/// Two or more trailing decimal zeros are counted in the low three bits instead of stored.
fn trim_zeros(nanos: i64) -> i64 {
    if nanos == 0 {
        return 0;
    }
    if nanos % 100 != 0 {
        return nanos << 3;
    }
    let mut trimmed = nanos / 100;
    let mut zeros = 2;
    while zeros < 8 && trimmed % 10 == 0 {
        trimmed /= 10;
        zeros += 1;
    }
    trimmed << 3 | (zeros - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_store_trailing_zeros_as_a_count() {
        assert_eq!(trim_zeros(1000), 0x0a);
        assert_eq!(trim_zeros(100_000), 0x0c);
        for nanos in [
            0,
            1,
            10,
            100,
            120,
            1_000_000,
            123_456_789,
            500_000_000,
            100_000_000,
            999_999_900,
        ] {
            let stored = trim_zeros(nanos);
            let zeros = stored & 7;
            let back = (stored >> 3) * if zeros == 0 { 1 } else { 10i64.pow(zeros as u32 + 1) };
            assert_eq!(back, nanos);
        }
    }
}
