//! [`GpuInput`]: a program's input. Strings have no codes while a query is planned: each run [binds](GpuInput::bound)
//! the input to a dictionary.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grampus_gpu_exec::input::{Input, Placement};
use grampus_gpu_exec::program::Value;
use grampus_orc_layout::stripe::StripeLayout;

use super::string_dictionary::{DictionaryFull, StringDictionary};
use super::stripe_decoder::{LocatedColumns, StripeDecoder};

/// Codes of strings that a query is prepared for, at least. A dictionary grows while columns are decoded.
const MIN_CODES: usize = 16;

/// A program's input with what the estimates and the metrics need.
#[derive(Debug)]
pub(crate) struct GpuInput {
    /// The files, stripes and placements.
    pub(crate) input: Arc<Input>,
    /// By column: whether a stripe may hold a NULL.
    pub(crate) nullable: Vec<bool>,
    /// By position in [`Input::stripes`]: the footer.
    pub(crate) layouts: Vec<Arc<StripeLayout>>,
    /// Row groups that statistics exclude, in the stripes of `input`.
    pub(crate) skipped_row_groups: usize,
    /// Constants that are strings: stripe, column, and text. In `input` a placeholder stands for the code.
    pub(super) texts: Vec<(usize, usize, Arc<str>)>,
    /// Columns of codes of strings, and the entries that a stripe's dictionary has at most, if all stripes have one.
    pub(super) code_columns: Vec<(usize, Option<usize>)>,
    pub(super) located: Arc<LocatedColumns>,
    /// The last run's.
    pub(super) bound: Mutex<Option<BoundInput>>,
}

/// An input whose strings are codes of a dictionary.
#[derive(Debug)]
pub(super) struct BoundInput {
    /// Number and length of the dictionary.
    dictionary: (u64, usize),
    input: Arc<Input>,
    decoder: Arc<StripeDecoder>,
}

impl GpuInput {
    /// The input of a run, whose strings are codes of `dictionary`. As long as the dictionary does not grow, runs have
    /// the same input.
    pub(crate) fn bound(&self, dictionary: &Arc<StringDictionary>) -> Result<Arc<Input>, DictionaryFull> {
        let codes: Vec<u32> = (self.texts.iter())
            .map(|(_, _, text)| dictionary.code(text))
            .collect::<Result<_, _>>()?;
        if let Some(input) = self.last_bound(dictionary) {
            return Ok(input);
        }
        let state = (dictionary.number(), dictionary.len());
        let mut input = Input::clone(&self.input);
        for ((stripe, column, _), code) in self.texts.iter().zip(codes) {
            let code = Value::Int(i64::from(code));
            input.stripes[*stripe].columns[*column] = Placement::Constant(Some(code));
        }
        input.dictionary = dictionary.number();
        for &(column, entries) in &self.code_columns {
            input.value_ranges[column] = code_range(dictionary);
            // A dictionary that turns out longer makes the device load the column again.
            let codes = entries.map(|entries| entries.max(dictionary.len()).max(1));
            input.value_bounds[column] = codes.map(|codes| (0, codes as i64 - 1));
        }
        let decoder = Arc::new(StripeDecoder::new(&self.located, dictionary));
        input.decoder = decoder.clone();
        let input = Arc::new(input);
        *self.last() = Some(BoundInput {
            dictionary: state,
            input: Arc::clone(&input),
            decoder,
        });
        Ok(input)
    }

    /// The last run's input, if a run with `dictionary` has the same. No strings are entered.
    pub(crate) fn last_bound(&self, dictionary: &StringDictionary) -> Option<Arc<Input>> {
        let last = self.last();
        let last = last.as_ref()?;
        (last.dictionary == (dictionary.number(), dictionary.len())).then(|| Arc::clone(&last.input))
    }

    /// Frees what the last run's decoder keeps for the run.
    pub(crate) fn run_ended(&self) {
        if let Some(last) = &*self.last() {
            last.decoder.forget_codes();
        }
    }

    fn last(&self) -> MutexGuard<'_, Option<BoundInput>> {
        // The value is only replaced as a whole.
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The codes that strings of a query have, if no further strings are met.
pub(super) fn code_range(dictionary: &StringDictionary) -> Vec<(Value, Value)> {
    let codes = dictionary.len().max(MIN_CODES) as i64;
    vec![(Value::Int(0), Value::Int(codes - 1))]
}
