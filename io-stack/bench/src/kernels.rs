//! The benchmark's kernels as text: `device/*.cu` behind the device headers.

use crate::step_clocks;

const COMMON: &str = include_str!("../device/common.cu");
const PLAIN: &str = include_str!("../device/plain.cu");
const COLUMNS: &str = include_str!("../device/columns.cu");
const COMMANDS: &str = include_str!("../device/commands.cu");
pub(crate) const STEPS: &str = include_str!("../device/steps.cu");

/// All kernels, without the device headers.
fn all() -> String {
    [
        step_clocks::NONE,
        "#line 1 \"bench.cu\"\n",
        COMMON,
        PLAIN,
        COLUMNS,
        COMMANDS,
        STEPS,
    ]
    .concat()
}

/// The unit of all kernels, as the benchmark compiles it.
pub fn unit() -> String {
    grampus_io_stack::device_headers::prelude() + &all()
}

/// The unit of the kernels of steps.cu, with a clock at each step of the protocol.
pub(crate) fn clocked_unit() -> String {
    step_clocks::with_clocks(&[COMMON, STEPS].concat())
}

/// Names of all kernels, in the order of their text.
pub fn names() -> Vec<String> {
    let lines = [PLAIN, COLUMNS, COMMANDS, STEPS].into_iter().flat_map(str::lines);
    lines
        .filter_map(|line| Some(line.strip_prefix("KERNEL ")?.split('(').next()?.to_owned()))
        .collect()
}

/// One kernel and the functions that it may call, behind `prelude`.
pub fn alone(prelude: &str, kernel: &str) -> String {
    let mut out = prelude.to_owned();
    let wanted = format!("KERNEL {kernel}(");
    let mut dropping = false;
    for line in all().lines() {
        if line.starts_with("KERNEL ") {
            dropping = !line.starts_with(&wanted);
        }
        if !dropping {
            out.push_str(line);
            out.push('\n');
        }
        // A kernel ends with a brace: at the end of its only line, or on a line of its own.
        if line == "}" || (line.starts_with("KERNEL ") && line.ends_with('}')) {
            dropping = false;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alone_keeps_one_kernel_and_all_functions() {
        assert!(names().len() > 30, "{:?}", names());
        for name in names() {
            let text = alone("", &name);
            assert_eq!(text.matches("\nKERNEL ").count(), 1, "{name}");
            assert!(text.contains("add_up(") && text.contains("steps_of("), "{name}");
        }
    }
}
