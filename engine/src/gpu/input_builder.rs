//! From a scan to a program's [`Input`]: which files, which stripes and rows, and where each column's values are. Values that do not
//! lie raw are decoded here when they are asked for, where the GPU does not do it ([`stored`]).

use std::collections::HashMap;
use std::error::Error;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::ToByteSlice;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimeUnit, TimestampNanosecondType,
};
use datafusion::error::DataFusionError;
use grampus_gpu_exec::encoded::Encoded;
use grampus_gpu_exec::input::{Decode, Decoded, FileVersion, Input, Placement, Segment, Stripe};
use grampus_gpu_exec::program::Program;
use grampus_orc_layout::stripe::StripeLayout;

use super::encoded_columns;
use super::lower::types::value_of;
use super::lower::{Lowered, Reason};
use super::string_dictionary::{Dictionary, DictionaryFull};
use crate::file::Place;
use crate::scan::Scan;
use crate::scan::column_locations::{self, ColumnLocation, GroupCounts, LocationCache, StripeLocations};
use crate::table::files::TableFile;

/// Numbers above this are [`ColumnNumbers`]' own, those below are ORC column ids.
const OWN_NUMBERS: u32 = 1 << 31;

/// What is known of a scan before it is run.
#[derive(Debug)]
pub(crate) struct GpuInput {
    /// Where everything is.
    pub(crate) input: Input,
    /// By position in [`Input::stripes`]: the footer.
    pub(crate) layouts: Vec<Arc<StripeLayout>>,
    /// Row groups, of the stripes that statistics of stripes left.
    pub(crate) groups: GroupCounts,
}

/// A number for a column that has different ids in the files of a table. What a device keeps is known by file version and number, so
/// one number must never mean two columns of a file: each combination of files and ids gets its own.
#[derive(Debug, Default)]
pub(crate) struct ColumnNumbers {
    known: Mutex<HashMap<Vec<(u64, u32)>, u32>>,
}

impl ColumnNumbers {
    fn of(&self, scan: &Scan, column: usize) -> u32 {
        let ids = |file: &TableFile| Some((file.file.id, file.place_of(column).ok()?));
        let ids: Vec<(u64, u32)> = scan.files.iter().filter_map(ids).collect();
        match ids.first() {
            Some(&(_, first)) if first < OWN_NUMBERS && ids.iter().all(|(_, id)| *id == first) => first,
            _ => {
                let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                let next = OWN_NUMBERS + known.len() as u32;
                *known.entry(ids).or_insert(next)
            }
        }
    }
}

/// The input of `lowered`, whose columns are marked as never NULL where no stripe can hold one.
///
/// # Errors
/// Why the files cannot be read by a GPU, or what is wrong with one of them.
pub(crate) fn place(
    lowered: &mut Lowered,
    dictionary: &Arc<Dictionary>,
    numbers: &ColumnNumbers,
    known: &LocationCache,
) -> Result<GpuInput, Reason> {
    let scan_exec = lowered.scan().ok_or("there is no ORC scan below")?;
    let (scan, work) = (scan_exec.shared(), scan_exec.work());
    if !column_locations::is_local(&scan) {
        return Err("the files are not local".to_owned());
    }
    let (located, groups) = column_locations::locate_columns(&scan, work, &lowered.columns, known)
        .map_err(|error| crate::error::message(&error))?;
    let files = scan.files.iter().map(version).collect::<Result<Vec<_>, _>>()?;
    let mut stripes = Vec::with_capacity(located.len());
    for stripe in &located {
        stripes.push(placed_stripe(
            stripe,
            &scan.files[stripe.file],
            &lowered.columns,
            dictionary,
        )?);
    }
    for (at, column) in lowered.program.columns.iter_mut().enumerate() {
        column.nullable = stripes.iter().any(|stripe| can_be_null(&stripe.columns[at]));
    }
    let column_ids = lowered
        .columns
        .iter()
        .map(|&column| numbers.of(&scan, column))
        .collect();
    let decoder = StripeDecoder {
        stripes: located
            .iter()
            .map(|stripe| (stripe.file, Arc::clone(&stripe.layout)))
            .collect(),
        scan,
        columns: lowered.columns.clone(),
        dictionary: Arc::clone(dictionary),
        numbers: Mutex::default(),
    };
    let input = Input {
        files,
        stripes,
        column_ids,
        decoder: Arc::new(decoder),
    };
    let layouts = located.into_iter().map(|stripe| stripe.layout).collect();
    Ok(GpuInput { input, layouts, groups })
}

fn version(file: &TableFile) -> Result<FileVersion, Reason> {
    let identity = &file.file.identity;
    match (&file.file.place, identity.inode) {
        (Place::Local(path), Some((device, inode))) => Ok(FileVersion {
            path: path.clone(),
            device,
            inode,
            bytes: identity.length,
            modified_ns: identity.modified_ns,
        }),
        _ => Err("the files are not local".to_owned()),
    }
}

/// A stripe of `file`, whose places are those of `wanted` columns of the table.
fn placed_stripe(
    stripe: &StripeLocations,
    file: &TableFile,
    wanted: &[usize],
    dictionary: &Dictionary,
) -> Result<Stripe, Reason> {
    let tail = &file.file.tail;
    let on_device = |column: usize| {
        let id = file.place_of(column);
        id.is_ok_and(|id| encoded_columns::on_device(tail, &stripe.layout, id))
    };
    let mut columns = Vec::with_capacity(stripe.columns.len());
    for (found, column) in stripe.columns.iter().zip(wanted) {
        columns.push(match found {
            ColumnLocation::Direct(direct) => Placement::Direct(
                (direct.segments.iter())
                    .map(|segment| Segment {
                        first_row: segment.first_row,
                        rows: segment.rows,
                        offset: segment.offset,
                    })
                    .collect(),
            ),
            ColumnLocation::Constant(value) => Placement::Constant(value_of(value, dictionary)?),
            ColumnLocation::Decoded { stored_bytes } => Placement::Decoded {
                stored_bytes: *stored_bytes,
                on_device: on_device(*column),
            },
        });
    }
    Ok(Stripe {
        file: stripe.file,
        index: stripe.layout.info.index,
        rows: stripe.layout.info.rows,
        group_rows: tail.row_index_stride.map_or(stripe.layout.info.rows, u64::from).max(1),
        selected: stripe.selected.clone(),
        columns,
    })
}

fn can_be_null(placement: &Placement) -> bool {
    match placement {
        Placement::Direct(_) | Placement::Constant(Some(_)) => false,
        Placement::Constant(None) | Placement::Decoded { .. } => true,
    }
}

/// Decodes columns of the located stripes.
struct StripeDecoder {
    scan: Arc<Scan>,
    /// By position in [`Input::stripes`]: file and footer.
    stripes: Vec<(usize, Arc<StripeLayout>)>,
    /// By position in the program's columns: the table's.
    columns: Vec<usize>,
    dictionary: Arc<Dictionary>,
    numbers: Mutex<Numbers>,
}

/// By stripe and column: the codes of its dictionary's entries, which every piece of the column comes with.
type Numbers = HashMap<(usize, usize), Arc<[u32]>>;

impl std::fmt::Debug for StripeDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StripeDecoder")
            .field("columns", &self.columns)
            .finish_non_exhaustive()
    }
}

impl Decode for StripeDecoder {
    fn decode(&self, stripe: usize, column: usize, rows: Range<u64>) -> Result<Decoded, Box<dyn Error + Send + Sync>> {
        let (file, layout) = &self.stripes[stripe];
        let array = column_locations::read(&self.scan, *file, layout, self.columns[column], rows)?;
        Ok(decoded(&array, &self.dictionary)?)
    }

    fn encoded(&self, stripe: usize, column: usize) -> Option<Arc<Encoded>> {
        let (file, layout) = &self.stripes[stripe];
        let column = column_locations::encoded(&self.scan, *file, layout, self.columns[column])?;
        encoded_columns::encoded(column).map(Arc::new)
    }

    fn numbers(&self, stripe: usize, column: usize) -> Result<Arc<[u32]>, Box<dyn Error + Send + Sync>> {
        let lock = || self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(numbers) = lock().get(&(stripe, column)) {
            return Ok(Arc::clone(numbers));
        }
        let (file, layout) = &self.stripes[stripe];
        let entries = column_locations::dictionary(&self.scan, *file, layout, self.columns[column])?;
        let numbers: Arc<[u32]> = self.dictionary.codes(&entries).map_err(full)?.into();
        lock().insert((stripe, column), Arc::clone(&numbers));
        Ok(numbers)
    }
}

/// The values of an array as a kernel reads them.
pub(super) fn decoded(array: &ArrayRef, dictionary: &Dictionary) -> Result<Decoded, DataFusionError> {
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
        DataType::Decimal128(..) => unscaled(array)?,
        DataType::Utf8 => {
            let codes = dictionary.codes(array.as_string()).map_err(full)?;
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

fn full(full: DictionaryFull) -> DataFusionError {
    DataFusionError::External(Box::new(full))
}

/// The bytes of the values; zero where one is missing.
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

fn unscaled(array: &ArrayRef) -> Result<Vec<u8>, DataFusionError> {
    let decimals = array.as_primitive::<Decimal128Type>();
    let mut bytes = Vec::with_capacity(decimals.len() * 8);
    for value in decimals {
        let value = i64::try_from(value.unwrap_or_default());
        let value = value.map_err(|_| datafusion::common::exec_datafusion_err!("a decimal has more than 18 digits"))?;
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    Ok(bytes)
}

/// A rough guess of what the columns of a program hold, in bytes of selected rows: raw, and stored ones to be decoded.
pub(crate) fn column_bytes(program: &Program, input: &Input, column: usize) -> ColumnBytes {
    let mut bytes = ColumnBytes::default();
    for stripe in &input.stripes {
        let rows: u64 = stripe.selected.iter().map(|range| range.end - range.start).sum();
        let width = u64::from(program.columns[column].ty.width());
        match &stripe.columns[column] {
            Placement::Direct(_) => bytes.direct += rows * width,
            Placement::Constant(_) => {}
            Placement::Decoded {
                stored_bytes,
                on_device,
            } => {
                bytes.stored += (u128::from(*stored_bytes) * u128::from(rows) / u128::from(stripe.rows.max(1))) as u64;
                bytes.decoded += rows * width;
                bytes.on_device += if *on_device { rows * width } else { 0 };
            }
        }
    }
    bytes
}

/// Bytes of one column at the selected rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ColumnBytes {
    /// Raw in the file.
    pub(crate) direct: u64,
    /// In the file, to be decoded.
    pub(crate) stored: u64,
    /// What those become.
    pub(crate) decoded: u64,
    /// Of that, what the GPU can make of them itself.
    pub(crate) on_device: u64,
}
