//! `Report` and `Figure`: measurements, their targets, and their form as a table.

use std::fmt;

use grampus_cuda::{DeviceFacts, KernelUse};
use serde::Serialize;

use crate::error::BenchError;

/// One measurement.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    /// Section it belongs to.
    pub section: String,
    /// Name of the measurement.
    pub name: String,
    /// The measured value.
    pub value: f64,
    /// The value's unit: GB/s, M/s, ×, s.
    pub unit: &'static str,
    /// The plain kernel's figure in the same unit.
    pub plain: Option<f64>,
    /// Least value / plain, or least value if there is no plain figure.
    pub target: Option<f64>,
    /// Additional facts.
    pub note: String,
    /// The error, if the section failed.
    pub error: Option<String>,
}

impl Figure {
    /// Value over plain.
    pub fn ratio(&self) -> Option<f64> {
        self.plain.filter(|p| *p > 0.0).map(|p| self.value / p)
    }

    /// Whether the target was reached, if there is one.
    pub fn reached(&self) -> Option<bool> {
        self.target
            .map(|t| self.error.is_none() && self.ratio().unwrap_or(self.value) >= t)
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<9} {:<58} ", self.section, self.name)?;
        if let Some(error) = &self.error {
            return write!(f, "FAILED: {error}");
        }
        write!(f, "{:>9.2} {:<5}", self.value, self.unit)?;
        match self.ratio() {
            Some(ratio) => write!(f, " {:>6.1} %", ratio * 100.0)?,
            None => write!(f, "         ")?,
        }
        match (self.reached(), self.target, self.ratio()) {
            (Some(yes), Some(target), ratio) => {
                let word = if yes { "reached" } else { "missed" };
                match ratio {
                    Some(_) => write!(f, "  {word}: {:.0} %", target * 100.0)?,
                    None => write!(f, "  {word}: {target}")?,
                }
            }
            _ => write!(f, "  -")?,
        }
        if !self.note.is_empty() {
            write!(f, "  ({})", self.note)?;
        }
        Ok(())
    }
}

/// Everything that one run measured.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The GPU.
    pub device: DeviceFacts,
    /// Registers of the benchmark's kernels.
    pub kernels: Vec<KernelUse>,
    /// The measurements, in order.
    pub figures: Vec<Figure>,
    /// Name of the running section.
    #[serde(skip)]
    pub(crate) section: String,
}

impl Report {
    pub(crate) fn new(device: DeviceFacts, kernels: &[KernelUse]) -> Self {
        Self {
            device,
            kernels: kernels.to_vec(),
            figures: Vec::new(),
            section: String::new(),
        }
    }

    pub(crate) fn add(&mut self, name: impl Into<String>, value: f64, unit: &'static str) -> &mut Figure {
        self.figures.push(Figure {
            section: self.section.clone(),
            name: name.into(),
            value,
            unit,
            plain: None,
            target: None,
            note: String::new(),
            error: None,
        });
        let last = self.figures.len() - 1;
        &mut self.figures[last]
    }

    pub(crate) fn failure(&mut self, error: &BenchError) {
        self.add("section", 0.0, "").error = Some(error.to_string());
    }
}

impl Figure {
    pub(crate) fn against(&mut self, plain: f64, target: f64) -> &mut Self {
        self.plain = Some(plain);
        self.target = Some(target);
        self
    }

    pub(crate) fn at_least(&mut self, target: f64) -> &mut Self {
        self.target = Some(target);
        self
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) -> &mut Self {
        self.note = note.into();
        self
    }
}
