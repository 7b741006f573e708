//! [`CArray`]: an array in the C data interface.

use std::ffi::c_void;
use std::ptr;

/// `struct ArrowArray` of the C data interface.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct CArray {
    pub(super) length: i64,
    pub(super) null_count: i64,
    pub(super) offset: i64,
    pub(super) n_buffers: i64,
    pub(super) n_children: i64,
    pub(super) buffers: *mut *const c_void,
    pub(super) children: *mut *mut CArray,
    pub(super) dictionary: *mut CArray,
    pub(super) release: Option<unsafe extern "C" fn(*mut CArray)>,
    pub(super) private_data: *mut c_void,
}

// SAFETY: the struct owns what it points at, the buffers are never written to, and any thread may release it.
unsafe impl Send for CArray {}
// SAFETY: as for `Send`; shared access only reads.
unsafe impl Sync for CArray {}

impl CArray {
    /// A struct without content; in a stream, the end.
    pub(crate) fn empty() -> Self {
        Self {
            length: 0,
            null_count: 0,
            offset: 0,
            n_buffers: 0,
            n_children: 0,
            buffers: ptr::null_mut(),
            children: ptr::null_mut(),
            dictionary: ptr::null_mut(),
            release: None,
            private_data: ptr::null_mut(),
        }
    }

    /// Whether the struct has no content.
    pub(crate) fn is_released(&self) -> bool {
        self.release.is_none()
    }
}

impl Drop for CArray {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: a struct with `release` has not been released.
            unsafe { release(self) }
        }
    }
}
