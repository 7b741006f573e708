//! [`InputBuilder`]: the scan of a lowered aggregation becomes the program's [`Input`].
//!
//! 1. Locate the columns in the stripes that statistics leave ([`column_locations`]).
//! 2. Describe each stripe: its selected rows, and a placement per column (raw segments, a constant, or encoded).
//! 3. Mark the program's columns as never NULL if no stripe can hold a NULL.
//! 4. Note the least and the greatest value of each column by stripe, as far as statistics tell.
//! 5. Note the least and the greatest value of each column in all files: values take no more bytes on the device.
//! 6. Give the device a [`StripeDecoder`] for the encoded columns.
//!
//! The session keeps inputs ([`InputCache`]): all steps take milliseconds if a table has thousands of stripes.
//!

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use grampus_gpu_exec::input::{FileVersion, Input, Placement, Segment, Stripe};
use grampus_gpu_exec::program::{Type, Value};
use grampus_orc_layout::proto::column_encoding::Kind;

use super::column_ids::ColumnIds;
use super::decompression::ChunkDecompression;
use super::encoded_columns;
use super::gpu_input::{GpuInput, code_range};
use super::input_cache::{InputCache, InputKey};
use super::lower::Lowered;
use super::lower::types::{Argument, argument_of};
use super::refusal::Refusal;
use super::string_dictionary::StringDictionary;
use super::stripe_decoder::{LocatedColumns, StripeDecoder};
use super::text_function::TextFunction;
use crate::file::Place;
use crate::scan::Scan;
use crate::scan::column_locations::{self, ColumnLocation, LocationCache, StripeLocations};
use crate::scan::orc_scan_exec::OrcScanExec;
use crate::store::nvme_location;
use crate::table::column_bounds::{self, extremes};
use crate::table::files::TableFile;

/// Builds inputs from what the session keeps.
pub(crate) struct InputBuilder<'a> {
    /// The session's dictionary: columns of codes may be cached.
    pub(crate) dictionary: &'a StringDictionary,
    pub(crate) column_ids: &'a ColumnIds,
    pub(crate) locations: &'a LocationCache,
    pub(crate) decompression: &'a ChunkDecompression,
    pub(crate) cache: &'a InputCache,
}

impl InputBuilder<'_> {
    /// The input of `lowered`, which an earlier query may have built. Marks columns of the program as never NULL if no
    /// stripe can hold a NULL.
    ///
    /// # Errors
    /// If the GPU cannot read the files, or if one of them is damaged.
    pub(crate) fn input(&self, lowered: &mut Lowered) -> Result<Arc<GpuInput>, Refusal> {
        let scan = lowered.scan().ok_or(Refusal::NoOrcScan)?;
        let key = InputKey::of(lowered, scan, self.decompression, self.dictionary);
        let input = match self.cache.get(&key) {
            Some(input) => input,
            None => {
                let input = Arc::new(self.build(lowered, scan)?);
                self.cache.insert(key, &input);
                input
            }
        };
        for (column, nullable) in lowered.program.columns.iter_mut().zip(&input.nullable) {
            column.nullable = *nullable;
        }
        Ok(input)
    }

    fn build(&self, lowered: &Lowered, scan_exec: &OrcScanExec) -> Result<GpuInput, Refusal> {
        let (scan, work) = (scan_exec.shared(), scan_exec.work());
        if !scan.is_read_at_once() {
            return Err(Refusal::RemoteFiles);
        }
        let (located, groups) =
            column_locations::locate_columns(&scan, work, &lowered.columns, self.locations).map_err(Refusal::File)?;
        let files = scan.files.iter().map(file_version).collect::<Result<Vec<_>, _>>()?;
        let (mut stripes, mut texts) = (Vec::with_capacity(located.len()), Vec::new());
        for (at, stripe) in located.iter().enumerate() {
            let (stripe, constants) = self.stripe_of(&scan, stripe, lowered)?;
            stripes.push(stripe);
            texts.extend(constants.into_iter().map(|(column, text)| (at, column, text)));
        }
        let nullable = |at: usize| {
            let has_function = lowered.functions[at].is_some();
            let in_stripes = stripes.iter().zip(&located);
            in_stripes
                .into_iter()
                .any(|(stripe, located)| match &located.columns[at] {
                    ColumnLocation::Direct(_) => false,
                    ColumnLocation::Constant(_) => matches!(stripe.columns[at], Placement::Constant(None)),
                    ColumnLocation::Decoded { may_be_null, .. } => *may_be_null || has_function,
                })
        };
        let nullable = (0..lowered.columns.len()).map(nullable).collect();
        let is_code = |column: &usize| lowered.program.columns[*column].ty == Type::Code;
        let code_columns: Vec<usize> = (0..lowered.columns.len()).filter(is_code).collect();
        let value_ranges = (0..lowered.columns.len()).map(|at| match code_columns.contains(&at) {
            true => Ok(code_range(self.dictionary)),
            false => value_ranges(&scan, &located, lowered.columns[at]),
        });
        let value_ranges = value_ranges.collect::<Result<_, Refusal>>()?;
        let columns = lowered.columns.iter().zip(&lowered.functions);
        let value_bounds = columns.clone().map(|(column, function)| match function {
            Some(_) => None,
            None => value_bounds(&scan, *column),
        });
        let value_bounds = value_bounds.collect();
        let entries = |at: usize| dictionary_entries(&scan, &located, at, lowered.columns[at]);
        let code_columns = code_columns.into_iter().map(|at| (at, entries(at))).collect();
        let column_id =
            |(&column, function): (&usize, &Option<_>)| self.column_ids.of(&scan, column, function.as_ref());
        let column_ids = columns.map(column_id).collect();
        let columns = Arc::new(LocatedColumns::new(scan, &located, lowered));
        // A run over strings has a decoder of its own.
        let decoder = StripeDecoder::new(&columns, &Arc::default());
        let input = Input {
            files,
            stripes,
            column_ids,
            dictionary: self.dictionary.number(),
            value_ranges,
            value_bounds,
            decoder: Arc::new(decoder),
        };
        let layouts = located.into_iter().map(|stripe| stripe.layout).collect();
        Ok(GpuInput {
            input: Arc::new(input),
            nullable,
            bound: Default::default(),
            layouts,
            skipped_row_groups: groups.skipped,
            texts,
            code_columns,
            located: columns,
        })
    }

    /// A stripe with a placement for each of the program's columns, and the constants that are strings.
    fn stripe_of(&self, scan: &Scan, stripe: &StripeLocations, lowered: &Lowered) -> Result<(Stripe, Texts), Refusal> {
        let file = &scan.files[stripe.file];
        let tail = &file.file.tail;
        let decompresses = tail
            .compression
            .is_none_or(|compression| self.decompression.takes(compression.codec));
        let on_device = |column: usize| {
            let id = file.place_of(column);
            let is_encoded = id.is_ok_and(|id| encoded_columns::on_device(tail, &stripe.layout, id));
            decompresses
                && is_encoded
                && !file.is_converted(column)
                && column_locations::decodes_on_device(scan, column)
        };
        let (mut placements, mut texts) = (Vec::with_capacity(stripe.columns.len()), Vec::new());
        for (at, (location, column)) in stripe.columns.iter().zip(&lowered.columns).enumerate() {
            placements.push(match location {
                ColumnLocation::Direct(direct) => Placement::Direct(
                    (direct.segments.iter())
                        .map(|segment| Segment {
                            first_row: segment.first_row,
                            rows: segment.rows,
                            offset: segment.offset,
                        })
                        .collect(),
                ),
                ColumnLocation::Constant(value) => {
                    let value = argument_of(&constant(value, lowered.functions[at].as_deref())?)?;
                    if let Some(Argument::Text(text)) = &value {
                        texts.push((at, Arc::clone(text)));
                    }
                    Placement::Constant(value.map(|value| value.placeholder()))
                }
                ColumnLocation::Decoded {
                    stored_bytes,
                    chunk_bytes,
                    ..
                } => {
                    let on_device = on_device(*column);
                    Placement::Decoded {
                        stored_bytes: *stored_bytes,
                        on_device,
                        chunk_bytes: chunk_bytes.filter(|_| on_device),
                    }
                }
            });
        }
        let stripe = Stripe {
            file: stripe.file,
            index: stripe.layout.info.index,
            rows: stripe.layout.info.rows,
            group_rows: encoded_columns::group_rows(tail, &stripe.layout),
            compression: tail.compression,
            selected: stripe.selected.clone(),
            columns: placements,
        };
        Ok((stripe, texts))
    }
}

/// The least and the greatest value of a table column in each stripe of which they are known.
///
/// # Errors
/// If one of them is a decimal that takes more than eight bytes.
fn value_ranges(scan: &Scan, stripes: &[StripeLocations], column: usize) -> Result<Vec<(Value, Value)>, Refusal> {
    let field = scan.table.field(column);
    let bounds = |stripe: &StripeLocations| {
        let file = &scan.files[stripe.file];
        match file.place_of(column) {
            Ok(id) => {
                let of_stripe = file.file.tail.stripe_statistics.get(stripe.layout.info.index);
                let stored = of_stripe.and_then(|columns| columns.get(id as usize));
                let stored = stored.or_else(|| file.file.tail.file_statistics.get(id as usize))?;
                extremes(stored, field.data_type())
            }
            Err(value) => Some((value.clone(), value)),
        }
    };
    let value = |scalar: &ScalarValue| match argument_of(scalar) {
        Ok(Some(Argument::Value(value))) => Ok(Some(value)),
        Err(Refusal::WideDecimal { .. }) => Err(Refusal::WideDecimal {
            value: format!("a value of column {}", field.name()),
        }),
        _ => Ok(None),
    };
    let mut ranges = Vec::new();
    for (least, most) in stripes.iter().filter_map(bounds) {
        ranges.extend(value(&least)?.zip(value(&most)?));
    }
    Ok(ranges)
}

/// The least and the greatest value of a table column in all files, as an integer, and zero. `None`: they are not known
/// of one, or are floats of which not all look like whole numbers.
fn value_bounds(scan: &Scan, column: usize) -> Option<(i64, i64)> {
    let data_type = scan.table.field(column).data_type();
    let of_file = |file: &TableFile| match file.place_of(column) {
        Ok(id) => {
            let stored = file.file.tail.file_statistics.get(id as usize)?;
            if stored.values == Some(0) {
                return Some((0, 0)); // NULL takes the place of a zero
            }
            if data_type.is_floating() {
                return column_bounds::of_whole_numbers(stored);
            }
            let (least, most) = extremes(stored, data_type)?;
            integer(&least).zip(integer(&most))
        }
        // Columns that a file lacks have one value, which the device finds in its input.
        Err(_) => Some((0, 0)),
    };
    let mut files = scan.files.iter().map(of_file);
    files.try_fold((0, 0), |(a, b), bounds| bounds.map(|(c, d)| (a.min(c), b.max(d))))
}

/// A value as an integer, unscaled; `None`: of another type.
fn integer(value: &ScalarValue) -> Option<i64> {
    match argument_of(value) {
        Ok(Some(Argument::Value(Value::Int(value)))) => Some(value),
        _ => None,
    }
}

/// The most entries that a dictionary of a column has in a stripe; `None`: some strings are stored without one. `at`:
/// the column's position in the program.
fn dictionary_entries(scan: &Scan, stripes: &[StripeLocations], at: usize, column: usize) -> Option<usize> {
    let of_stripe = |stripe: &StripeLocations| {
        if matches!(stripe.columns[at], ColumnLocation::Constant(_)) {
            return Some(1);
        }
        let id = scan.files[stripe.file].place_of(column).ok()?;
        let encoding = stripe.layout.encodings.get(id as usize)?;
        let has_dictionary = matches!(encoding.kind, Kind::Dictionary | Kind::DictionaryV2);
        has_dictionary.then_some(encoding.dictionary_size as usize)
    };
    stripes
        .iter()
        .map(of_stripe)
        .try_fold(0, |most, entries| entries.map(|entries| most.max(entries)))
}

/// A constant, or a function of it.
fn constant(value: &ScalarValue, function: Option<&TextFunction>) -> Result<ScalarValue, Refusal> {
    let Some(function) = function.filter(|_| !value.is_null()) else {
        return Ok(value.clone());
    };
    let of_value = || {
        let of_string = function.of_strings(value.cast_to(&DataType::Utf8)?.to_array_of_size(1)?)?;
        ScalarValue::try_from_array(&of_string, 0)
    };
    of_value().map_err(Refusal::File)
}

/// By column: constants that are strings.
type Texts = Vec<(usize, Arc<str>)>;

fn file_version(file: &TableFile) -> Result<FileVersion, Refusal> {
    let identity = &file.file.identity;
    match (&file.file.place, identity.inode) {
        (Place::Local(path), Some((device, inode))) => Ok(FileVersion {
            path: path.clone(),
            device,
            inode,
            bytes: identity.length,
            modified_ns: identity.modified_ns,
            namespace: None,
        }),
        (place, _) => {
            let on_namespace = place.namespace_file(identity).ok_or(Refusal::RemoteFiles)?;
            let url = nvme_location::shown(&place.key());
            Ok(FileVersion::of_namespace(&url, on_namespace))
        }
    }
}
