//! Options of the programs `duckdb` and `sqlite3`, with what to write in their place.
//!
//! They have one dash and a long name. Ours would be read as `-m` with the size `arkdown`.

use crate::exit_error::ErrorReport;
use crate::result_format::Format;
use clap::ValueEnum;

/// Options whose next argument is their value.
const WITH_VALUE: [&str; 15] = [
    "-c",
    "--command",
    "-f",
    "--file",
    "-t",
    "--table",
    "-o",
    "--output",
    "-m",
    "--memory-limit",
    "-p",
    "--partitions",
    "--format",
    "--set",
    "--max-rows",
];

/// Options without a like among the formats.
const OTHERS: [(&str, &str); 19] = [
    ("-list", "write --format csv"),
    ("-tabs", "write --format tsv"),
    ("-column", "write --format table"),
    ("-jsonlines", "write --format ndjson"),
    ("-html", "write --format markdown"),
    ("-quote", "write --format insert"),
    ("-header", "leave it out: names are always printed"),
    (
        "-noheader",
        "names are always printed; COPY t TO 'x.csv' (header false) writes a file without",
    ),
    ("-separator", "write --format csv or tsv"),
    ("-nullvalue", "write coalesce(column, 'text')"),
    ("-cmd", "write -c SQL, before another -c or -f"),
    ("-init", "write -f FILE, or GRAMPUS_RC=FILE for the shell"),
    ("-no-init", "write --no-rc"),
    ("-batch", "leave it out: -c and -f never ask"),
    ("-interactive", "leave it out: grampus without -c and -f is interactive"),
    ("-bail", "leave it out: -c and -f end at the first error"),
    ("-echo", "write -v, which says more"),
    (
        "-readonly",
        "leave it out: grampus writes only what a statement or an option says",
    ),
    ("-version", "write --version"),
];

/// The first such option among the arguments of the program, in words.
pub(crate) fn found(arguments: &[String]) -> Option<ErrorReport> {
    let is_value = |place: usize| place > 0 && WITH_VALUE.contains(&arguments[place - 1].as_str());
    let options = arguments
        .iter()
        .enumerate()
        .take_while(|(_, argument)| *argument != "--");
    options.filter(|(place, _)| !is_value(*place)).find_map(|(_, option)| {
        let hint = match OTHERS.iter().find(|(name, _)| name == option) {
            Some((_, hint)) => (*hint).to_owned(),
            None => {
                let formats = Format::value_variants().iter().map(|format| format.name());
                let format = formats.into_iter().find(|name| *option == format!("-{name}"))?;
                format!("write --format {format}")
            }
        };
        Some(ErrorReport::new(format!("no option {option}")).hint(hint))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_other_programs_have_hints_and_values_are_none() {
        for (arguments, hint) in [
            (&["-csv", "-c", "SELECT 1"][..], Some("write --format csv")),
            (&["x.orc", "-markdown"], Some("write --format markdown")),
            (&["-noheader"], Some("names are always printed")),
            (&["-c", "-list"], None),
            (&["-cSELECT 1", "-m1g", "-vv"], None),
            (&["--", "-csv"], None),
        ] {
            let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
            let report = found(&arguments);
            let found = report.and_then(|report| report.hint);
            assert_eq!(found.is_some(), hint.is_some(), "{arguments:?}");
            assert!(found.unwrap_or_default().contains(hint.unwrap_or("")), "{arguments:?}");
        }
    }
}
