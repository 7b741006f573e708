//! `Linker`: several units of relocatable machine code to one, by the driver: a query's kernel and the slow path behind
//! it.

use std::ffi::CString;

use cudarc::driver::sys;

use crate::call::check;
use crate::device::Device;
use crate::error::CudaError;

struct Linker(sys::CUlinkState);

impl Drop for Linker {
    fn drop(&mut self) {
        // SAFETY: made in `link`, destroyed once.
        let _ = unsafe { sys::cuLinkDestroy(self.0) };
    }
}

/// Links units, each with a name for messages, to machine code for [`Module::load`](crate::Module::load). Takes
/// milliseconds.
///
/// # Errors
/// A failed call: an undefined symbol, or code for another device.
pub fn link(device: &Device, units: &[(&str, &[u8])]) -> Result<Vec<u8>, CudaError> {
    device.bind()?;
    let mut raw = std::ptr::null_mut();
    // SAFETY: no options; a context is current.
    check("cuLinkCreate", unsafe {
        sys::cuLinkCreate_v2(0, std::ptr::null_mut(), std::ptr::null_mut(), &mut raw)
    })?;
    let linker = Linker(raw);
    for (name, code) in units {
        let c_name = CString::new(*name).unwrap_or_default();
        // SAFETY: the driver copies the code, which is as long as the call says, and the name; no options.
        check("cuLinkAddData", unsafe {
            sys::cuLinkAddData_v2(
                linker.0,
                sys::CUjitInputType_enum::CU_JIT_INPUT_CUBIN,
                code.as_ptr().cast_mut().cast(),
                code.len(),
                c_name.as_ptr(),
                0,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        })
        .map_err(|e| e.about(|| (*name).to_owned()))?;
    }
    let (mut code, mut len) = (std::ptr::null_mut(), 0);
    // SAFETY: our linker, all units added.
    check("cuLinkComplete", unsafe {
        sys::cuLinkComplete(linker.0, &mut code, &mut len)
    })?;
    // SAFETY: the driver's own buffer of that length; the linker is destroyed only after this copy.
    Ok(unsafe { std::slice::from_raw_parts(code.cast::<u8>(), len) }.to_vec())
}
