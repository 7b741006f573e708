//! [`KeySet`]: the keys of a join's build side in few bits each, and [`KeySetExpr`], the condition that a key is among
//! them.
//!
//! Integers that lie close together have a bit each. Of other keys a Bloom filter knows the hashes: it lets one other
//! key in some hundred pass, which the join excludes.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, Schema};
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_plan::PhysicalExpr;

/// Maximum keys of a set.
pub(super) const MAX_KEYS: usize = 1 << 22;
/// Bits that a bitmap may have for each key.
const MAX_BITMAP_BITS_PER_KEY: u64 = 64;
/// Keys per word of a Bloom filter, at most. Each sets four of its 64 bits.
const BLOOM_KEYS_PER_WORD: usize = 4;
/// The seed of the hashes.
const SEED: RandomState = RandomState::with_seed(0x6772_616d_7075_735f);

/// The keys of one column of a build side, without NULLs: integers, or hashes of other values.
#[derive(Debug)]
pub(super) enum Keys {
    Integers(Vec<i64>),
    Hashes(Vec<u64>),
}

impl Keys {
    pub(super) fn new(data_type: &DataType) -> Self {
        match is_integral(data_type) {
            true => Self::Integers(Vec::new()),
            false => Self::Hashes(Vec::new()),
        }
    }

    /// Adds the values of an array of the type.
    pub(super) fn add(&mut self, array: &ArrayRef) -> Result<()> {
        match self {
            Self::Integers(keys) => keys.extend(
                cast(array, &DataType::Int64)?
                    .as_primitive::<Int64Type>()
                    .iter()
                    .flatten(),
            ),
            Self::Hashes(keys) => {
                let hashes = hashes(array)?.into_iter().enumerate();
                keys.extend(hashes.filter(|(row, _)| array.is_valid(*row)).map(|(_, hash)| hash));
            }
        }
        Ok(())
    }
}

/// Bytes of [`Keys`] for each row.
pub(super) const BYTES_PER_KEY: usize = 8;

/// Integers and dates: types with a cast to `Int64` that keeps all values apart.
fn is_integral(data_type: &DataType) -> bool {
    (data_type.is_integer() && *data_type != DataType::UInt64) || *data_type == DataType::Date32
}

fn hashes(array: &ArrayRef) -> Result<Vec<u64>> {
    let mut hashes = vec![0; array.len()];
    create_hashes([array], &SEED, &mut hashes)?;
    Ok(hashes)
}

/// A set that contains all keys of a build side, and few others.
#[derive(Debug)]
pub(super) struct KeySet {
    bits: Bits,
    /// The set's memory.
    _reservation: MemoryReservation,
}

#[derive(Debug)]
enum Bits {
    /// The bit of an integer is its distance from `least`.
    Bitmap { least: i64, words: Vec<u64> },
    /// A hash has four bits of one word.
    Bloom { words: Vec<u64> },
}

impl KeySet {
    /// The set of the keys of all partitions. `None`: the pool has no memory for it.
    pub(super) fn new(parts: &[&Keys], pool: &Arc<dyn MemoryPool>) -> Option<Self> {
        let integers = || {
            parts.iter().flat_map(|keys| match keys {
                Keys::Integers(keys) => keys.as_slice(),
                Keys::Hashes(_) => &[],
            })
        };
        let count: usize = parts
            .iter()
            .map(|keys| match keys {
                Keys::Integers(keys) => keys.len(),
                Keys::Hashes(keys) => keys.len(),
            })
            .sum();
        let bounds = integers().min().zip(integers().max());
        let range = bounds.map(|(least, greatest)| (*least, greatest.abs_diff(*least)));
        let dense = range.filter(|(_, range)| *range < MAX_BITMAP_BITS_PER_KEY.saturating_mul(count as u64));
        let length = match dense {
            Some((_, range)) => (range / 64 + 1) as usize,
            None => count.div_ceil(BLOOM_KEYS_PER_WORD).next_power_of_two(),
        };
        let reservation = MemoryConsumer::new("JoinFilter").register(pool);
        reservation.try_grow(length * size_of::<u64>()).ok()?;
        let mut words = vec![0; length];
        let bits = match dense {
            Some((least, _)) => {
                for key in integers() {
                    let bit = key.abs_diff(least);
                    words[(bit / 64) as usize] |= 1 << (bit % 64);
                }
                Bits::Bitmap { least, words }
            }
            None => {
                for keys in parts {
                    match keys {
                        Keys::Integers(keys) => keys.iter().for_each(|key| add(&mut words, mixed(*key))),
                        Keys::Hashes(keys) => keys.iter().for_each(|hash| add(&mut words, *hash)),
                    }
                }
                Bits::Bloom { words }
            }
        };
        Some(Self {
            bits,
            _reservation: reservation,
        })
    }

    /// For each value, whether the set contains it. It never contains NULL.
    fn contains(&self, array: &ArrayRef) -> Result<BooleanArray> {
        let found = match is_integral(array.data_type()) {
            true => {
                let integers = cast(array, &DataType::Int64)?;
                let integers = integers.as_primitive::<Int64Type>().values();
                match &self.bits {
                    Bits::Bitmap { least, words } => BooleanBuffer::collect_bool(integers.len(), |row| {
                        let bit = (integers[row] as u64).wrapping_sub(*least as u64);
                        words
                            .get((bit / 64) as usize)
                            .is_some_and(|word| word >> (bit % 64) & 1 == 1)
                    }),
                    Bits::Bloom { words } => {
                        BooleanBuffer::collect_bool(integers.len(), |row| may_contain(words, mixed(integers[row])))
                    }
                }
            }
            false => {
                let hashes = hashes(array)?;
                match &self.bits {
                    Bits::Bloom { words } => {
                        BooleanBuffer::collect_bool(hashes.len(), |row| may_contain(words, hashes[row]))
                    }
                    // Keys of another type: nothing is known of them.
                    Bits::Bitmap { .. } => BooleanBuffer::new_set(hashes.len()),
                }
            }
        };
        let found = match array.logical_nulls() {
            Some(nulls) => &found & nulls.inner(),
            None => found,
        };
        Ok(BooleanArray::new(found, None))
    }
}

/// An integer as a hash (the finalizer of MurmurHash3).
fn mixed(key: i64) -> u64 {
    let mut hash = key as u64;
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// The word of a hash among `length`, a power of two, and its bits there.
fn place(length: usize, hash: u64) -> (usize, u64) {
    let bits = [0, 6, 12, 18].map(|shift| 1 << (hash >> shift & 63));
    (
        (hash >> 24) as usize & (length - 1),
        bits.iter().fold(0, |all, bit: &u64| all | bit),
    )
}

fn add(words: &mut [u64], hash: u64) {
    let (word, bits) = place(words.len(), hash);
    words[word] |= bits;
}

fn may_contain(words: &[u64], hash: u64) -> bool {
    let (word, bits) = place(words.len(), hash);
    words[word] & bits == bits
}

/// Whether a value is in a [`KeySet`].
#[derive(Debug, Clone)]
pub(super) struct KeySetExpr {
    pub(super) value: Arc<dyn PhysicalExpr>,
    pub(super) keys: Arc<KeySet>,
}

impl fmt::Display for KeySetExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} IN build side", self.value)
    }
}

/// Equal conditions have the same set.
impl PartialEq for KeySetExpr {
    fn eq(&self, other: &Self) -> bool {
        self.value.as_ref() == other.value.as_ref() && Arc::ptr_eq(&self.keys, &other.keys)
    }
}

impl Eq for KeySetExpr {}

impl Hash for KeySetExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value.hash(state);
        Arc::as_ptr(&self.keys).hash(state);
    }
}

impl PhysicalExpr for KeySetExpr {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let values = self.value.evaluate(batch)?.into_array(batch.num_rows())?;
        Ok(ColumnarValue::Array(Arc::new(self.keys.contains(&values)?)))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.value]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let mut changed = Self::clone(&self);
        if let Some(value) = children.pop() {
            changed.value = value;
        }
        Ok(Arc::new(changed))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Date32Array, Int64Array, StringArray, UInt64Array};
    use datafusion::execution::memory_pool::{GreedyMemoryPool, UnboundedMemoryPool};
    use proptest::prelude::*;

    use super::*;

    fn set(parts: &[ArrayRef]) -> KeySet {
        let keys = parts.iter().map(|array| {
            let mut keys = Keys::new(array.data_type());
            keys.add(array).unwrap();
            keys
        });
        let keys: Vec<Keys> = keys.collect();
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        KeySet::new(&keys.iter().collect::<Vec<_>>(), &pool).unwrap()
    }

    fn found(set: &KeySet, array: ArrayRef) -> usize {
        set.contains(&array).unwrap().true_count()
    }

    #[test]
    fn dense_integers_are_told_apart_exactly() {
        let even: ArrayRef = Arc::new(Int64Array::from_iter(
            (-500..500).map(|n| (n % 3 != 0).then_some(n * 2)),
        ));
        let set = set(&[even.slice(0, 300), even.slice(300, 700)]);
        assert!(matches!(set.bits, Bits::Bitmap { .. }));
        let keys = set.contains(&even).unwrap();
        assert!((0..even.len()).all(|row| keys.value(row) == even.is_valid(row) && keys.is_valid(row)));
        assert_eq!(
            found(
                &set,
                Arc::new(Int64Array::from_iter_values((-2000..2000).map(|n| n * 2 + 1)))
            ),
            0
        );
        let far = [i64::MIN, i64::MIN + 1, -1_001, 1_001, i64::MAX - 1, i64::MAX];
        assert_eq!(found(&set, Arc::new(Int64Array::from(far.to_vec()))), 0);
        let days: ArrayRef = Arc::new(Date32Array::from(vec![1, 5, 9]));
        assert_eq!(found(&super::tests::set(&[Arc::clone(&days)]), days), 3);
    }

    #[test]
    fn few_other_keys_pass_a_bloom_filter() {
        let sparse = |from: i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(
                (from..from + 20_000).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64)),
            ))
        };
        let texts = |from: i64| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(
                (from..from + 20_000).map(|n| format!("key {n}")),
            ))
        };
        let unsigned = |from: i64| -> ArrayRef {
            Arc::new(UInt64Array::from_iter_values(
                (from..from + 20_000).map(|n| u64::MAX - n as u64),
            ))
        };
        for keys in [&sparse as &dyn Fn(i64) -> ArrayRef, &texts, &unsigned] {
            let set = set(&[keys(0)]);
            assert!(matches!(set.bits, Bits::Bloom { .. }));
            assert_eq!(found(&set, keys(0)), 20_000);
            let others = found(&set, keys(20_000));
            assert!(others < 400, "{others}");
        }
    }

    #[test]
    fn set_needs_memory_of_the_pool() {
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values((0..100_000).map(|n| n * 60)));
        let mut integers = Keys::new(keys.data_type());
        integers.add(&keys).unwrap();
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1_000_000));
        let set = KeySet::new(&[&integers], &pool).unwrap();
        assert!((750_000..760_000).contains(&pool.reserved()));
        assert!(KeySet::new(&[&integers], &pool).is_none());
        drop(set);
        assert_eq!(pool.reserved(), 0);
    }

    proptest! {
        #[test]
        fn set_contains_all_keys(
            keys in prop::collection::vec(prop::option::of(any::<i64>()), 0..200),
            near in prop::collection::vec(prop::option::of(i64::MIN..i64::MIN + 300), 0..200),
        ) {
            for keys in [keys, near] {
                let array: ArrayRef = Arc::new(Int64Array::from(keys.clone()));
                let contained = set(&[Arc::clone(&array)]).contains(&array).unwrap();
                for (row, key) in keys.iter().enumerate() {
                    prop_assert_eq!(contained.value(row), key.is_some());
                }
            }
        }
    }
}
