//! The device headers as text: one flattened translation unit, since NVRTC gets no include path.

use crate::abi;

/// A header of `device/` and its text.
struct Header {
    name: &'static str,
    text: &'static str,
}

macro_rules! headers {
    ($($name:literal),* $(,)?) => { &[$(Header { name: $name, text: include_str!(concat!("../device/", $name)) }),*] };
}

/// In dependency order: each header includes only those before it.
const HEADERS: &[Header] = headers![
    "types.h",
    "nvme.h",
    "status.h",
    "queue.h",
    "cache.h",
    "column.h",
    "io_stack.h",
    "target.h",
    "target_gpu.cuh",
    "target_host.cuh",
    "target.cuh",
    "status.cuh",
    "column_layout.cuh",
    "mapped_array.cuh",
    "copy.cuh",
    "queue.cuh",
    "completion.cuh",
    "serve.cuh",
    "cache.cuh",
    "backing.cuh",
    "write_back.cuh",
    "column_array.cuh",
    "slow_path.cuh",
    "store.cuh",
];

/// The headers for kernels that store to columns.
const WRITING: [&str; 2] = ["write_back.cuh", "store.cuh"];

/// The headers behind this one are for columns with a cache.
const LAST_MAPPED: &str = "mapped_array.cuh";

/// All device headers for kernels that read, in one text, followed by the layout asserts; the caller appends kernels.
/// `#line` keeps the line numbers of compiler messages per header.
pub fn prelude() -> String {
    text_of(|name| !WRITING.contains(&name)) + &asserts()
}

/// [`prelude`] for kernels that also store to columns, by the backing `Writable`.
pub fn writable_prelude() -> String {
    text_of(|_| true) + &asserts()
}

fn asserts() -> String {
    "#line 1 \"grampus/layout_asserts\"\n".to_owned() + &abi::static_asserts()
}

/// The headers without the slow path's bodies, and without what only these bodies call. Kernels behind this text
/// compile in a fifth of the time, as relocatable code, and are linked with [`slow_path`], compiled once. The layout
/// asserts are in the slow path.
pub fn kernel_prelude() -> String {
    text_of(|name| !WRITING.contains(&name) && !matches!(name, "completion.cuh" | "serve.cuh" | "slow_path.cuh"))
}

/// The part of [`kernel_prelude`] for kernels whose columns are all `Mapped`: half the text for the compiler to read.
pub fn mapped_kernel_prelude() -> String {
    let last = HEADERS.iter().position(|header| header.name == LAST_MAPPED);
    let headers = HEADERS[..=last.unwrap_or(HEADERS.len() - 1)].iter();
    flattened(headers.map(|header| (header.name, header.text)))
}

/// Types and the target alone, for kernels that read no columns.
pub fn target_prelude() -> String {
    text_of(|name| name == "types.h" || name.starts_with("target"))
}

/// The slow path as a unit of its own, for the backings with default arguments.
pub fn slow_path() -> String {
    prelude()
        + "#line 1 \"grampus/slow_path.cu\"
" + include_str!("../device/slow_path.cu")
}

fn text_of(wanted: impl Fn(&str) -> bool) -> String {
    let headers = HEADERS.iter().filter(|header| wanted(header.name));
    flattened(headers.map(|header| (header.name, header.text)))
}

/// Headers, by name and text, one after the other and without their includes: each includes only those before it.
pub fn flattened<'a>(headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut out = String::new();
    for (name, text) in headers {
        out.push_str(&format!(
            "#line 1 \"grampus/{name}\"
"
        ));
        for line in text.lines() {
            // Blanked, not dropped: the line numbers stay those of the header.
            if !(line.starts_with("#include \"") || line.starts_with("#pragma once")) {
                out.push_str(line);
            }
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A weak load that races with a store has no meaning in the PTX memory model (docs/PROTOCOL.md, O).
    #[test]
    fn optimistic_loads_are_strong() {
        let target = HEADERS.iter().find(|header| header.name == "target_gpu.cuh");
        let text = target.map_or("", |header| header.text);
        let bodies: Vec<&str> = text.split(" load_line_optimistic").skip(1).collect();
        assert_eq!(bodies.len(), 2);
        for body in bodies {
            let body = body.split("\n}").next().unwrap_or_default();
            assert!(
                body.contains("ld.relaxed.gpu.global") && !body.contains("ld.global"),
                "{body}"
            );
        }
    }

    #[test]
    fn headers_include_only_headers_before_them() {
        for (at, header) in HEADERS.iter().enumerate() {
            for line in header.text.lines() {
                if let Some(name) = line.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"')) {
                    assert!(
                        HEADERS[..at].iter().any(|h| h.name == name),
                        "{} includes {name}",
                        header.name
                    );
                }
            }
        }
    }
}
