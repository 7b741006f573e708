//! `compile_for`: device code to machine code, by the compiler of the device.

use crate::compiled::Compiled;
use crate::device::Device;
use crate::error::CudaError;
use crate::host_compiler::compile_host;
use crate::nvrtc::compile;

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
