//! Writes a fuzz target's first inputs. Arguments: the folder, and the target (`any_controller`, `any_host`).

use std::path::PathBuf;

use grampus_driver_fuzz::{any_controller, any_host};

/// An input of `any_host`: an entry for a queue, with one byte of each field.
fn entry(qid: u8, opcode: u8, block: u8) -> Vec<u8> {
    let mut out = vec![4, qid, opcode, 0, block, 0, 1, 5];
    out.extend([0, 0, 4, 0, 0, 16, 4, 0]); // addresses in the memory
    out.extend([block, 0, 0, 0, 0, 0, 0, 0, 7]);
    out.resize(out.len() + 15, 0);
    out
}

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().expect("a folder"));
    let target = arguments.next().expect("a target");
    std::fs::create_dir_all(&folder)?;
    let mut inputs: Vec<Vec<u8>> = Vec::new();
    if target == "any_controller" {
        // Each kind of driver, against a controller that answers well, and against one that begins to fail later.
        for choices in 0..32u8 {
            inputs.push(vec![choices]);
            let mut late = vec![choices];
            late.resize(40 + usize::from(choices) * 20, 0);
            late.extend([0xff; 24]);
            inputs.push(late);
        }
    } else {
        let queues = [entry(0, 5, 0), entry(0, 1, 0)].concat();
        for opcode in [0, 1, 2, 8] {
            let commands: Vec<u8> = (0..8).flat_map(|block| entry(1, opcode, block)).collect();
            inputs.push([vec![3, 0x5a], queues.clone(), commands].concat());
        }
        inputs.push([vec![0, 1], (0..13).flat_map(|opcode| entry(0, opcode, 1)).collect()].concat());
    }
    for (number, input) in inputs.iter().enumerate() {
        match target.as_str() {
            "any_controller" => any_controller(input),
            _ => any_host(input),
        }
        std::fs::write(folder.join(format!("seed-{number}")), input)?;
    }
    Ok(())
}
