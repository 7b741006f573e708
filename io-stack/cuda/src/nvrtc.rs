//! NVRTC: CUDA C++ text to machine code, with the registers of each kernel.

use std::ffi::{CStr, CString, c_char};

use cudarc::nvrtc::sys;

use crate::compiled::{Compiled, KernelUse};
use crate::error::CudaError;

const NVRTC: &str = "NVRTC";

/// The version of NVRTC.
///
/// # Errors
/// [`CudaError::NoCompiler`].
pub fn compiler_version() -> Result<(u32, u32), CudaError> {
    // SAFETY: only looks for the library.
    if !unsafe { sys::is_culib_present() } {
        return Err(CudaError::NoCompiler);
    }
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the library is there; both are writable.
    refuse("nvrtcVersion", unsafe { sys::nvrtcVersion(&mut major, &mut minor) })?;
    Ok((major as u32, minor as u32))
}

fn refuse(call: &'static str, answer: sys::nvrtcResult) -> Result<(), CudaError> {
    if answer == sys::nvrtcResult::NVRTC_SUCCESS {
        return Ok(());
    }
    Err(CudaError::Compile {
        compiler: NVRTC,
        call,
        log: format!("{answer:?}"),
    })
}

struct Program(sys::nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: made in `compile`, destroyed once.
        let _ = unsafe { sys::nvrtcDestroyProgram(&mut self.0) };
    }
}

impl Program {
    fn log(&self) -> String {
        let mut len = 0;
        // SAFETY: our program.
        if unsafe { sys::nvrtcGetProgramLogSize(self.0, &mut len) } != sys::nvrtcResult::NVRTC_SUCCESS || len == 0 {
            return String::new();
        }
        let mut bytes = vec![0u8; len];
        // SAFETY: the buffer is as long as NVRTC said.
        let _ = unsafe { sys::nvrtcGetProgramLog(self.0, bytes.as_mut_ptr().cast()) };
        String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned()
    }
}

/// Compiles one translation unit for a compute capability.
///
/// # Errors
/// [`CudaError::NoCompiler`], or [`CudaError::Compile`] with the compiler's words.
pub fn compile(text: &str, name: &str, compute: (u32, u32)) -> Result<Compiled, CudaError> {
    compile_unit(text, name, compute, &[])
}

/// Compiles a unit whose kernels call functions of other units. The code cannot be loaded by itself: it is
/// [linked](crate::link()) with theirs.
///
/// # Errors
/// As [`compile`].
pub fn compile_kernels(text: &str, name: &str, compute: (u32, u32)) -> Result<Compiled, CudaError> {
    compile_unit(text, name, compute, &RELOCATABLE)
}

/// Option for units to be linked.
const RELOCATABLE: [&CStr; 1] = [c"--relocatable-device-code=true"];
/// Functions that are called by address, or from another unit, must not take more registers than kernels have. Kernels
/// have 64: they are bound to four blocks of 256 threads on a multiprocessor.
const BOUND: &CStr = c"--maxrregcount=64";

/// Leaves out text that the compiler puts before a unit and that these units do not use: the same machine code, some 8
/// ms earlier.
const MINIMAL: &CStr = c"--minimal";
/// The first version with which the option was tested.
const SINCE_MINIMAL: (u32, u32) = (13, 0);

fn compile_unit(text: &str, name: &str, compute: (u32, u32), more: &[&CStr]) -> Result<Compiled, CudaError> {
    let version = compiler_version()?;
    let bad = |what: &str| CudaError::Compile {
        compiler: NVRTC,
        call: "nvrtcCreateProgram",
        log: format!("{what} holds a zero byte"),
    };
    let text = CString::new(text).map_err(|_| bad("the text"))?;
    let name = CString::new(name).map_err(|_| bad("the name"))?;
    let mut raw = std::ptr::null_mut();
    // SAFETY: zero-terminated strings; no headers.
    refuse("nvrtcCreateProgram", unsafe {
        sys::nvrtcCreateProgram(
            &mut raw,
            text.as_ptr(),
            name.as_ptr(),
            0,
            std::ptr::null(),
            std::ptr::null(),
        )
    })?;
    let program = Program(raw);
    let arch = CString::new(format!("--gpu-architecture=sm_{}{}", compute.0, compute.1)).unwrap_or_default();
    // No fused multiply-add: queries give the CPU plan's answers, bit by bit if the order of additions is the same.
    let options = [
        arch.as_c_str(),
        c"--std=c++17",
        c"--device-int128",
        c"--fmad=false",
        c"--ptxas-options=-v",
        BOUND,
    ];
    let minimal = (version >= SINCE_MINIMAL).then_some(&MINIMAL);
    let options = options.iter().chain(more).chain(minimal);
    let options: Vec<*const c_char> = options.map(|o| o.as_ptr()).collect();
    // SAFETY: our program; as many zero-terminated options as the call says.
    let answer = unsafe { sys::nvrtcCompileProgram(program.0, options.len() as i32, options.as_ptr()) };
    let log = program.log();
    if answer != sys::nvrtcResult::NVRTC_SUCCESS {
        let call = "nvrtcCompileProgram";
        return Err(CudaError::Compile {
            compiler: NVRTC,
            call,
            log,
        });
    }
    let mut len = 0;
    // SAFETY: our program, compiled.
    refuse("nvrtcGetCUBINSize", unsafe {
        sys::nvrtcGetCUBINSize(program.0, &mut len)
    })?;
    let mut cubin = vec![0u8; len];
    // SAFETY: the buffer is as long as NVRTC said.
    refuse("nvrtcGetCUBIN", unsafe {
        sys::nvrtcGetCUBIN(program.0, cubin.as_mut_ptr().cast())
    })?;
    let kernels = kernel_use(&log);
    Ok(Compiled { cubin, kernels })
}

/// Reads "Compiling entry function 'NAME' …" and "Used N registers" from ptxas's output.
fn kernel_use(log: &str) -> Vec<KernelUse> {
    let mut kernels: Vec<KernelUse> = Vec::new();
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let name = rest.split('\'').next().unwrap_or_default().to_owned();
            kernels.push(KernelUse { name, registers: 0 });
        } else if let (Some((_, rest)), Some(kernel)) = (line.split_once("Used "), kernels.last_mut())
            && kernel.registers == 0
        {
            kernel.registers = rest.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
        }
    }
    kernels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_read_from_ptxas_output() {
        let log = "ptxas info : Compiling entry function 'a' for 'sm_90'\n\
                   ptxas info : Used 40 registers, 400 bytes cmem[0]\n\
                   ptxas info : Compiling entry function 'b' for 'sm_90'\nptxas info : Used 64 registers\n";
        let read: Vec<_> = kernel_use(log).into_iter().map(|k| (k.name, k.registers)).collect();
        assert_eq!(read, [("a".to_owned(), 40), ("b".to_owned(), 64)]);
    }

    #[test]
    fn missing_compiler_error_says_how_to_get_it() {
        if let Err(e) = compiler_version() {
            assert!(e.to_string().contains("nvidia-cuda-nvrtc"), "{e}");
        }
    }
}
