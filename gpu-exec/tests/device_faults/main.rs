//! A device that runs out of memory, or fails, at every place of a query: at the n-th allocation, pin, copy, launch,
//! loading of code, and stream or event, for every way to read columns.
//!
//! - Each run ends with the right answer, or with an error that says what failed. Running out of memory is a refusal,
//!   so that another plan answers.
//! - The next query without faults has the right answer. The one after it does what it does on a device that never
//!   failed: the cache has its whole size, the pinned memory too, and nothing is lost.
//!
//! `GRAMPUS_TEST_CASES` sets how many operations of a kind fail per query, at most. The tests are skipped, with a
//! message, without a C++ compiler, and on a GPU.

mod cases;
#[path = "../temporary_table/mod.rs"]
mod temporary_table;

use std::sync::Arc;

use cases::{Answer, Case, cases};
use grampus_cuda::{HostFault, HostFaults, HostOperation, HostUse, host_compiler};
use grampus_gpu_exec::{Backing, BackingChoice, Gpu, RefusalReason, RunError};
use grampus_test_support::{Resource, missing};
use temporary_table::{Kind, is_cuda};

/// `CUDA_ERROR_OUT_OF_MEMORY`, an error after which the context lives, and one that ends it (`CUresult`).
const OUT_OF_MEMORY: u32 = 2;
const UNKNOWN: u32 = 999;
const ILLEGAL_ADDRESS: u32 = 700;
/// Operations of a kind that are made to fail per query, at most, unless the environment says more.
const MOST: u64 = 3;

/// When operations fail.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Moment {
    /// In a query that opens the device.
    Opening,
    /// In a query on an open device, which has forgotten all columns.
    Cold,
    /// In a query whose columns are there.
    Hot,
}

/// How many operations a query does, by kind.
fn counts(faults: &HostFaults) -> [u64; HostOperation::ALL.len()] {
    HostOperation::ALL.map(|operation| faults.count(operation))
}

/// A device that never failed, after some queries.
struct Reference {
    /// Operations of the first query.
    first: [u64; HostOperation::ALL.len()],
    /// Operations of the last one.
    last: [u64; HostOperation::ALL.len()],
    used: HostUse,
    capacity: u64,
}

/// Queries without faults: over what an earlier one left, over nothing, and over columns that are there. What lives on
/// the device after the last but one and after the last.
fn recover(case: &Case, expected: &Answer, (gpu, faults): (&Gpu, &HostFaults)) -> Result<[HostUse; 2], String> {
    let input = case.input();
    let mut used = [HostUse::default(); 2];
    for at in 0..4 {
        faults.set(None);
        let answer = case
            .run(gpu, &input)
            .map_err(|e| format!("query {at} without faults: {e:?}"))?;
        if answer != *expected {
            return Err(format!("query {at} without faults has a wrong answer"));
        }
        used = [used[1], faults.in_use()];
        if at == 0 {
            gpu.forget().map_err(|e| e.to_string())?;
        }
    }
    Ok(used)
}

impl Moment {
    /// A device before the query that fails.
    fn device(self, case: &Case, faults: &Arc<HostFaults>) -> Gpu {
        faults.set(None);
        let gpu = case.gpu(faults);
        let before = match self {
            Self::Opening => 0,
            Self::Cold => 1,
            Self::Hot => 3,
        };
        for _ in 0..before {
            case.run(&gpu, &case.input())
                .unwrap_or_else(|e| panic!("{}: {e}", case.name));
        }
        if self == Self::Cold {
            gpu.forget().unwrap();
        }
        gpu
    }
}

impl Reference {
    fn new(case: &Case, expected: &Answer, moment: Moment) -> Self {
        let faults = Arc::new(HostFaults::default());
        let gpu = moment.device(case, &faults);
        faults.set(None);
        let first = case.run(&gpu, &case.input());
        let first = first
            .map(|_| counts(&faults))
            .unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let used = recover(case, expected, (&gpu, &faults)).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        Self {
            first,
            last: counts(&faults),
            used: used[1],
            capacity: gpu.capacity_bytes(),
        }
    }
}

/// How runs ended.
#[derive(Debug, Default)]
struct Outcomes {
    runs: u64,
    answers: u64,
    short: u64,
    failed: u64,
}

impl Outcomes {
    /// Runs a query with a fault, and then queries without.
    ///
    /// # Errors
    /// What went wrong.
    fn try_fault(
        &mut self,
        (case, expected): (&Case, &Answer),
        moment: Moment,
        reference: &Reference,
        fault: HostFault,
    ) -> Result<(), String> {
        let faults = Arc::new(HostFaults::default());
        let gpu = moment.device(case, &faults);
        let input = case.input();
        faults.set(Some(fault));
        let ended = case.run(&gpu, &input);
        faults.set(None);
        self.runs += 1;
        match ended {
            Ok(answer) if answer == *expected => self.answers += 1,
            Ok(_) => return Err("a wrong answer".to_owned()),
            Err(RunError::Refused(RefusalReason::DeviceMemory { .. })) if fault.code == OUT_OF_MEMORY => {
                self.short += 1;
            }
            Err(e) if fault.code != OUT_OF_MEMORY && e.to_string().contains("made to fail") => self.failed += 1,
            Err(e) => return Err(format!("{e:?}")),
        }
        let used = recover(case, expected, (&gpu, &faults))?;
        let (now, then) = (counts(&faults), reference.last);
        for operation in HostOperation::ALL {
            let (now, then) = (now[operation as usize], then[operation as usize]);
            // The reader threads' timing decides when a slot of the ring is first used, and pinned. Each of the four
            // slots has an event.
            let spare = match operation {
                HostOperation::Pin => 2,
                HostOperation::Create => 4,
                _ => 0,
            };
            if now > then + then / 2 + spare {
                return Err(format!("{now} of {operation:?}, not {then}"));
            }
        }
        let (now, then) = (gpu.capacity_bytes(), reference.capacity);
        if now != then {
            return Err(format!("the cache has {now} bytes, not {then}"));
        }
        if used[0] != used[1] {
            return Err(format!("a query leaves more behind: {used:?}"));
        }
        // Columns that were read in another way have an arena, and arenas may be divided otherwise.
        let (now, then) = (used[1], reference.used);
        if now.buffers > then.buffers + 2 || now.streams != then.streams || now.pins > then.pins + 2 {
            return Err(format!("in use {now:?}, not {then:?}"));
        }
        drop(gpu);
        match faults.in_use() == HostUse::default() {
            true => Ok(()),
            false => Err(format!("lost {:?}", faults.in_use())),
        }
    }
}

/// The most operations of a kind that fail per query.
fn most() -> u64 {
    std::env::var("GRAMPUS_TEST_CASES").map_or(MOST, |n| n.parse().expect("a number"))
}

/// Lets each operation of a kind fail, or as many as there is time for, the first and the last among them.
fn each(count: u64, mut fail: impl FnMut(u64)) {
    let step = count.div_ceil(most()).max(1);
    let mut at = 0;
    while at < count {
        fail(at);
        at += step;
    }
}

fn faults_of(moment: Moment, operations: &[HostOperation], code: u32, count: u64) {
    if is_cuda() || !has_compiler() {
        return;
    }
    let (mut all, mut wrong) = (Outcomes::default(), Vec::new());
    // A failure of the device while nvCOMP is in use ends its use in this process.
    let is_tried = |case: &Case| case.library.is_none() || code != ILLEGAL_ADDRESS;
    for case in cases().iter().filter(|case| is_tried(case)) {
        let expected = case.expected();
        let reference = Reference::new(case, &expected, moment);
        let mut outcomes = Outcomes::default();
        for &operation in operations {
            each(reference.first[operation as usize], |first| {
                let fault = HostFault {
                    operation,
                    first,
                    count,
                    code,
                };
                if let Err(e) = outcomes.try_fault((case, &expected), moment, &reference, fault) {
                    wrong.push(format!("{}, {operation:?} {first}: {e}", case.name));
                }
            });
        }
        println!("{}: {outcomes:?} of {:?}", case.name, reference.first);
        all.runs += outcomes.runs;
        all.answers += outcomes.answers;
        all.short += outcomes.short;
        all.failed += outcomes.failed;
    }
    println!("{moment:?}, {operations:?}, {code}: {all:?}");
    assert!(wrong.is_empty(), "{} of {} runs: {wrong:#?}", wrong.len(), all.runs);
    assert!(all.runs > 0 && all.runs == all.answers + all.short + all.failed);
}

/// False, with a message, without a C++ compiler.
fn has_compiler() -> bool {
    match host_compiler() {
        Ok(_) => true,
        Err(e) => {
            missing(Resource::Compiler, e);
            false
        }
    }
}

const MEMORY: [HostOperation; 2] = [HostOperation::Allocation, HostOperation::Pin];
const CALLS: [HostOperation; 3] = [HostOperation::Copy, HostOperation::Launch, HostOperation::Create];

#[test]
fn memory_that_runs_out_once_costs_a_query_at_most() {
    faults_of(Moment::Opening, &HostOperation::ALL, OUT_OF_MEMORY, 1);
}

#[test]
fn memory_that_runs_out_once_on_an_open_device_costs_a_query_at_most() {
    for moment in [Moment::Cold, Moment::Hot] {
        faults_of(moment, &HostOperation::ALL, OUT_OF_MEMORY, 1);
    }
}

#[test]
fn memory_that_stays_out_for_a_query_costs_this_query_alone() {
    for moment in [Moment::Opening, Moment::Cold] {
        faults_of(moment, &MEMORY, OUT_OF_MEMORY, u64::MAX);
    }
}

#[test]
fn failed_calls_are_reported_and_the_next_query_works() {
    faults_of(Moment::Opening, &CALLS, UNKNOWN, 1);
}

#[test]
fn dead_contexts_are_replaced() {
    faults_of(Moment::Opening, &[HostOperation::Launch], ILLEGAL_ADDRESS, 1);
}

/// Another process takes all of the device's memory, and gives it back some queries later.
#[test]
fn another_process_that_takes_the_memory_costs_queries_until_it_ends() {
    if is_cuda() || !has_compiler() {
        return;
    }
    for case in cases() {
        let (expected, faults) = (case.expected(), Arc::new(HostFaults::default()));
        let gpu = Moment::Hot.device(&case, &faults);
        let capacity = gpu.capacity_bytes();
        let ask = || match case.run(&gpu, &case.input()) {
            Ok(answer) => assert_eq!(answer, expected, "{}", case.name),
            Err(e) => assert!(e.shortage().is_some(), "{}: {e:?}", case.name),
        };
        faults.hold(u64::MAX);
        ask();
        gpu.forget().unwrap();
        for _ in 0..3 {
            ask();
        }
        faults.hold(0);
        recover(&case, &expected, (&gpu, &faults)).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        assert_eq!(gpu.capacity_bytes(), capacity, "{}", case.name);
    }
}

/// Columns that stream have no place beside the cache of columns that are read by command, and have one without it.
#[test]
fn queries_by_command_that_are_short_of_memory_end() {
    if is_cuda() || !has_compiler() {
        return;
    }
    let mut kinds = vec![Kind::Raw, Kind::Raw];
    kinds.extend([Kind::Decoded; 24]);
    let (mut answers, mut short) = (0, 0);
    for cache_bytes in (1..=24).map(|n| n << 16) {
        let queued = BackingChoice::All(Backing::Queued);
        let mut case = Case::new("many columns", &kinds, queued).within(cache_bytes);
        for waits in [true, false] {
            case.waits = waits;
            let gpu = case.gpu(&Arc::default());
            for _ in 0..2 {
                match case.run(&gpu, &case.input()) {
                    Ok(answer) => {
                        assert_eq!(answer, case.expected(), "{cache_bytes}");
                        answers += 1;
                    }
                    Err(e) => {
                        assert!(e.shortage().is_some(), "{cache_bytes}: {e:?}");
                        short += 1;
                    }
                }
                assert!(gpu.capacity_bytes() >= cache_bytes / 4 * 3, "{cache_bytes}");
            }
        }
    }
    assert!(answers > 20 && short > 20, "{answers} answers, {short} refusals");
}
