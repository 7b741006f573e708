//! The host's C++ compiler: CUDA C++ text to a shared library, so that a kernel's text runs on threads.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, OnceLock};

use libloading::Library;

use super::compiled::Compiled;
use crate::error::CudaError;

const SUPPORT: &str = include_str!("host_support.cc");

/// The first of `CXX`, g++, clang++, c++ that answers, and the first line of its answer.
///
/// # Errors
/// [`CudaError::NoHostCompiler`].
pub fn host_compiler() -> Result<(String, String), CudaError> {
    static FOUND: OnceLock<Option<(String, String)>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let named = std::env::var("CXX").ok().filter(|name| !name.is_empty());
        let candidates = named.into_iter().chain(["g++", "clang++", "c++"].map(String::from));
        let answers = |name: String| {
            let out = Command::new(&name).arg("--version").output().ok()?;
            let said = String::from_utf8_lossy(&out.stdout)
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned();
            out.status.success().then_some((name, said))
        };
        candidates.into_iter().find_map(answers)
    });
    found.clone().ok_or(CudaError::NoHostCompiler)
}

/// Compiles one translation unit into a shared library, from the text that NVRTC would get. [`Compiled::cubin`] holds
/// the library's bytes.
///
/// # Errors
/// [`CudaError::NoHostCompiler`], or [`CudaError::Compile`] with the compiler's words.
pub fn compile_host(text: &str, name: &str) -> Result<Compiled, CudaError> {
    let (compiler, _) = host_compiler()?;
    let failed = |log: String| CudaError::Compile {
        compiler: "the host's C++ compiler",
        call: "",
        log,
    };
    let folder = tempfile::tempdir().map_err(|e| failed(e.to_string()))?;
    let source = folder.path().join(format!("{name}.cc"));
    let library = folder.path().join("kernel.so");
    // The compiler's headers come first, outside every namespace of the text.
    let text = format!(
        "#include <sched.h>\n#include <string.h>\n#include <time.h>\n{text}\n#line 1 \"host_support.cc\"\n{SUPPORT}"
    );
    std::fs::write(&source, text).map_err(|e| failed(e.to_string()))?;
    let out = Command::new(&compiler)
        .args([
            "-std=c++17",
            "-O1",
            "-shared",
            "-fPIC",
            "-fvisibility=hidden",
            "-ffp-contract=off",
            "-w",
            "-o",
        ])
        .arg(&library)
        .arg(&source)
        .output()
        .map_err(|e| failed(e.to_string()))?;
    let log = String::from_utf8_lossy(&out.stderr).into_owned();
    if !out.status.success() {
        return Err(failed(log));
    }
    let cubin = std::fs::read(&library).map_err(|e| failed(e.to_string()))?;
    Ok(Compiled {
        cubin,
        kernels: Vec::new(),
    })
}

/// Loads a library from its bytes.
pub(super) fn load(bytes: &[u8]) -> Result<Arc<Library>, CudaError> {
    let failed = |text: String| CudaError::Call {
        call: "dlopen",
        code: 0,
        text,
        detail: String::new(),
    };
    let mut file = tempfile::Builder::new()
        .prefix("grampus-kernel-")
        .suffix(".so")
        .tempfile()
        .map_err(|e| failed(e.to_string()))?;
    file.write_all(bytes)
        .and_then(|()| file.flush())
        .map_err(|e| failed(e.to_string()))?;
    let path: &Path = file.path();
    // SAFETY: compiled from our own text; its only initialisers are those of the compiler's runtime. The file may be
    // removed afterwards: its pages stay mapped.
    let library = unsafe { Library::new(path) }.map_err(|e| failed(e.to_string()))?;
    Ok(Arc::new(library))
}
