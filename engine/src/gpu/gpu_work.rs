//! [`GpuWork`]: one aggregation that the optimizer gave to the GPU, with all that running and EXPLAIN need.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use grampus_gpu_exec::input::Input;
use grampus_gpu_exec::program::Value;
use grampus_gpu_exec::{BackingChoice, MachineProfile, Request, RunError, RunPreview};

use super::decompression::ChunkDecompression;
use super::device_choice::is_resident;
use super::filter_key::FilterKey;
use super::gpu_input::GpuInput;
use super::load_demand::LoadKey;
use super::lower::Lowered;
use super::lower::types::Argument;
use super::runner::Runner;
use super::session::GpuSession;
use super::string_dictionary::{DictionaryFull, StringDictionary};
use crate::device_settings::{DeviceSettings, RuntimeSettings};

/// An aggregation for a device.
#[derive(Debug)]
pub(crate) struct GpuWork {
    pub(crate) lowered: Lowered,
    pub(crate) gpu_input: Arc<GpuInput>,
    /// The device as planning knows it. A run takes the session's.
    pub(crate) planned_device: Arc<dyn Runner>,
    pub(crate) settings: DeviceSettings,
    /// Where the run notes that it has opened the device.
    pub(crate) runtime: Option<RuntimeSettings>,
    pub(crate) profile: MachineProfile,
    pub(crate) session: Arc<GpuSession>,
    pub(crate) backing: BackingChoice,
    pub(crate) decompression: ChunkDecompression,
    /// The share of rows that is expected to pass the filter, from 0 to 1.
    pub(crate) selectivity: f64,
    /// Set by the first question: the optimizer's or EXPLAIN's.
    pub(crate) preview: OnceLock<RunPreview>,
    /// The reason for the GPU, shown by EXPLAIN.
    pub(crate) reason: String,
    /// True if an error of the device fails the query. Otherwise the query falls back to the CPU.
    pub(crate) strict: bool,
}

/// The values of one run: strings are codes of the run's dictionary.
pub(crate) struct BoundWork {
    arguments: Vec<Value>,
    input: Arc<Input>,
}

impl GpuWork {
    /// What a run would find, as the optimizer saw it. Empty if the device cannot tell.
    pub(crate) fn preview(&self) -> &RunPreview {
        self.preview
            .get_or_init(|| self.plan(&*self.planned_device).unwrap_or_default())
    }

    /// Whether a run now would find everything on the device: columns, and the compiled kernel.
    pub(crate) fn is_hot(&self, device: &dyn Runner) -> bool {
        let found = self.plan(device);
        found.is_ok_and(|found| found.is_compiled && is_resident(&found.columns))
    }

    /// What a run on `device` would find now.
    ///
    /// # Errors
    /// As [`Runner::plan`].
    pub(crate) fn plan(&self, device: &dyn Runner) -> Result<RunPreview, RunError> {
        let (arguments, input) = self.unbound();
        device.plan(&self.request(&arguments, &input, &NEVER))
    }

    /// The source of the kernel that would be run.
    pub(crate) fn kernel_source(&self) -> String {
        let (arguments, input) = self.unbound();
        let source = self
            .planned_device
            .kernel_source(&self.request(&arguments, &input, &NEVER));
        source.unwrap_or_else(|error| error.to_string())
    }

    /// Arguments and input for planning: strings may have no codes yet.
    fn unbound(&self) -> (Vec<Value>, Arc<Input>) {
        let arguments = self.lowered.arguments.iter().map(Argument::placeholder).collect();
        let bound = match self.lowered.uses_strings() {
            true => self.gpu_input.last_bound(&self.session.dictionary()),
            false => None,
        };
        (arguments, bound.unwrap_or_else(|| Arc::clone(&self.gpu_input.input)))
    }

    /// The values of a run that uses `dictionary`.
    ///
    /// # Errors
    /// If literals and constants alone have too many different strings.
    pub(crate) fn bind(&self, dictionary: &Arc<StringDictionary>) -> Result<BoundWork, DictionaryFull> {
        let arguments = self.lowered.arguments.iter();
        Ok(BoundWork {
            arguments: arguments.map(|a| a.value(dictionary)).collect::<Result<_, _>>()?,
            input: match self.lowered.uses_strings() {
                true => self.gpu_input.bound(dictionary)?,
                false => Arc::clone(&self.gpu_input.input),
            },
        })
    }

    /// The request of a run.
    pub(crate) fn bound_request<'a>(&'a self, bound: &'a BoundWork, cancel: &'a Arc<AtomicBool>) -> Request<'a> {
        self.request(&bound.arguments, &bound.input, cancel)
    }

    /// A request to the device.
    pub(crate) fn request<'a>(
        &'a self,
        arguments: &'a [Value],
        input: &'a Arc<Input>,
        cancel: &'a Arc<AtomicBool>,
    ) -> Request<'a> {
        Request {
            program: &self.lowered.program,
            arguments,
            input,
            backing: self.backing,
            decompression: self.decompression.request(),
            selectivity: self.selectivity,
            // A query that may fall back does not wait.
            waits_for_memory: self.strict,
            cancel,
        }
    }

    /// The key under which queries are counted, and loaded in the background.
    pub(crate) fn load_key(&self) -> LoadKey {
        LoadKey::of(&self.lowered.program, &self.gpu_input.input)
    }

    /// The key under which the session remembers the filter's selectivity.
    pub(crate) fn filter_key(&self) -> FilterKey {
        FilterKey::of(&self.lowered.program, &self.lowered.arguments, &self.gpu_input.input)
    }
}

/// The flag of a request that is only planned.
static NEVER: std::sync::LazyLock<Arc<AtomicBool>> = std::sync::LazyLock::new(Arc::default);
