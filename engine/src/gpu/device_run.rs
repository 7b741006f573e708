//! One run of a [`GpuWork`] on the session's device.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use datafusion::common::DataFusionError;
use grampus_gpu_exec::{Output, RunError};

use super::gpu_work::GpuWork;
use super::runner::Absence;
use super::string_dictionary::{DictionaryFull, StringDictionary};

/// Runs the program on the session's device, and opens the device if it is closed. Returns the dictionary of the run's
/// codes too. If the session's dictionary becomes full, the run is repeated with a new one, unless the query alone has
/// too many different strings. The session remembers the share of rows that passed.
///
/// # Errors
/// As [`Runner::run`](super::runner::Runner::run).
pub(crate) fn run(work: &GpuWork, cancel: &Arc<AtomicBool>) -> Result<(Output, Arc<StringDictionary>), RunError> {
    let device = work.session.device(&work.settings, &work.profile);
    loop {
        let dictionary = work.session.dictionary();
        let was_empty = dictionary.len() == 0;
        let bound = work.bind(&dictionary).map_err(|full| RunError::Decode(full.into()));
        let ran = bound.and_then(|bound| device.run(&work.bound_request(&bound, cancel)));
        work.gpu_input.run_ended();
        let error = match ran {
            Ok(output) => {
                if output.cost.rows > 0 {
                    let selectivity = output.cost.passed as f64 / output.cost.rows as f64;
                    work.session.remember_selectivity(work.filter_key(), selectivity);
                }
                return Ok((output, dictionary));
            }
            Err(error) => error,
        };
        if let Some(cuda) = error.cuda()
            && !device.is_open()
        {
            let absence = Absence::of(cuda);
            if absence.is_final {
                work.session.remember_absence(&work.settings, absence);
            }
        }
        let is_full = matches!(&error, RunError::Decode(inner) if is_dictionary_full(inner.as_ref()));
        if is_full {
            work.session.renew_dictionary(&dictionary);
        }
        if !is_full || was_empty {
            return Err(error);
        }
    }
}

/// Whether an error says that a run's strings do not fit in the dictionary.
pub(crate) fn is_dictionary_full(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<DictionaryFull>() {
            return true;
        }
        if let Some(DataFusionError::External(inner)) = error.downcast_ref::<DataFusionError>() {
            return is_dictionary_full(inner.as_ref());
        }
        cause = error.source();
    }
    false
}
