//! Seed inputs as files.

use std::path::PathBuf;

/// Writes the seed inputs of a fuzz target into the folder that `FUZZ_SEEDS` names, if it names one. Called before the
/// fuzzer reads its corpus: a program of its own would be compiled for these few files, with all dependencies.
///
/// # Panics
/// If a file cannot be written.
pub fn write_seeds(target: &str) {
    let Some(folder) = std::env::var_os("FUZZ_SEEDS").map(PathBuf::from) else {
        return;
    };
    let inputs = match target {
        "any_controller" => controllers(),
        "any_host" => hosts(),
        other => panic!("no fuzz target is named {other}"),
    };
    std::fs::create_dir_all(&folder).expect("a folder for seeds");
    for (number, input) in inputs.iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{number}")), input).expect("a seed");
    }
}

/// Inputs of `any_controller`: each kind of driver, against a controller that answers well, and against one that begins
/// to fail later.
fn controllers() -> Vec<Vec<u8>> {
    let kinds = (0..32u8).flat_map(|choices| {
        let mut late = vec![choices];
        late.resize(40 + usize::from(choices) * 20, 0);
        late.extend([0xff; 24]);
        [vec![choices], late]
    });
    kinds.collect()
}

/// Inputs of `any_host`: queues and commands, and each opcode of the admin queue.
fn hosts() -> Vec<Vec<u8>> {
    let queues = [entry(0, 5, 0), entry(0, 1, 0)].concat();
    let commands = |opcode| (0..8).flat_map(move |block| entry(1, opcode, block));
    let with_queues = [0, 1, 2, 8].map(|opcode| [vec![3, 0x5a], queues.clone(), commands(opcode).collect()].concat());
    let opcodes = [vec![0, 1], (0..13).flat_map(|opcode| entry(0, opcode, 1)).collect()].concat();
    with_queues.into_iter().chain([opcodes]).collect()
}

/// An input of `any_host`: an entry for a queue, with one byte of each field.
fn entry(qid: u8, opcode: u8, block: u8) -> Vec<u8> {
    let mut out = vec![4, qid, opcode, 0, block, 0, 1, 5];
    out.extend([0, 0, 4, 0, 0, 16, 4, 0]); // addresses in the memory
    out.extend([block, 0, 0, 0, 0, 0, 0, 0, 7]);
    out.resize(out.len() + 15, 0);
    out
}
