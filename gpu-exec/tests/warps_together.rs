//! What warps of a query do to each other: small kernels that call single functions of the device code.
//!
//! The tests are skipped, with a message, without a C++ compiler.

mod common;

use std::sync::Arc;

use common::kernel_runner::{Target, targets};
use common::{col, column, count};
use grampus_cuda::{self as cuda, Args, DeviceBuffer, Module, Stream};
use grampus_gpu_exec::codegen::{Access, GPU_LANES, Grouping, QueryKernel};
use grampus_gpu_exec::program::{Program, Type};

/// Counts by one key, in the table of all warps.
fn counts_by_key() -> QueryKernel {
    let program = Program {
        columns: vec![column("k", Type::Int64, false)],
        arguments: vec![],
        conjuncts: vec![],
        keys: vec![col(0)],
        aggregates: vec![count()],
    };
    let shape = common::shape(&program, Access::Plain, false, Grouping::Global);
    QueryKernel::generate(&program, &shape).expect("a valid program")
}

/// Runs `warps` blocks of a warp. The kernel's parameter is the address of 64 words, of which the first is `first`.
fn run(target: &Target, module: &Module, name: &str, warps: u32, first: u64) -> Vec<u64> {
    let mut words = vec![0; 64];
    words[0] = first;
    let words = DeviceBuffer::from_values(&target.device, &words).expect("memory");
    let stream = Stream::new(&target.device).expect("a stream");
    let kernel = module.kernel(name).expect("it is there");
    let parameter = words.address().to_ne_bytes();
    let mut args = Args::new().with_bytes(&parameter);
    kernel.launch(&stream, warps, GPU_LANES, &mut args).expect("launches");
    stream.synchronize().expect("ends");
    words.read(0, 64).expect("reads")
}

/// Another warp refuses the query just before lane 7 reads the word. If each lane left by its own reading, the others
/// would wait for it for ever.
#[test]
fn lanes_agree_on_whether_the_query_is_refused() {
    const KERNEL: &str = "namespace grampus {
        struct Parameter { u64* words; };
        GRAMPUS_KERNEL(see_refusal, Parameter, parameter) {
            QueryHead head = {};
            head.refused = (u32*)parameter.words;
            if (lane_id() == 7) refuse(head, REFUSED_GROUPS);
            parameter.words[1 + lane_id()] = is_refused(head) ? 1 : 0;
        }
    }";
    for target in targets().iter().filter(|target| target.is_lockstep()) {
        let module = target.lockstep_module(&(counts_by_key().translation_unit() + KERNEL), "see_refusal");
        let words = run(target, &module, "see_refusal", 1, 0);
        assert_eq!(words[1..=GPU_LANES as usize], [1; GPU_LANES as usize]);
    }
}

/// A host thread can lose its processor while its slot is busy. However long that takes, no group is missing.
#[test]
fn a_busy_slot_of_the_group_table_is_waited_for() {
    const KERNEL: &str = "namespace grampus {
        struct OneCount {
            static constexpr u32 COUNT = 1;
            static GRAMPUS_DEVICE constexpr Op op(u32) { return OP_ADD; }
        };
        struct Parameter { u64* words; };
        GRAMPUS_KERNEL(wait_for_slot, Parameter, parameter) {
            u64* words = parameter.words;
            if (launch_warp() == 0) {
                if (lane_id() != 0) return;
                u64 begun = now_ns();
                while (now_ns() - begun < 300000000) pause_ns(50000);
                store_release_gpu(&words[0], GROUP_FREE);
                return;
            }
            QueryHead head = {};
            head.group_slots = &words[0];
            head.group_words = &words[2];
            head.group_count = (u32*)&words[1];
            head.group_capacity = 1;
            head.refused = (u32*)&words[32];
            u64 key[1] = {42}, word[1] = {1};
            add_to_all<OneCount>(head, true, key, word);
        }
    }";
    const BUSY: u64 = 1;
    for target in &targets() {
        let text = counts_by_key().translation_unit() + KERNEL;
        let module = if target.is_lockstep() {
            target.lockstep_module(&text, "wait_for_slot")
        } else {
            let compiled = cuda::compile_for(&target.device, &text, "wait_for_slot").unwrap_or_else(|e| panic!("{e}"));
            Arc::new(Module::load(&target.device, &compiled.cubin).expect("loads"))
        };
        let words = run(target, &module, "wait_for_slot", 2, BUSY);
        assert_eq!(words[32], 0, "refused");
        assert_eq!(words[1], 1, "groups");
        assert_eq!(words[2..4], [42, u64::from(target.lanes)], "the key and its count");
    }
}
