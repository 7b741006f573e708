//! `MachineReport`: this machine's driver, GPUs, compiler and links, and how to get what is missing. Measures nothing.

use std::fmt;
use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::device::Device;
use crate::device_facts::DeviceFacts;
use crate::driver::{driver_version, probe};
use crate::error::CudaError;
use crate::nvcomp::Nvcomp;
use crate::nvrtc::compiler_version;

/// The PCIe link as the operating system sees it.
#[derive(Debug, Clone, Serialize)]
pub struct Link {
    /// For example `32.0 GT/s PCIe`; GPUs lower it while idle.
    pub speed: String,
    /// Number of lanes.
    pub width: String,
}

/// An installed nvCOMP.
#[derive(Debug, Clone, Serialize)]
pub struct InstalledNvcomp {
    /// Its version, for example `5.3.0`.
    pub version: String,
    /// Its file.
    pub file: String,
}

/// The facts of one machine.
#[derive(Debug, Serialize)]
pub struct MachineReport {
    /// CUDA version of the driver.
    pub driver: Option<(u32, u32)>,
    /// Version of NVRTC.
    pub compiler: Option<(u32, u32)>,
    /// NVIDIA's decompressors. Queries run without them too.
    pub nvcomp: Option<InstalledNvcomp>,
    /// The reason why `nvcomp` is `None`, and how to get it.
    pub no_nvcomp: Option<String>,
    /// The GPUs.
    pub devices: Vec<DeviceFacts>,
    /// The GPUs' PCIe links, as far as the operating system reports them.
    pub links: Vec<Option<Link>>,
    /// Missing parts, and how to get them.
    pub missing: Vec<String>,
}

impl MachineReport {
    /// Gathers the facts. A missing part is an answer, not an error.
    pub fn gather() -> Self {
        let mut report = Self {
            driver: None,
            compiler: None,
            nvcomp: None,
            no_nvcomp: None,
            devices: Vec::new(),
            links: Vec::new(),
            missing: Vec::new(),
        };
        match driver_version() {
            Ok(version) => report.driver = Some(version),
            Err(e) => report.missing.push(e.to_string()),
        }
        match compiler_version() {
            Ok(version) => report.compiler = Some(version),
            Err(e) => report.missing.push(e.to_string()),
        }
        match Nvcomp::load(None) {
            Ok(library) => {
                report.nvcomp = Some(InstalledNvcomp {
                    version: library.version_text(),
                    file: library.file().display().to_string(),
                });
            }
            Err(e) => report.no_nvcomp = Some(e.to_string()),
        }
        for ordinal in 0..probe().unwrap_or(0) {
            match Device::open(ordinal).and_then(|d| d.facts()) {
                Ok(facts) => report.add(facts),
                Err(e) => report.missing.push(format!("GPU {ordinal}: {e}")),
            }
        }
        report
    }

    fn add(&mut self, facts: DeviceFacts) {
        self.links.push(link_of(&facts.pci));
        self.devices.push(facts);
    }

    /// Whether queries can run on a GPU here.
    ///
    /// # Errors
    /// The missing part, in words.
    pub fn usable(&self) -> Result<(), CudaError> {
        if !self.missing.is_empty() || self.devices.is_empty() {
            return Err(CudaError::NoDriver(self.missing.join("; ")));
        }
        Ok(())
    }
}

fn link_of(pci: &str) -> Option<Link> {
    let folder = Path::new("/sys/bus/pci/devices").join(pci.to_ascii_lowercase());
    let read = |name: &str| {
        fs::read_to_string(folder.join(name))
            .ok()
            .map(|text| text.trim().to_owned())
    };
    Some(Link {
        speed: read("current_link_speed")?,
        width: read("current_link_width")?,
    })
}

impl fmt::Display for MachineReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = |v: Option<(u32, u32)>| v.map_or("none".to_owned(), |(major, minor)| format!("{major}.{minor}"));
        writeln!(f, "NVIDIA driver  CUDA {}", version(self.driver))?;
        writeln!(f, "NVRTC          {}", version(self.compiler))?;
        match &self.nvcomp {
            Some(nvcomp) => writeln!(f, "nvCOMP         {}, {}", nvcomp.version, nvcomp.file)?,
            None => writeln!(f, "nvCOMP         none")?,
        }
        for (number, (device, link)) in self.devices.iter().zip(&self.links).enumerate() {
            writeln!(
                f,
                "GPU {number:<10} {}, compute {}.{}, {} multiprocessors, {:.1} GiB ({:.1} free), L2 {} MiB, PCI {}",
                device.name,
                device.compute.0,
                device.compute.1,
                device.multiprocessors,
                device.memory_bytes as f64 / (1u64 << 30) as f64,
                device.free_bytes as f64 / (1u64 << 30) as f64,
                device.l2_bytes >> 20,
                device.pci
            )?;
            writeln!(f, "UUID           GPU-{}", device.uuid)?;
            match link {
                Some(link) => writeln!(f, "PCIe           {} x{}", link.speed, link.width)?,
                None => writeln!(f, "PCIe           the operating system does not tell")?,
            }
        }
        for missing in &self.missing {
            writeln!(f, "missing        {missing}")?;
        }
        if let Some(reason) = &self.no_nvcomp {
            writeln!(f, "optional       {reason}")?;
        }
        if self.devices.is_empty() {
            writeln!(f, "Queries run on the CPU.")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_report_without_gpu_names_the_remedy() {
        let report = MachineReport::gather();
        let text = report.to_string();
        if report.devices.is_empty() {
            assert!(text.contains("missing"), "{text}");
            assert!(text.contains("Queries run on the CPU"), "{text}");
            assert!(report.usable().is_err());
        }
        assert_eq!(report.nvcomp.is_some(), report.no_nvcomp.is_none(), "{text}");
        assert!(
            report.nvcomp.is_some() || text.contains("nvCOMP         none") && text.contains("nvidia-libnvcomp"),
            "{text}"
        );
        println!("{text}");
    }
}
