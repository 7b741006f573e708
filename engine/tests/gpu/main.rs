//! The GPU path from SQL to answer, with kernels compiled for host threads. Each answer must be the CPU's.
//!
//! Without a C++ compiler, the tests print "skipped: no C++ compiler".

#[path = "../support/mod.rs"]
mod support;

mod answers;
mod common;
mod compare;
mod device_setting;
mod gpu_operator;
mod random;
