//! Prints the device headers as one translation unit, as NVRTC gets them: for reading, and for nvcc.
fn main() {
    print!("{}", grampus_io_stack::device_headers::prelude());
}
