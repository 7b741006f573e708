//! The kernel cache: a kernel is compiled once, kept in memory and in a folder, and damaged files of the folder are not
//! loaded.
//!
//! The tests are skipped, with a message, without a C++ compiler.

mod common;

use std::path::PathBuf;

use common::{paged_shape, shape, taxi};
use grampus_cuda::{Device, Module, compile_for, host_compiler};
use grampus_gpu_exec::codegen::{Access, ENTRY, Grouping, QueryKernel};
use grampus_gpu_exec::kernel_cache::{KernelCache, Origin};

fn kernel(dependents: usize) -> QueryKernel {
    let program = taxi(dependents);
    QueryKernel::generate(&program, &shape(&program, Access::Plain, true, Grouping::Ungrouped)).expect("valid")
}

#[test]
fn each_kernel_is_compiled_once() {
    if let Err(e) = host_compiler() {
        grampus_test_support::missing(grampus_test_support::Resource::Compiler, e);
        return;
    }
    let device = Device::host(1, 1 << 20);
    let folder = tempfile::tempdir().expect("a folder");
    let modules = || KernelCache::new(&device, Some(folder.path().join("kernels"))).expect("there is a compiler");
    let origin = |modules: &KernelCache, dependents| {
        let loaded = modules.get(&kernel(dependents)).expect("compiles");
        assert!(loaded.module.kernel(ENTRY).is_ok());
        loaded.origin
    };
    let first = modules();
    assert_eq!(origin(&first, 1), Origin::Compiler);
    assert_eq!(origin(&first, 1), Origin::Memory);
    assert_eq!(origin(&first, 2), Origin::Compiler, "another text");
    let next_session = modules();
    assert_eq!(origin(&next_session, 1), Origin::Folder);
    assert_eq!(origin(&next_session, 1), Origin::Memory);

    let files: Vec<PathBuf> = std::fs::read_dir(folder.path().join("kernels"))
        .expect("the folder was made")
        .map(|entry| entry.expect("readable").path())
        .collect();
    assert_eq!(
        files.len(),
        3,
        "nothing but two kernels and the slow path is left behind: {files:?}"
    );
    for file in &files {
        let mut bytes = std::fs::read(file).expect("readable");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x40;
        std::fs::write(file, bytes).expect("writable");
    }
    let damaged = modules();
    assert_eq!(origin(&damaged, 1), Origin::Compiler, "a damaged file is not loaded");
    assert_eq!(origin(&modules(), 1), Origin::Folder, "and was written anew");
}

#[test]
fn unwritable_folder_is_ignored() {
    if let Err(e) = host_compiler() {
        grampus_test_support::missing(grampus_test_support::Resource::Compiler, e);
        return;
    }
    let device = Device::host(1, 1 << 20);
    let file = tempfile::NamedTempFile::new().expect("a file");
    let modules = KernelCache::new(&device, Some(file.path().to_owned())).expect("there is a compiler");
    let loaded = modules.get(&kernel(1)).expect("compiles all the same");
    assert_eq!(loaded.origin, Origin::Compiler);
}

/// Kernels that cannot be linked with the slow path are compiled whole.
#[test]
fn kernels_compile_whole() {
    if let Err(e) = host_compiler() {
        grampus_test_support::missing(grampus_test_support::Resource::Compiler, e);
        return;
    }
    let device = Device::host(1, 1 << 20);
    for access in [Access::Plain, Access::Queued, Access::Paged] {
        let program = taxi(2);
        let shape = match access {
            Access::Paged => paged_shape(&program, true, Grouping::Ungrouped),
            _ => shape(&program, access, false, Grouping::Ungrouped),
        };
        let kernel = QueryKernel::generate(&program, &shape).expect("valid");
        let whole = compile_for(&device, &kernel.translation_unit(), ENTRY).unwrap_or_else(|e| panic!("{e}"));
        let module = Module::load(&device, &whole.cubin).expect("loads");
        assert!(module.kernel(ENTRY).is_ok());
    }
}
