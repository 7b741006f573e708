//! The CUDA driver: its presence, its version, its number of GPUs.

use cudarc::driver::sys;

use crate::call::check;
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
pub(crate) fn uuid_of(ordinal: u32) -> Result<[u8; 16], CudaError> {
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
/// [`CudaError::NoGpu`]: this process sees no such GPU.
pub(crate) fn ordinal_of(uuid: [u8; 16]) -> Result<u32, CudaError> {
    let count = probe()?;
    for ordinal in 0..count {
        if uuid_of(ordinal)? == uuid {
            return Ok(ordinal);
        }
    }
    Err(no_gpu(&format!("with the UUID {}", shown(uuid)), count))
}

/// The error about a GPU that is not there. It lists those that are.
pub(crate) fn no_gpu(asked: &str, count: u32) -> CudaError {
    let known = |ordinal| {
        let name = name_of(ordinal).unwrap_or_else(|e| e.to_string());
        let uuid = uuid_of(ordinal).map_or_else(|e| e.to_string(), |uuid| format!("GPU-{}", shown(uuid)));
        (name, uuid)
    };
    CudaError::NoGpu {
        asked: asked.to_owned(),
        present: listed(&(0..count).map(known).collect::<Vec<_>>()),
    }
}

/// Names and UUIDs of the GPUs, by number. Instances of a divided GPU (MIG) are shown to a process that names them.
fn listed(gpus: &[(String, String)]) -> String {
    let gpus = gpus.iter().enumerate();
    let gpus: Vec<String> = gpus
        .map(|(at, (name, uuid))| format!("{at} ({name}, {uuid})"))
        .collect();
    let mig = "an instance of a divided GPU (MIG) is there if CUDA_VISIBLE_DEVICES names it";
    format!("there are: {}; {mig}", gpus.join(", "))
}

/// The name of a GPU.
///
/// # Errors
/// As [`probe`].
pub(crate) fn name_of(ordinal: u32) -> Result<String, CudaError> {
    let mut device = 0;
    // SAFETY: the driver is initialised; `device` is writable.
    check("cuDeviceGet", unsafe { sys::cuDeviceGet(&mut device, ordinal as i32) })?;
    let mut name = [0u8; 256];
    // SAFETY: a valid device; the buffer is as long as the call is told.
    check("cuDeviceGetName", unsafe {
        sys::cuDeviceGetName(name.as_mut_ptr().cast(), name.len() as i32, device)
    })?;
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// A UUID as `nvidia-smi -L` prints it, without the prefix.
pub(crate) fn shown(uuid: [u8; 16]) -> String {
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

    #[test]
    fn an_error_about_a_gpu_lists_those_that_there_are() {
        let gpus = ["GPU-1", "GPU-2"].map(|uuid| ("NVIDIA H200".to_owned(), uuid.to_owned()));
        let error = CudaError::NoGpu {
            asked: "7".to_owned(),
            present: listed(&gpus),
        };
        assert_eq!(
            error.to_string(),
            "there is no GPU 7; there are: 0 (NVIDIA H200, GPU-1), 1 (NVIDIA H200, GPU-2); an instance of a divided \
             GPU (MIG) is there if CUDA_VISIBLE_DEVICES names it; set grampus.gpu to one of them"
        );
    }
}
