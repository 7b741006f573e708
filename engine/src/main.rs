//! The `grampus` command. Everything a person types or reads is in `cli`; everything that reads ORC is in
//! the library of the same name.

mod cli;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cli::main()
}
