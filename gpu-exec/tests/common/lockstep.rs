//! Kernels for warps of 32 lanes in lockstep on host threads, and the folder that tests keep machine code in.

use std::path::PathBuf;
use std::sync::Arc;

use grampus_cuda::{self as cuda, Device, Module};
use grampus_gpu_exec::code_folder::CodeFolder;
use grampus_gpu_exec::codegen::{ENTRY, GPU_LANES, QueryKernel, slow_path};

const BEGIN: &str = include_str!("../../../io-stack/cuda/src/lanes.h");
const END: &str = include_str!("../../../io-stack/cuda/src/lanes_end.h");

/// The folder that all tests share, so that each text is compiled once.
pub(crate) fn kernel_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("kernels")
}

fn code(device: &Device) -> CodeFolder {
    CodeFolder::new(device, Some(kernel_folder())).expect("there is a compiler")
}

fn load(device: &Device, code: &[u8]) -> Arc<Module> {
    Arc::new(Module::load(device, code).expect("loads"))
}

/// The module of a complete source.
pub(crate) fn module(device: &Device, text: &str, name: &str) -> Arc<Module> {
    let text = format!("{BEGIN}{text}{END}");
    let compile = || Ok(cuda::compile_for(device, &text, name)?.cubin);
    load(
        device,
        &code(device)
            .get_or_compile(&[&text], compile)
            .unwrap_or_else(|e| panic!("{e}")),
    )
}

/// The module of a query's kernel, linked with the slow path as in kernel_cache.rs.
pub(crate) fn query_module(device: &Device, kernel: &QueryKernel) -> Arc<Module> {
    let folder = code(device);
    let slow_path = format!("{BEGIN}{}{END}", slow_path(kernel.is_queued()));
    // Of lanes.h the kernel's own unit needs only the number of lanes.
    let unit = format!("#define GRAMPUS_HOST_LANES {GPU_LANES}\n{}", kernel.unit_to_link());
    let compile = || {
        let slow_path = folder.get_or_compile(&["unit", &slow_path], || {
            cuda::compile_host_unit(&slow_path, "slow_path")
        })?;
        Ok(cuda::compile_host_with(&unit, ENTRY, &slow_path)?.cubin)
    };
    load(
        device,
        &folder
            .get_or_compile(&["linked", &slow_path, &unit], compile)
            .unwrap_or_else(|e| panic!("{e}")),
    )
}
