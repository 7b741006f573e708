#![no_main]

libfuzzer_sys::fuzz_target!(
    init: grampus_driver_fuzz::write_seeds("any_controller"),
    |data: &[u8]| grampus_driver_fuzz::any_controller(data)
);

/// Tells LeakSanitizer to stay off. The driver leaves memory to a controller that does not let itself be disabled: the
/// controller may still write there.
// SAFETY: the sanitizer looks for a function of this name and type, and no other part of the program has one.
#[unsafe(no_mangle)]
pub extern "C" fn __lsan_is_turned_off() -> i32 {
    1
}
