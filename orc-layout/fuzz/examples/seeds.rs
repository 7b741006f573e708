//! Program that writes the seed inputs of a fuzz target into a folder: `seeds FOLDER TARGET`.

use std::path::PathBuf;

use grampus_fuzz::other_writers;

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(folder), Some(target)) = (arguments.next().map(PathBuf::from), arguments.next()) else {
        eprintln!("usage: seeds FOLDER TARGET");
        std::process::exit(2);
    };
    std::fs::create_dir_all(&folder)?;
    let seeds = match target.as_str() {
        "read_file" => [grampus_fuzz::seeds::seeds(), other_writers::files()].concat(),
        "rle" => [grampus_fuzz::rle::seeds(), other_writers::streams()].concat(),
        "write" => grampus_fuzz::write::seeds(),
        other => {
            eprintln!("no fuzz target is named {other}");
            std::process::exit(2);
        }
    };
    for (name, bytes) in seeds {
        std::fs::write(folder.join(name), bytes)?;
    }
    Ok(())
}
