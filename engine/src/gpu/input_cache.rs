//! [`InputCache`]: the inputs that a session has built. A query over the same files, row groups and columns takes the
//! input of an earlier one.
//!
//! **Invariant:** a [`InputKey`] has everything that an input depends on. Files are known by the numbers of their
//! versions, so an input of a changed file is never found.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::physical_plan::PhysicalExpr;
use grampus_gpu_exec::program::Type;
use grampus_orc_layout::schema::ColumnId;

use super::decompression::ChunkDecompression;
use super::gpu_input::GpuInput;
use super::lower::Lowered;
use super::string_dictionary::StringDictionary;
use super::text_function::TextFunction;
use crate::config::GrampusOptions;
use crate::file::file_cache::FileCache;
use crate::scan::orc_scan_exec::OrcScanExec;
use crate::scan::scan_ranges::ScanRange;

/// Inputs in the cache, at most.
const MAX_INPUTS: usize = 32;
/// Columns of stripes in all inputs of the cache, at most. Each takes some hundred bytes.
const MAX_PLACEMENTS: usize = 1 << 18;

/// The inputs of a session's last queries.
#[derive(Debug, Default)]
pub(crate) struct InputCache(Mutex<VecDeque<(InputKey, Arc<GpuInput>)>>);

/// Everything that an input depends on.
#[derive(Debug)]
pub(crate) struct InputKey {
    cache: Arc<FileCache>,
    options: GrampusOptions,
    decompression: ChunkDecompression,
    table: SchemaRef,
    /// Table columns, with the program's types.
    columns: Vec<(usize, Type)>,
    functions: Vec<Option<Arc<TextFunction>>>,
    /// By file: the number of its version, and the places of the columns.
    files: Vec<(u64, Vec<ColumnPlace>)>,
    work: Arc<Vec<Vec<ScanRange>>>,
    /// The conjuncts that exclude row groups.
    filter: Vec<Arc<dyn PhysicalExpr>>,
    /// Number and length of the dictionary, if a column has codes of strings.
    dictionary: Option<(u64, usize)>,
}

/// The column of a file, and whether its values are converted; or the value of all rows.
type ColumnPlace = Result<(ColumnId, bool), ScalarValue>;

impl InputKey {
    /// The key of the input of `lowered`, which reads `scan`.
    pub(crate) fn of(
        lowered: &Lowered,
        scan: &OrcScanExec,
        decompression: &ChunkDecompression,
        dictionary: &StringDictionary,
    ) -> Self {
        let (types, work) = (
            lowered.program.columns.iter().map(|column| column.ty),
            scan.shared_work(),
        );
        let scan = scan.shared();
        let place = |file: usize, column: usize| {
            let file = &scan.files[file];
            file.place_of(column).map(|id| (id, file.is_converted(column)))
        };
        let places = |file| lowered.columns.iter().map(|&column| place(file, column)).collect();
        let has_codes = types.clone().any(|ty| ty == Type::Code);
        Self {
            columns: lowered.columns.iter().copied().zip(types).collect(),
            functions: lowered.functions.clone(),
            files: (scan.files.iter().enumerate())
                .map(|(at, file)| (file.file.id, places(at)))
                .collect(),
            work,
            filter: (scan.conjuncts.iter())
                .map(|conjunct| Arc::clone(&conjunct.expr))
                .collect(),
            dictionary: has_codes.then(|| (dictionary.number(), dictionary.len())),
            cache: Arc::clone(&scan.cache),
            options: scan.options.clone(),
            decompression: decompression.clone(),
            table: Arc::clone(&scan.table),
        }
    }

    /// Whether inputs of both keys are equal.
    fn is(&self, other: &Self) -> bool {
        // What differs most often first.
        self.columns == other.columns
            && self.functions == other.functions
            && self.dictionary == other.dictionary
            && self.files == other.files
            && self.filter == other.filter
            && self.work == other.work
            && self.table == other.table
            && self.options == other.options
            && self.decompression.is(&other.decompression)
            && Arc::ptr_eq(&self.cache, &other.cache)
    }
}

impl InputCache {
    /// The input with this key.
    pub(crate) fn get(&self, key: &InputKey) -> Option<Arc<GpuInput>> {
        let mut inputs = self.lock();
        let at = inputs.iter().position(|(known, _)| known.is(key))?;
        let found = inputs.remove(at)?;
        let input = Arc::clone(&found.1);
        inputs.push_front(found);
        Some(input)
    }

    /// Keeps an input, in place of those that were asked for least recently.
    pub(crate) fn insert(&self, key: InputKey, input: &Arc<GpuInput>) {
        let mut inputs = self.lock();
        inputs.push_front((key, Arc::clone(input)));
        let (mut placements, mut kept) = (0, 0);
        for (_, input) in inputs.iter().take(MAX_INPUTS) {
            placements += input.input.stripes.len() * input.input.column_ids.len();
            if placements > MAX_PLACEMENTS {
                break;
            }
            kept += 1;
        }
        inputs.truncate(kept);
    }

    /// Drops all inputs.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(InputKey, Arc<GpuInput>)>> {
        // Each change leaves a list of whole entries.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
