//! Clocks at the steps of the protocol (`GRAMPUS_STEP`), compiled in for one benchmark: the time of each step of a
//! warp.

/// Number of steps that have a slot.
pub(crate) const SLOTS: usize = 64;

/// Time of computing warps from the previous step to this one.
#[derive(Debug, Clone)]
pub(crate) struct Phase {
    /// The step that ends the phase.
    pub(crate) name: String,
    /// Microseconds, summed over all warps.
    pub(crate) us: f64,
}

/// Names of the steps in device headers and `kernels`, in the order of their first mention. A step's index in this
/// list is its slot.
fn names(kernels: &str) -> Vec<String> {
    let text = grampus_io_stack::device_headers::prelude() + kernels;
    let mut names: Vec<String> = Vec::new();
    for mention in text.split("GRAMPUS_STEP(").skip(1) {
        let name = mention.split(')').next().unwrap_or_default().to_owned();
        if name != "name" && !names.contains(&name) {
            names.push(name);
        }
    }
    names.truncate(SLOTS);
    names
}

/// Empty functions in place of the clocks.
pub(crate) const NONE: &str = "static __device__ __forceinline__ void begin_clocks() {}\n\
                               static __device__ __forceinline__ void end_clocks(unsigned long long*) {}\n";

/// Device headers and `kernels`, with a clock at each step. A warp's lowest active lane takes the time.
pub(crate) fn with_clocks(kernels: &str) -> String {
    let steps: String = names(kernels).iter().map(|name| format!("STEP_{name}, ")).collect();
    format!(
        "enum StepName {{ {steps} STEP_COUNT }};\n{CLOCKS}{}#line 1 \"bench.cu\"\n{kernels}",
        grampus_io_stack::device_headers::prelude()
    )
}

const CLOCKS: &str = r#"
__shared__ unsigned phase_last[8], phase_on[8], phase_time[8][64];
static __device__ __forceinline__ void note_phase(unsigned step) {
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (lane != (unsigned)__ffs((int)__activemask()) - 1 || phase_on[warp] != 0x51eb) return;
    unsigned now = (unsigned)clock();
    phase_time[warp][step] += now - phase_last[warp];
    phase_last[warp] = now;
}
#define GRAMPUS_STEP(name) note_phase(STEP_##name)
static __device__ __forceinline__ void begin_clocks() {
    unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (unsigned i = lane; i < 64; i += 32) phase_time[warp][i] = 0;
    phase_on[warp] = 0x51eb;
    phase_last[warp] = (unsigned)clock();
    __syncwarp();
}
static __device__ __forceinline__ void end_clocks(unsigned long long* out) {
    unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    __syncwarp();
    phase_on[warp] = 0;
    for (unsigned i = lane; i < 64; i += 32) atomicAdd(out + 2 + i, (unsigned long long)phase_time[warp][i]);
}
"#;

/// The phases that the clocks measured, longest first. Cycles are taken as at 2 GHz, like all of device code's times.
pub(crate) fn found(kernels: &str, cycles: &[u64]) -> Vec<Phase> {
    let mut phases: Vec<Phase> = (names(kernels).into_iter().zip(cycles))
        .map(|(name, cycles)| Phase {
            name,
            us: *cycles as f64 / 2e3,
        })
        .collect();
    phases.sort_by(|a, b| b.us.total_cmp(&a.us));
    phases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_a_slot() {
        let names = names(crate::kernels::STEPS);
        assert!(names.len() < SLOTS, "{} steps", names.len());
        for name in ["find", "ring", "copy_bounce", "computed"] {
            assert!(names.iter().any(|n| n == name), "{name}");
        }
        let text = with_clocks("");
        assert!(text.find("#define GRAMPUS_STEP").unwrap() < text.find("#ifndef GRAMPUS_STEP").unwrap());
    }
}
