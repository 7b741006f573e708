//! Compiles the device code for the host, and for a fuzzer with its sanitizer.

fn main() {
    let source = "src/decompress.cc";
    let includes = ["../device", "../../io-stack/device"];
    for path in includes.iter().chain(&[source]) {
        println!("cargo::rerun-if-changed={path}");
    }
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .std("c++17")
        .includes(includes)
        .warnings(false)
        .file(source);
    if std::env::var_os("CARGO_CFG_FUZZING").is_some() {
        build.flag("-fsanitize=address"); // the fuzzer is linked with its runtime
    }
    build.compile("grampus_decompress");
}
