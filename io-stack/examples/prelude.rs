//! Prints the device headers as one translation unit, as NVRTC sees them: for looking at, and for nvcc.
fn main() {
    print!("{}", grampus_io_stack::device_headers::prelude());
}
