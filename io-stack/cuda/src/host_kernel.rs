//! `HostKernel`: a kernel of a shared library, called once for each warp.

use std::sync::Arc;

use libloading::Library;

/// The entry that `GRAMPUS_KERNEL` (target_host.cuh) defines for host threads.
type Entry = unsafe extern "C" fn(*const *const u128, u32, u32);

/// A kernel of a loaded library.
#[derive(Debug, Clone)]
pub(crate) struct HostKernel {
    /// Keeps the code mapped.
    _library: Arc<Library>,
    entry: Entry,
    /// Bytes of its one parameter.
    pub(crate) parameter_bytes: u64,
}

impl HostKernel {
    /// Looks a kernel up; `None`: the library has none of that name.
    pub(crate) fn find(library: &Arc<Library>, name: &str) -> Option<Self> {
        // SAFETY: our own text defines both, with these types (`GRAMPUS_KERNEL`).
        let entry: Entry = *unsafe { library.get::<Entry>(name) }.ok()?;
        let bytes_name = format!("{name}_parameter_bytes");
        // SAFETY: our own text defines the function, with this type (`GRAMPUS_KERNEL`).
        let bytes = unsafe { library.get::<unsafe extern "C" fn() -> u64>(bytes_name) }.ok()?;
        Some(Self {
            _library: library.clone(),
            entry,
            // SAFETY: our own text defines the function, which returns a constant.
            parameter_bytes: unsafe { bytes() },
        })
    }

    pub(crate) fn call(&self, arguments: &[Box<[u128]>], first: u32, step: u32, warps: u32) {
        let pointers: Vec<*const u128> = arguments.iter().map(|a| a.as_ptr()).collect();
        let mut warp = first;
        while warp < warps {
            // SAFETY: the kernel takes one parameter of the size that the launch checked. As on a GPU, the launcher
            // ensures that the addresses in the parameter are valid. Memory that a running launch may use is not freed
            // (`wait_idle`).
            unsafe { (self.entry)(pointers.as_ptr(), warp, warps) };
            warp = match warp.checked_add(step) {
                Some(next) => next,
                None => return,
            };
        }
    }
}
