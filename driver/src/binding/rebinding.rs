//! [`bind`] and [`unbind`]: the change of a controller's driver, and its reversal after a failure.
//!
//! 1. `driver_override` names the driver that may take the function (Linux, `Documentation/ABI/testing/sysfs-bus-pci`).
//! 2. `drivers/DRIVER/unbind` takes the function from its driver.
//! 3. `drivers_probe` offers the function to the drivers.
//! 4. The link `driver` says which driver took it.

use std::fs::File;

use super::binding_error::BindingError;
use super::inventory::Inventory;
use super::kernel::ClaimFailure;
use super::nvme_controller::NvmeController;
use super::obstacle::Obstacle;
use super::pci_address::PciAddress;
use super::system::{System, link_name, text};
use super::{KERNEL_DRIVER, VFIO_DRIVER};

/// An override without text has no effect on a write. A line break clears it.
const NO_OVERRIDE: &str = "\n";
/// The text of an override that is not set.
const NULL_TEXT: &str = "(null)";

/// The effect of [`bind`] and [`unbind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The controller has another driver now.
    Done,
    /// The controller had that driver before.
    Unchanged,
}

/// Checks that [`bind`] may take a controller.
///
/// # Errors
/// [`BindingError::Refused`] with all obstacles that binding does not end, and the errors of reading.
pub fn check_bind(system: &System, address: PciAddress) -> Result<NvmeController, BindingError> {
    let controller = Inventory::controller(system, address)?;
    if controller.driver.as_deref() == Some(VFIO_DRIVER) {
        return Ok(controller);
    }
    let obstacles = controller.obstacles.iter();
    let lasting: Vec<_> = obstacles
        .filter(|obstacle| !obstacle.ends_with_bind())
        .cloned()
        .collect();
    if !lasting.is_empty() {
        return Err(refused(address, lasting));
    }
    check_writable(system, address)?;
    Ok(controller)
}

/// Gives a controller to vfio-pci. The namespaces' block devices vanish.
///
/// # Errors
/// Those of [`check_bind`]. If a step fails, the old state is put back: [`BindingError::Restored`], or
/// [`BindingError::NotRestored`].
pub fn bind(system: &System, address: PciAddress) -> Result<Change, BindingError> {
    let controller = check_bind(system, address)?;
    if controller.driver.as_deref() == Some(VFIO_DRIVER) {
        return Ok(Change::Unchanged);
    }
    // Held until vfio-pci has the controller: no mount can begin.
    let _claims = claim_namespaces(system, &controller)?;
    let rebinding = Rebinding::begin(system, &controller)?;
    rebinding.run(|| {
        rebinding.set_override(VFIO_DRIVER)?;
        rebinding.release()?;
        rebinding.probe()?;
        match rebinding.driver()?.as_deref() {
            Some(VFIO_DRIVER) => Ok(()),
            _ => Err(format!(
                "{VFIO_DRIVER} did not take it; the kernel's log (dmesg) says why"
            )),
        }
    })
}

/// Checks that [`unbind`] may give a controller back.
///
/// # Errors
/// [`BindingError::Refused`] if a process uses the controller, or if its driver is neither vfio-pci nor the kernel's,
/// and the errors of reading.
pub fn check_unbind(system: &System, address: PciAddress) -> Result<NvmeController, BindingError> {
    let controller = Inventory::controller(system, address)?;
    let obstacle = match controller.driver.as_deref() {
        Some(KERNEL_DRIVER) => return Ok(controller),
        None => None,
        // The kernel would wait, without a bound, until the process closes the group.
        Some(VFIO_DRIVER) => controller.group_obstacle(system),
        Some(driver) => Some(Obstacle::Bound {
            address,
            driver: driver.to_owned(),
        }),
    };
    if let Some(obstacle) = obstacle {
        return Err(refused(address, vec![obstacle]));
    }
    check_writable(system, address)?;
    Ok(controller)
}

/// Gives a controller back to the kernel's driver. The namespaces' block devices appear again.
///
/// # Errors
/// Those of [`check_unbind`], and those of [`bind`]'s steps.
pub fn unbind(system: &System, address: PciAddress) -> Result<Change, BindingError> {
    let controller = check_unbind(system, address)?;
    if controller.driver.as_deref() == Some(KERNEL_DRIVER) {
        return Ok(Change::Unchanged);
    }
    let rebinding = Rebinding::begin(system, &controller)?;
    rebinding.run(|| {
        rebinding.set_override(NO_OVERRIDE)?;
        rebinding.release()?;
        rebinding.probe()?;
        match rebinding.driver()?.as_deref() {
            Some(VFIO_DRIVER) => Err(format!(
                "{VFIO_DRIVER} took it again; look for its number in {VFIO_DRIVER}'s option ids"
            )),
            Some(_) => Ok(()),
            None => Err(format!("no driver took it; modprobe {KERNEL_DRIVER} first")),
        }
    })
}

fn refused(address: PciAddress, obstacles: Vec<Obstacle>) -> BindingError {
    BindingError::Refused { address, obstacles }
}

fn check_writable(system: &System, address: PciAddress) -> Result<(), BindingError> {
    let path = system.pci_device(address).join("driver_override");
    let writable = system.kernel().check_writable(&path);
    writable.map_err(|source| BindingError::NotWritable { address, path, source })
}

/// Claims all namespaces, each until its file is dropped.
fn claim_namespaces(system: &System, controller: &NvmeController) -> Result<Vec<File>, BindingError> {
    let claim = |disk: &str| system.claim(&system.dev(disk));
    let namespaces = controller.namespaces.iter();
    let claims: Result<Vec<File>, (&str, ClaimFailure)> = namespaces
        .map(|namespace| claim(&namespace.name).map_err(|reason| (namespace.name.as_str(), reason)))
        .collect();
    claims.map_err(|(disk, reason)| refused(controller.address, vec![Obstacle::claim(disk, reason)]))
}

/// A change under way, with the state before it.
struct Rebinding<'a> {
    system: &'a System,
    address: PciAddress,
    old_driver: Option<String>,
    old_override: Option<String>,
}

/// A failed step, in words.
type StepResult<T> = Result<T, String>;

impl<'a> Rebinding<'a> {
    fn begin(system: &'a System, controller: &NvmeController) -> Result<Self, BindingError> {
        let address = controller.address;
        let old_override = text(&system.pci_device(address).join("driver_override"))?;
        Ok(Self {
            system,
            address,
            old_driver: controller.driver.clone(),
            old_override: old_override.filter(|text| text != NULL_TEXT),
        })
    }

    /// Runs the steps. If one fails, the old state is put back.
    fn run(&self, steps: impl Fn() -> StepResult<()>) -> Result<Change, BindingError> {
        let Err(reason) = steps() else {
            return Ok(Change::Done);
        };
        let address = self.address;
        match self.restore() {
            Ok(()) => Err(BindingError::Restored { address, reason }),
            Err(restoring) => Err(BindingError::NotRestored {
                address,
                driver: self.driver().ok().flatten().unwrap_or_else(|| "no driver".to_owned()),
                reason,
                restoring,
            }),
        }
    }

    fn restore(&self) -> StepResult<()> {
        self.set_override(self.old_override.as_deref().unwrap_or(NO_OVERRIDE))?;
        if self.driver()? == self.old_driver {
            return Ok(());
        }
        self.release()?;
        if self.old_driver.is_some() {
            self.probe()?;
        }
        match self.driver()? == self.old_driver {
            true => Ok(()),
            false => Err("the old driver did not take it; the kernel's log (dmesg) says why".to_owned()),
        }
    }

    fn driver(&self) -> StepResult<Option<String>> {
        link_name(&self.system.pci_device(self.address).join("driver")).map_err(|error| error.to_string())
    }

    fn set_override(&self, driver: &str) -> StepResult<()> {
        self.write(&format!("bus/pci/devices/{}/driver_override", self.address), driver)
    }

    /// Takes the function from its driver, if it has one.
    fn release(&self) -> StepResult<()> {
        let Some(driver) = self.driver()? else {
            return Ok(());
        };
        self.write(&format!("bus/pci/drivers/{driver}/unbind"), &self.address.to_string())
    }

    fn probe(&self) -> StepResult<()> {
        self.write("bus/pci/drivers_probe", &self.address.to_string())
    }

    fn write(&self, path: &str, text: &str) -> StepResult<()> {
        let path = self.system.sys(path);
        let written = self.system.kernel().write_attribute(&path, text);
        written.map_err(|error| format!("cannot write {}: {error}", path.display()))
    }
}
