//! The host's C++ compiler: CUDA C++ text to a shared library, so that a kernel's text runs on threads.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, OnceLock};

use libloading::Library;

use crate::compiled::Compiled;
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

/// Flags of each unit.
const FLAGS: [&str; 6] = [
    "-std=c++17",
    "-O1",
    "-fPIC",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-w",
];
/// Before each unit: the compiler's headers stand outside every namespace of the text.
const BEFORE: &str = "#include <sched.h>\n#include <string.h>\n#include <time.h>\n";
/// The definition of `GRAMPUS_ENTRY` (target_host.cuh), and the one in units that others are linked with. A compiler
/// leaves out inline functions without a caller in their unit.
const ENTRIES: [&str; 2] = [
    "#define GRAMPUS_ENTRY inline\n",
    "#define GRAMPUS_ENTRY __attribute__((used)) inline\n",
];

/// All that machine code for host threads depends on beside its unit's text: compiler, flags, and added text.
///
/// # Errors
/// [`CudaError::NoHostCompiler`].
pub fn host_environment() -> Result<String, CudaError> {
    let (name, version) = host_compiler()?;
    Ok(format!("{name} {version} {FLAGS:?} {BEFORE}{ENTRIES:?}{SUPPORT}"))
}

/// Compiles one translation unit into a shared library, from the text that NVRTC would get. [`Compiled::cubin`] holds
/// the library's bytes.
///
/// # Errors
/// [`CudaError::NoHostCompiler`], or [`CudaError::Compile`] with the compiler's words.
pub fn compile_host(text: &str, name: &str) -> Result<Compiled, CudaError> {
    let cubin = compile_unit(&format!("{BEFORE}{text}{}", support()), name, &["-shared"], None)?;
    Ok(Compiled {
        cubin,
        kernels: Vec::new(),
    })
}

/// Compiles a unit that other units are linked with, by [`compile_host_with`]: all its entries, and time, pauses and
/// warp numbers.
///
/// # Errors
/// As [`compile_host`].
pub fn compile_host_unit(text: &str, name: &str) -> Result<Vec<u8>, CudaError> {
    let text = text.replace(ENTRIES[0], ENTRIES[1]);
    compile_unit(&format!("{BEFORE}{text}{}", support()), name, &["-c"], None)
}

/// As [`compile_host`], linked with a unit that [`compile_host_unit`] has compiled.
///
/// # Errors
/// As [`compile_host`]. Also: a function that neither unit has.
pub fn compile_host_with(text: &str, name: &str, unit: &[u8]) -> Result<Compiled, CudaError> {
    let text = format!("{BEFORE}{text}");
    let cubin = compile_unit(&text, name, &["-shared", "-Wl,-z,defs"], Some(unit))?;
    Ok(Compiled {
        cubin,
        kernels: Vec::new(),
    })
}

fn support() -> String {
    format!("\n#line 1 \"host_support.cc\"\n{SUPPORT}")
}

/// Runs the compiler; returns the bytes that it wrote. `unit`: an object to link with.
fn compile_unit(text: &str, name: &str, flags: &[&str], unit: Option<&[u8]>) -> Result<Vec<u8>, CudaError> {
    let (compiler, _) = host_compiler()?;
    let failed = |log: String| CudaError::Compile {
        compiler: "the host's C++ compiler",
        call: "",
        log,
    };
    let folder = tempfile::tempdir().map_err(|e| failed(e.to_string()))?;
    let source = folder.path().join(format!("{name}.cc"));
    let (object, output) = (folder.path().join("unit.o"), folder.path().join("output"));
    std::fs::write(&source, text).map_err(|e| failed(e.to_string()))?;
    let mut command = Command::new(&compiler);
    command.args(FLAGS).args(flags).arg("-o").arg(&output).arg(&source);
    if let Some(unit) = unit {
        std::fs::write(&object, unit).map_err(|e| failed(e.to_string()))?;
        command.arg(&object);
    }
    let out = command.output().map_err(|e| failed(e.to_string()))?;
    let log = String::from_utf8_lossy(&out.stderr).into_owned();
    if !out.status.success() {
        return Err(failed(log));
    }
    std::fs::read(&output).map_err(|e| failed(e.to_string()))
}

/// Loads a library from its bytes.
pub(crate) fn load(bytes: &[u8]) -> Result<Arc<Library>, CudaError> {
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
