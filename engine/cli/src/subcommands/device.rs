//! `grampus device`: the hardware and software to compute on, and its rates.

use std::io::{self, Write};

use grampus::GrampusOptions;
use grampus::config::cache_folder;
use grampus::gpu::calibration::Calibration;
use grampus_cuda::machine_report::MachineReport;
use serde::Serialize;

use crate::args::DeviceArgs;
use crate::calibrate::calibrate;
use crate::exit_error::{ErrorReport, ExitError};
use crate::interrupts::{Interrupts, SignalMode};
use crate::scratch_folder;
use crate::terminal::note;

/// The object that is printed as JSON.
#[derive(Serialize)]
struct Answer<'a> {
    machine: &'a MachineReport,
    /// Whether queries can run on the GPU.
    usable: bool,
    /// Measured rates, or supposed rates.
    rates: &'a Calibration,
    /// Whether the rates were measured.
    calibrated: bool,
}

/// Prints the report. A machine without a GPU has a report too, but cannot be calibrated.
pub(crate) fn run(arguments: &DeviceArgs) -> Result<(), ExitError> {
    let machine = MachineReport::gather();
    let folder = cache_folder(&GrampusOptions::default());
    if arguments.calibrate {
        measure(arguments, &machine)?;
    }
    let rates = folder.as_deref().map(Calibration::load).unwrap_or_default();
    let calibrated = !rates.profile.gpu.is_empty();
    let answer = Answer {
        machine: &machine,
        usable: machine.usable().is_ok(),
        rates: &rates,
        calibrated,
    };
    print(arguments.json, &answer).map_err(|error| ExitError::output(&error))
}

/// Measures the rates and saves them.
fn measure(arguments: &DeviceArgs, machine: &MachineReport) -> Result<(), ExitError> {
    if let Err(error) = machine.usable() {
        return Err(ErrorReport::new(format!("there is nothing to calibrate: {error}")).into());
    }
    let Some(keep) = cache_folder(&GrampusOptions::default()) else {
        return Err(ErrorReport::new("there is no folder to keep the calibration in")
            .hint("set HOME or XDG_CACHE_HOME")
            .into());
    };
    // The signals' thread removes the data file, at the latest a second after a signal.
    let _interrupts = Interrupts::listen(SignalMode::Command)?;
    let scratch = scratch_folder::create(arguments.folder.as_deref())?;
    let rates =
        calibrate(scratch.path(), &mut |figure| note(figure)).map_err(|error| ErrorReport::new(error.to_string()))?;
    let path = rates.save(&keep).map_err(|error| ErrorReport::new(error.to_string()))?;
    note(format_args!("kept in {}", path.display()));
    Ok(())
}

fn print(json: bool, answer: &Answer<'_>) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    if json {
        serde_json::to_writer_pretty(&mut stdout, answer)?;
        return writeln!(stdout);
    }
    write!(stdout, "{}", answer.machine)?;
    if answer.machine.devices.is_empty() {
        return Ok(());
    }
    let rates = answer.rates;
    let gb = |rate: f64| rate / 1e9;
    writeln!(
        stdout,
        "to the GPU     {:.1} GB/s pushed, {:.1} GB/s mapped",
        gb(rates.profile.push_bytes_per_s),
        gb(rates.profile.mapped_bytes_per_s)
    )?;
    writeln!(
        stdout,
        "               {:.0} M/s scattered loads, {:.1} M/s commands, {:.1} GB/s from disk",
        rates.profile.mapped_loads_per_s / 1e6,
        rates.profile.commands_per_s / 1e6,
        gb(rates.profile.disk_bytes_per_s)
    )?;
    writeln!(
        stdout,
        "on the GPU     {:.0} GB/s",
        gb(rates.profile.device_bytes_per_s)
    )?;
    match answer.calibrated {
        true => writeln!(stdout, "These rates were measured with {}.", rates.profile.gpu),
        false => writeln!(
            stdout,
            "These rates are supposed; `grampus device --calibrate` measures them."
        ),
    }
}
