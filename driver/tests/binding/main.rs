//! The list of NVMe controllers and the change of their drivers, on imitated machines.
#![cfg(target_os = "linux")]

mod bind_cases;
mod fake_kernel;
mod inventory_cases;
mod obstacle_cases;
