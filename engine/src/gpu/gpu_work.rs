//! [`GpuWork`]: one aggregation that the optimizer gave to the GPU, with all that running and EXPLAIN need.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use grampus_gpu_exec::{BackingChoice, ColumnChoice, Request};

use super::filter_key::FilterKey;
use super::input_builder::GpuInput;
use super::lower::Lowered;
use super::runner::Runner;
use super::session::GpuSession;

/// An aggregation and the device that runs it.
#[derive(Debug)]
pub(crate) struct GpuWork {
    pub(crate) lowered: Lowered,
    pub(crate) gpu_input: GpuInput,
    pub(crate) device: Arc<dyn Runner>,
    pub(crate) session: Arc<GpuSession>,
    pub(crate) backing: BackingChoice,
    /// The share of rows that is expected to pass the filter, from 0 to 1.
    pub(crate) selectivity: f64,
    /// Backings of the columns, set by the first question: the optimizer's or EXPLAIN's.
    pub(crate) choices: OnceLock<Vec<ColumnChoice>>,
    /// The reason for the GPU, shown by EXPLAIN.
    pub(crate) reason: String,
    /// True if an error of the device fails the query. Otherwise the query falls back to the CPU.
    pub(crate) strict: bool,
}

impl GpuWork {
    /// The backing of each column. The list is empty if the device cannot tell.
    pub(crate) fn choices(&self) -> &[ColumnChoice] {
        let ask = || self.device.choose(&self.request(&Arc::default())).unwrap_or_default();
        self.choices.get_or_init(ask)
    }

    /// The request to the device.
    pub(crate) fn request<'a>(&'a self, cancel: &'a Arc<AtomicBool>) -> Request<'a> {
        Request {
            program: &self.lowered.program,
            arguments: &self.lowered.arguments,
            input: &self.gpu_input.input,
            backing: self.backing,
            selectivity: self.selectivity,
            cancel,
        }
    }

    /// The key under which the session remembers the filter's selectivity.
    pub(crate) fn filter_key(&self) -> FilterKey {
        FilterKey::of(&self.lowered.program, &self.lowered.arguments, &self.gpu_input.input)
    }
}
