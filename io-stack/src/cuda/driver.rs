//! The CUDA driver: its presence, its version, its number of GPUs.

use cudarc::driver::sys;

use super::call::check;
use crate::error::CudaError;

/// Checks that the driver's library is present, without starting the driver, which takes 0.2 s.
///
/// # Errors
/// [`CudaError::NoDriver`], with the way to get it.
pub fn library() -> Result<(), CudaError> {
    // SAFETY: only looks for the library.
    match unsafe { sys::is_culib_present() } {
        true => Ok(()),
        false => {
            let why = "libcuda.so was not found; install NVIDIA's driver, or give the container access to the GPU";
            Err(CudaError::NoDriver(why.to_owned()))
        }
    }
}

/// Starts the driver and counts its GPUs.
///
/// # Errors
/// [`CudaError::NoDriver`], with what is missing.
pub fn probe() -> Result<u32, CudaError> {
    library()?;
    // SAFETY: the library is there.
    check("cuInit", unsafe { sys::cuInit(0) }).map_err(|e| CudaError::NoDriver(e.to_string()))?;
    let mut count = 0;
    // SAFETY: the driver is initialised; `count` is writable.
    check("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&mut count) })?;
    if count <= 0 {
        return Err(CudaError::NoDriver("the driver sees no GPU".to_owned()));
    }
    Ok(count as u32)
}

/// The newest CUDA version that the driver knows, as major and minor.
///
/// # Errors
/// As [`probe`].
pub fn driver_version() -> Result<(u32, u32), CudaError> {
    probe()?;
    let mut version = 0;
    // SAFETY: the library is there; `version` is writable.
    check("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&mut version) })?;
    Ok((version as u32 / 1000, version as u32 % 1000 / 10))
}
