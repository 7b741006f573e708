//! One run of a [`GpuWork`] on the session's device.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use datafusion::common::DataFusionError;
use grampus_gpu_exec::{Output, RunError};

use super::gpu_work::GpuWork;
use super::runner::Absence;
use super::string_dictionary::{DictionaryFull, StringDictionary};
use super::stripe_decoder::WideDecimal;

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
        if let Some(runtime) = &work.runtime {
            runtime.note_open(&work.settings, device.is_open());
        }
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
        let is_full = matches!(&error, RunError::Decode(inner) if caused_by::<DictionaryFull>(inner.as_ref()));
        if is_full {
            work.session.renew_dictionary(&dictionary);
        }
        if !is_full || was_empty {
            return Err(error);
        }
    }
}

/// Whether an error of decoding says that kernels cannot hold the values: the CPU's plan computes with them.
pub(crate) fn cannot_be_held(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    caused_by::<DictionaryFull>(error) || caused_by::<WideDecimal>(error)
}

/// Whether an error, or one of its causes, is of type `E`.
fn caused_by<E: std::error::Error + 'static>(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<E>() {
            return true;
        }
        if let Some(DataFusionError::External(inner)) = error.downcast_ref::<DataFusionError>() {
            return caused_by::<E>(inner.as_ref());
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Decimal128Array};

    use super::*;
    use crate::gpu::stripe_decoder::decoded;

    #[test]
    fn decimals_of_more_than_eight_bytes_cannot_be_held() {
        let decode = |value: i128| {
            let array: ArrayRef = Arc::new(Decimal128Array::from(vec![value]));
            decoded(&array, &StringDictionary::default())
        };
        assert!(decode(i64::MAX.into()).is_ok());
        let Err(error) = decode(i128::from(i64::MAX) + 1) else {
            panic!("a number of nine bytes was decoded");
        };
        assert!(cannot_be_held(&error), "{error}");
        assert!(!cannot_be_held(&RunError::Cancelled));
    }
}
