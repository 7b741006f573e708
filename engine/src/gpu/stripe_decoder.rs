//! [`StripeDecoder`]: values of the columns that are not stored raw, for a device that reads an input.
//!
//! The device decodes what it can from the encoded form. For the rest, this decoder gives the device arrays of values.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::ToByteSlice;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType,
};
use datafusion::common::internal_datafusion_err;
use datafusion::error::DataFusionError;
use grampus_gpu_exec::input::{Decode, Decoded};
use grampus_orc_layout::encoded_column::EncodedColumn;
use grampus_orc_layout::stripe::StripeLayout;

use super::lower::Lowered;
use super::string_dictionary::{DictionaryFull, StringDictionary};
use super::text_function::TextFunction;
use crate::scan::Scan;
use crate::scan::column_locations::{self, StripeLocations};

/// The columns that a program reads, in the located stripes.
pub(super) struct LocatedColumns {
    scan: Arc<Scan>,
    /// By position in the input's stripes: file and footer.
    stripes: Vec<(usize, Arc<StripeLayout>)>,
    /// By position in the program's columns: the table's column.
    columns: Vec<usize>,
    /// By position in the program's columns: the function that its strings are values of.
    functions: Vec<Option<Arc<TextFunction>>>,
}

impl LocatedColumns {
    /// The columns of a program in the stripes that `located` lists.
    pub(super) fn new(scan: Arc<Scan>, located: &[StripeLocations], lowered: &Lowered) -> Self {
        let stripe = |stripe: &StripeLocations| (stripe.file, Arc::clone(&stripe.layout));
        Self {
            scan,
            stripes: located.iter().map(stripe).collect(),
            columns: lowered.columns.clone(),
            functions: lowered.functions.clone(),
        }
    }
}

impl fmt::Debug for LocatedColumns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocatedColumns")
            .field("columns", &self.columns)
            .finish_non_exhaustive()
    }
}

/// Decodes located columns, or gives the device their encoded form.
pub(super) struct StripeDecoder {
    located: Arc<LocatedColumns>,
    dictionary: Arc<StringDictionary>,
    stripe_codes: Mutex<StripeCodes>,
}

/// By stripe and column: the codes of the stripe dictionary's entries. All parts of a column share them.
type StripeCodes = HashMap<(usize, usize), Arc<[u32]>>;

impl StripeDecoder {
    /// The decoder of `located` whose strings are codes of `dictionary`.
    pub(super) fn new(located: &Arc<LocatedColumns>, dictionary: &Arc<StringDictionary>) -> Self {
        Self {
            located: Arc::clone(located),
            dictionary: Arc::clone(dictionary),
            stripe_codes: Mutex::default(),
        }
    }

    /// Forgets the codes of stripe dictionaries, which take memory until the next run.
    pub(super) fn forget_codes(&self) {
        self.codes().clear();
    }

    /// The codes of a stripe dictionary's entries, or of a function of each; or the numbers that the function makes of
    /// them. `None`: one of these is NULL.
    fn entry_codes(&self, stripe: usize, column: usize) -> Result<Option<Arc<[u32]>>, DataFusionError> {
        if let Some(codes) = self.codes().get(&(stripe, column)) {
            return Ok(Some(Arc::clone(codes)));
        }
        let located = &*self.located;
        let (file, layout) = &located.stripes[stripe];
        let entries = column_locations::dictionary(&located.scan, *file, layout, located.columns[column])?;
        let entries: ArrayRef = match &located.functions[column] {
            Some(function) => function.of_strings(Arc::new(entries))?,
            None => Arc::new(entries),
        };
        if entries.null_count() > 0 {
            return Ok(None);
        }
        let codes = match entries.data_type() {
            DataType::Int32 => bits::<Int32Type>(&entries),
            DataType::Date32 => bits::<Date32Type>(&entries),
            _ => self
                .dictionary
                .codes(entries.as_string())
                .map_err(dictionary_full)?
                .into(),
        };
        self.codes().insert((stripe, column), Arc::clone(&codes));
        Ok(Some(codes))
    }

    fn codes(&self) -> MutexGuard<'_, StripeCodes> {
        // Entries are inserted whole.
        self.stripe_codes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for StripeDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StripeDecoder")
            .field("located", &self.located)
            .finish_non_exhaustive()
    }
}

impl Decode for StripeDecoder {
    fn decode(&self, stripe: usize, column: usize, rows: Range<u64>) -> Result<Decoded, Box<dyn Error + Send + Sync>> {
        let located = &*self.located;
        let (file, layout) = &located.stripes[stripe];
        let array = column_locations::read(&located.scan, *file, layout, located.columns[column], rows)?;
        let array = match &located.functions[column] {
            Some(function) => function.of_strings(array)?,
            None => array,
        };
        Ok(decoded(&array, &self.dictionary)?)
    }

    fn encoded(&self, stripe: usize, column: usize) -> Option<Arc<EncodedColumn>> {
        let located = &*self.located;
        let (file, layout) = &located.stripes[stripe];
        if located.functions[column].is_some() {
            // The device takes over which rows are NULL, and knows no entry that is.
            self.entry_codes(stripe, column).ok()??;
        }
        column_locations::encoded(&located.scan, *file, layout, located.columns[column]).map(Arc::new)
    }

    fn dictionary_codes(&self, stripe: usize, column: usize) -> Result<Arc<[u32]>, Box<dyn Error + Send + Sync>> {
        let codes = self.entry_codes(stripe, column)?;
        Ok(codes.ok_or_else(|| internal_datafusion_err!("an entry of a dictionary is NULL"))?)
    }
}

/// The values of an array as a kernel reads them.
pub(super) fn decoded(array: &ArrayRef, dictionary: &StringDictionary) -> Result<Decoded, DataFusionError> {
    let values = match array.data_type() {
        DataType::Boolean => {
            let booleans = array.as_boolean();
            (0..booleans.len())
                .map(|row| u8::from(booleans.is_valid(row) && booleans.value(row)))
                .collect()
        }
        DataType::Int8 => raw::<Int8Type>(array),
        DataType::Int16 => raw::<Int16Type>(array),
        DataType::Int32 => raw::<Int32Type>(array),
        DataType::Int64 => raw::<Int64Type>(array),
        DataType::Float32 => raw::<Float32Type>(array),
        DataType::Float64 => raw::<Float64Type>(array),
        DataType::Date32 => raw::<Date32Type>(array),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => raw::<TimestampNanosecondType>(array),
        DataType::Timestamp(TimeUnit::Microsecond, _) => raw::<TimestampMicrosecondType>(array),
        DataType::Decimal128(..) => unscaled(array)?,
        DataType::Utf8 => {
            let codes = dictionary.codes(array.as_string()).map_err(dictionary_full)?;
            codes.iter().flat_map(|code| code.to_le_bytes()).collect()
        }
        other => return datafusion::common::internal_err!("a column of type {other} was lowered"),
    };
    let valid = array
        .nulls()
        .filter(|nulls| nulls.null_count() > 0)
        .map(|nulls| nulls.iter().map(u8::from).collect());
    Ok(Decoded { values, valid })
}

/// The bits of numbers of four bytes.
fn bits<T: ArrowPrimitiveType<Native = i32>>(numbers: &ArrayRef) -> Arc<[u32]> {
    let numbers = numbers.as_primitive::<T>().values().iter();
    numbers.map(|number| number.cast_unsigned()).collect()
}

fn dictionary_full(error: DictionaryFull) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The bytes of the values; zeros for NULL.
fn raw<T: ArrowPrimitiveType>(array: &ArrayRef) -> Vec<u8> {
    let array = array.as_primitive::<T>();
    let mut bytes = array.values().to_byte_slice().to_vec();
    let width = size_of::<T::Native>();
    if let Some(nulls) = array.nulls() {
        for (row, value) in bytes.chunks_exact_mut(width).enumerate() {
            if nulls.is_null(row) {
                value.fill(0);
            }
        }
    }
    bytes
}

/// A decimal of a column does not fit in the eight bytes that kernels hold it in: the CPU's plan computes with it.
#[derive(Debug, thiserror::Error)]
#[error("a decimal takes more than eight bytes")]
pub(crate) struct WideDecimal;

/// The unscaled values as eight-byte integers; zero for NULL.
fn unscaled(array: &ArrayRef) -> Result<Vec<u8>, DataFusionError> {
    let decimals = array.as_primitive::<Decimal128Type>();
    let mut bytes = Vec::with_capacity(decimals.len() * 8);
    for value in decimals {
        let value = i64::try_from(value.unwrap_or_default());
        let value = value.map_err(|_| DataFusionError::External(Box::new(WideDecimal)))?;
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    Ok(bytes)
}
