//! `compile_for`: device code to machine code, by the compiler of the device.

use super::compiled::Compiled;
use super::device::Device;
use super::host_compiler::compile_host;
use super::nvrtc::compile;
use crate::error::CudaError;

/// Compiles one translation unit for a device: by NVRTC, or by the host's C++ compiler if the device is host threads.
///
/// # Errors
/// As [`compile`] and [`compile_host`].
pub fn compile_for(device: &Device, text: &str, name: &str) -> Result<Compiled, CudaError> {
    if device.is_host() {
        return compile_host(&device.host_lanes().unit(text), name);
    }
    compile(text, name, device.compute())
}
