//! The GPU path from SQL to answer, its kernels compiled for host threads: every answer is the CPU's, and every plan says what it does.
//! Without a C++ compiler the tests say "skipped: no C++ compiler".

#[path = "../support/mod.rs"]
mod support;

mod answers;
mod behaviour;
mod compare;
mod random;
