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

/// The UUID of a GPU, or of the instance of a divided one (MIG).
///
/// # Errors
/// As [`probe`].
pub(super) fn uuid_of(ordinal: u32) -> Result<[u8; 16], CudaError> {
    let (mut device, mut uuid) = (0, sys::CUuuid { bytes: [0; 16] });
    // SAFETY: the driver is initialised; `device` is writable.
    check("cuDeviceGet", unsafe { sys::cuDeviceGet(&mut device, ordinal as i32) })?;
    // SAFETY: a valid device; `uuid` is writable.
    check("cuDeviceGetUuid", unsafe { sys::cuDeviceGetUuid_v2(&mut uuid, device) })?;
    Ok(uuid.bytes.map(|byte| byte as u8))
}

/// The number of the GPU with a UUID.
///
/// # Errors
/// [`CudaError::NoDriver`]: this process sees no such GPU.
pub(super) fn ordinal_of(uuid: [u8; 16]) -> Result<u32, CudaError> {
    let mut others = Vec::new();
    for ordinal in 0..probe()? {
        match uuid_of(ordinal)? {
            found if found == uuid => return Ok(ordinal),
            other => others.push(format!("GPU-{}", shown(other))),
        }
    }
    Err(CudaError::NoDriver(format!(
        "no GPU with the UUID {} among {}; the driver shows an instance of a divided GPU (MIG) if CUDA_VISIBLE_DEVICES \
         names it",
        shown(uuid),
        others.join(", ")
    )))
}

/// A UUID as `nvidia-smi -L` prints it, without the prefix.
pub(super) fn shown(uuid: [u8; 16]) -> String {
    let hex: Vec<String> = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [0..4, 4..6, 6..8, 8..10, 10..16].map(|part| hex[part].concat());
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_shown_in_five_parts() {
        let uuid = std::array::from_fn(|at| at as u8 * 17);
        assert_eq!(shown(uuid), "00112233-4455-6677-8899-aabbccddeeff");
    }
}
