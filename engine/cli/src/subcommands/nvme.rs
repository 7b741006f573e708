//! `grampus nvme`: the machine's NVMe controllers, and the change of their driver. `nvme_files` has the files on them.

use std::io::{self, IsTerminal, Write};

use grampus_driver::binding::{
    BindingError, Change, Inventory, KERNEL_DRIVER, NvmeController, PciAddress, System, VFIO_DRIVER, bind, check_bind,
    check_unbind, unbind,
};

use super::nvme_files;
use crate::exit_error::{ErrorReport, ExitError};
use crate::interrupts::{Interrupts, SignalMode};
use crate::nvme_options::{NvmeBindArgs, NvmeCommand, NvmeListArgs};
use crate::terminal::{self, note};
use crate::text_table::{TableStyle, TextTable};
use crate::units;

/// A value that is not known.
const UNKNOWN: &str = "-";

/// Runs the subcommand.
pub(crate) fn run(command: &NvmeCommand) -> Result<(), ExitError> {
    match command {
        NvmeCommand::List(arguments) => list(arguments),
        NvmeCommand::Bind(arguments) => rebind(arguments, &BIND),
        NvmeCommand::Unbind(arguments) => rebind(arguments, &UNBIND),
        NvmeCommand::Load(arguments) => nvme_files::load(arguments),
        NvmeCommand::Files(arguments) => nvme_files::list(arguments),
        NvmeCommand::Remove(arguments) => nvme_files::remove(arguments),
        NvmeCommand::Verify(arguments) => nvme_files::verify(arguments),
    }
}

/// One of the two changes of a driver.
struct Direction {
    name: &'static str,
    check: fn(&System, PciAddress) -> Result<NvmeController, BindingError>,
    run: fn(&System, PciAddress) -> Result<Change, BindingError>,
    /// The driver afterwards.
    driver: &'static str,
    consequence: fn(&NvmeController) -> String,
}

const BIND: Direction = Direction {
    name: "bind",
    check: check_bind,
    run: bind,
    driver: VFIO_DRIVER,
    consequence: bind_consequence,
};

const UNBIND: Direction = Direction {
    name: "unbind",
    check: check_unbind,
    run: unbind,
    driver: KERNEL_DRIVER,
    consequence: unbind_consequence,
};

fn list(arguments: &NvmeListArgs) -> Result<(), ExitError> {
    let inventory = Inventory::read(&System::under(&arguments.machine.root)).map_err(explain)?;
    let printed = match arguments.json {
        true => print_json(&inventory),
        false => print_text(&inventory),
    };
    printed.map_err(|error| ExitError::output(&error))
}

fn print_json(inventory: &Inventory) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    serde_json::to_writer_pretty(&mut stdout, inventory)?;
    writeln!(stdout)
}

fn print_text(inventory: &Inventory) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    if inventory.controllers.is_empty() {
        return writeln!(stdout, "{}", nothing_found(inventory));
    }
    let names = [
        "address", "name", "model", "serial", "size", "driver", "group", "usable",
    ];
    let rows = inventory.controllers.iter().map(row).collect();
    let style = TableStyle {
        width: stdout.is_terminal().then(terminal::width_columns),
        ..TableStyle::default()
    };
    let table = TextTable::of_text(&names, &[false; 8], rows);
    write!(stdout, "{}", table.render(style))?;
    for controller in inventory.controllers.iter().filter(|controller| !controller.usable) {
        writeln!(stdout, "\n{}", controller.address)?;
        for obstacle in &controller.obstacles {
            writeln!(stdout, "  {obstacle}: {}", obstacle.advice())?;
        }
    }
    Ok(())
}

fn nothing_found(inventory: &Inventory) -> String {
    let searched = inventory.searched.display();
    match inventory.pci_devices as u64 {
        0 => format!(
            "no NVMe controller found: {searched} lists no PCI devices, as in many containers and virtual machines"
        ),
        devices => format!(
            "no NVMe controller found: {searched} lists {}, none of that class",
            units::counted(devices, "PCI device")
        ),
    }
}

/// The row of one controller in the table.
fn row(controller: &NvmeController) -> Vec<String> {
    let known = |text: Option<&String>| text.map_or_else(|| UNKNOWN.to_owned(), Clone::clone);
    vec![
        controller.address.to_string(),
        known(controller.name.as_ref()),
        known(controller.model.as_ref()),
        known(controller.serial.as_ref()),
        size(controller),
        known(controller.driver.as_ref()),
        known(controller.iommu_group.as_ref().map(|group| &group.number)),
        if controller.usable { "yes" } else { "no" }.to_owned(),
    ]
}

/// The bytes of all namespaces.
fn size(controller: &NvmeController) -> String {
    let sizes = controller
        .namespaces
        .iter()
        .filter_map(|namespace| namespace.size_bytes);
    sizes
        .reduce(u64::saturating_add)
        .map_or_else(|| UNKNOWN.to_owned(), units::bytes)
}

/// Changes the driver of a controller, after a question.
fn rebind(arguments: &NvmeBindArgs, direction: &Direction) -> Result<(), ExitError> {
    let (address, name) = (arguments.address, direction.name);
    if !arguments.yes && !io::stdin().is_terminal() {
        let report = ErrorReport::new(format!("nvme {name} asks first, and standard input is no terminal"));
        return Err(ExitError::Usage(report.hint("--yes answers yes")));
    }
    let system = System::under(&arguments.machine.root);
    let controller = (direction.check)(&system, address).map_err(explain)?;
    if !arguments.yes && !confirmed(&controller, direction)? {
        return Err(ErrorReport::new("nothing was changed").into());
    }
    // A process that ends between two steps would leave the controller without a driver.
    let _interrupts = Interrupts::listen(SignalMode::Ignored)?;
    let driver = direction.driver;
    let state = match (direction.run)(&system, address).map_err(explain)? {
        Change::Done => format!("{address} is bound to {driver}"),
        Change::Unchanged => format!("{address} is bound to {driver} already"),
    };
    writeln!(io::stdout(), "{state}").map_err(|error| ExitError::output(&error))
}

/// Whether the user agrees. If the controller has the wanted driver, there is nothing to ask.
fn confirmed(controller: &NvmeController, direction: &Direction) -> Result<bool, ExitError> {
    let old = controller.driver.as_deref().unwrap_or("no driver");
    if old == direction.driver {
        return Ok(true);
    }
    let change = format!("{} changes from {old} to {}.", controller.describe(), direction.driver);
    note(format_args!("{change} {}", (direction.consequence)(controller)));
    let answer = terminal::confirm("Continue?");
    answer.map_err(|error| ErrorReport::file("read", "the answer", &error).into())
}

fn bind_consequence(controller: &NvmeController) -> String {
    let address = controller.address;
    let disks: Vec<&str> = controller.namespaces.iter().map(|disk| disk.name.as_str()).collect();
    let vanishing = match disks.as_slice() {
        [] => "It has no disks for the kernel".to_owned(),
        [disk] => format!("Its disk {disk} vanishes"),
        disks => format!("Its disks {} vanish", disks.join(", ")),
    };
    format!("{vanishing} until `grampus nvme unbind {address}` or the next boot; the data stays.")
}

fn unbind_consequence(_: &NvmeController) -> String {
    "Its disks appear again.".to_owned()
}

/// An error of the library, with its file or a hint.
fn explain(error: BindingError) -> ExitError {
    let report = match &error {
        BindingError::Read { path, source } => ErrorReport::file("read", &path.display().to_string(), source),
        BindingError::NotWritable { path, source, .. } => {
            let report = ErrorReport::file("write", &path.display().to_string(), source);
            match source.kind() {
                io::ErrorKind::PermissionDenied => report.hint("only root changes drivers: run it with sudo"),
                io::ErrorKind::ReadOnlyFilesystem => report.hint("run it outside the container"),
                _ => report,
            }
        }
        BindingError::NoDevice { .. } | BindingError::NotNvme { .. } => {
            ErrorReport::new(error.to_string()).hint("grampus nvme list prints the controllers")
        }
        _ => ErrorReport::new(error.to_string()),
    };
    report.into()
}
