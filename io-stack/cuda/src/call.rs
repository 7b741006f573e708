//! `check`: the driver's answer to a call as a result.

use cudarc::driver::sys;

use crate::error::{CudaError, OUT_OF_MEMORY};

const _: () = assert!(OUT_OF_MEMORY == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY as u32);

/// Turns the driver's answer into a result.
pub(crate) fn check(call: &'static str, answer: sys::CUresult) -> Result<(), CudaError> {
    if answer == sys::CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let mut text = std::ptr::null();
    // SAFETY: the driver sets `text` to a static string, or leaves it null for a code that it does not know.
    let known = unsafe { sys::cuGetErrorString(answer, &mut text) } == sys::CUresult::CUDA_SUCCESS && !text.is_null();
    let text = if known {
        // SAFETY: a static, zero-terminated string: `known` says so.
        unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned()
    } else {
        "unknown error".to_owned()
    };
    Err(CudaError::Call {
        call,
        code: answer as u32,
        text,
        detail: String::new(),
    })
}
