//! Choice of a backing for each column: by the cost model, by what is resident, and by what is known of the filter.
//! Each choice has a reason for people. Nothing is moved here.

use crate::options::{Backing, BackingChoice, ColumnChoice};
use crate::runtime::planner::cost_model::{
    ColumnStats, CostInputs, compared_s, estimated_bytes, estimated_time, granularity_bytes, scan_time,
};

/// One choice per column.
pub(crate) fn choose_backings(columns: &[ColumnStats], inputs: &CostInputs<'_>) -> Vec<ColumnChoice> {
    let mut capacity = inputs.capacity;
    let whole = columns.iter().filter(|c| c.dense);
    let whole: u64 = whole.map(|c| c.bytes.missing + c.bytes.resident).sum();
    let inputs = &CostInputs {
        pages: whole <= capacity,
        ..*inputs
    };
    // Columns that are read whole have the first right to device memory.
    let mut order: Vec<usize> = (0..columns.len()).collect();
    order.sort_by_key(|&c| !columns[c].dense);
    let mut choices: Vec<Option<ColumnChoice>> = vec![None; columns.len()];
    for c in order {
        let choice = choose_one(&columns[c], inputs, capacity);
        if matches!(choice.backing, Backing::Resident | Backing::Paged) {
            capacity = capacity.saturating_sub(columns[c].bytes.missing + columns[c].bytes.resident);
        }
        choices[c] = Some(choice);
    }
    choices.into_iter().flatten().collect()
}

fn choose_one(column: &ColumnStats, inputs: &CostInputs<'_>, capacity: u64) -> ColumnChoice {
    let backing = match inputs.choice {
        BackingChoice::All(backing) => asked_for(column, backing, inputs),
        BackingChoice::Auto => by_cost(column, inputs, capacity),
    };
    let (backing, mut reason) = backing;
    if backing == Backing::Paged && column.rows.by_chunk > 0 {
        reason = format!("{reason}, by chunks of {} rows", column.chunk_rows);
    }
    if let Some(words) = decoding(column).filter(|words| *words != reason) {
        reason = format!("{reason}, {words}");
    }
    ColumnChoice {
        backing,
        granularity_bytes: granularity_bytes(column, backing, inputs),
        estimated_bytes: estimated_bytes(column, backing, inputs),
        estimated_time: estimated_time(column, backing, inputs),
        scan_time: scan_time(column, inputs),
        resident_bytes: column.bytes.resident,
        reason,
    }
}

/// The processor that decodes.
fn decoding(column: &ColumnStats) -> Option<&'static str> {
    match (column.rows.on_device, column.rows.decoded) {
        (_, 0) => None,
        (0, _) => Some("decoded by the CPU"),
        (gpu, all) if gpu == all => Some("decoded by the GPU"),
        _ => Some("decoded by the GPU, in part by the CPU"),
    }
}

fn asked_for(column: &ColumnStats, backing: Backing, inputs: &CostInputs<'_>) -> (Backing, String) {
    match backing {
        Backing::Queued if !inputs.commands => (
            Backing::Resident,
            "asked for by command, but the device has too little memory for a cache beside it".to_owned(),
        ),
        Backing::Queued if !column.is_raw() => (
            Backing::Resident,
            "asked for by command, but not all of it lies raw in its files".to_owned(),
        ),
        Backing::Paged if column.dense => (
            Backing::Resident,
            "read whole, so that it has no pages to miss".to_owned(),
        ),
        Backing::Paged if !inputs.pages => (
            Backing::Resident,
            "asked for by page, but what is read whole is larger than the room for columns".to_owned(),
        ),
        Backing::Paged if column.rows.raw + column.rows.decoded == 0 => {
            (Backing::Resident, "one value in all rows".to_owned())
        }
        Backing::Mapped if !column.can_be_mapped => (
            Backing::Resident,
            "asked for mapped, but a file cannot be registered".to_owned(),
        ),
        Backing::Mapped if column.rows.raw == 0 => {
            (Backing::Resident, "nothing of it lies raw in its files".to_owned())
        }
        _ => (backing, "asked for".to_owned()),
    }
}

/// The backing that takes the fewest seconds of those that are possible. [`Backing::Mapped`] is none of them:
/// registering files costs more than loads save next to pages, or, if the files are cold, next to commands.
fn by_cost(column: &ColumnStats, inputs: &CostInputs<'_>, capacity: u64) -> (Backing, String) {
    let seconds = |backing| compared_s(column, backing, inputs);
    if column.rows.all() == column.rows.constant {
        return (Backing::Resident, "one value in all rows".to_owned());
    }
    if column.bytes.missing == 0 {
        return (Backing::Resident, "on the device already".to_owned());
    }
    let fits = column.bytes.missing + column.bytes.resident <= capacity;
    let paged = fits && can_be_paged(column, inputs);
    if column.rows.raw == 0 && !paged {
        let why = decoding(column).unwrap_or("one value in all rows");
        return (Backing::Resident, why.to_owned());
    }
    if column.dense {
        let why = if fits {
            "read whole, and kept on the device"
        } else {
            "read whole, through a window: larger than the room for columns"
        };
        return (Backing::Resident, why.to_owned());
    }
    let mut ways = vec![(Backing::Resident, seconds(Backing::Resident))];
    if column.is_raw() && inputs.commands {
        ways.push((Backing::Queued, seconds(Backing::Queued)));
    }
    if paged {
        ways.push((Backing::Paged, seconds(Backing::Paged)));
    }
    ways.sort_by(|a, b| a.1.total_cmp(&b.1));
    let told: Vec<String> = ways
        .iter()
        .map(|(b, s)| format!("{} {:.1} ms", name(*b), s * 1e3))
        .collect();
    let share = inputs.selectivity * 100.0;
    let chunks = match column.rows.by_chunk {
        0 => String::new(),
        _ => format!(
            ", and {:.0} % of chunks have one",
            column.touched_chunks(inputs.selectivity) * 100.0
        ),
    };
    let why = format!("about {share:.2} % of rows pass{chunks}: {}", told.join(", "));
    (ways[0].0, why)
}

/// Whether pages of the column may be loaded when they are missed. Bytes that are not in the page cache are better read
/// by many commands at once.
fn can_be_paged(column: &ColumnStats, inputs: &CostInputs<'_>) -> bool {
    inputs.pages && !column.dense && !column.cold && column.rows.raw + column.rows.decoded > 0
}

fn name(backing: Backing) -> &'static str {
    match backing {
        Backing::Resident => "resident",
        Backing::Paged => "paged",
        Backing::Mapped => "mapped",
        Backing::Queued => "queued",
    }
}

#[cfg(test)]
mod tests {
    use grampus_orc_layout::codec::Codec;
    use std::sync::LazyLock;

    use super::*;
    use crate::machine_profile::MachineProfile;
    use crate::runtime::planner::cost_model::{ColumnBytes, StoredRows};

    fn column(dense: bool) -> ColumnStats {
        ColumnStats {
            dense,
            width: 8,
            rows: StoredRows {
                raw: 200_000_000,
                ..StoredRows::default()
            },
            bytes: ColumnBytes {
                missing: 1_600_000_000,
                moved: 1_600_000_000,
                ..ColumnBytes::default()
            },
            can_be_mapped: true,
            has_one_controller: true,
            ..ColumnStats::default()
        }
    }

    /// Such a column with all rows decoded by the CPU.
    fn decoded() -> ColumnStats {
        let mut column = column(false);
        column.rows = StoredRows {
            decoded: 200_000_000,
            ..StoredRows::default()
        };
        column.bytes.decoded_moved = 1_600_000_000;
        column
    }

    static PROFILE: LazyLock<MachineProfile> = LazyLock::new(MachineProfile::default);

    fn inputs(selectivity: f64) -> CostInputs<'static> {
        CostInputs {
            choice: BackingChoice::Auto,
            selectivity,
            sector_bytes: 512,
            commands: true,
            capacity: 100 << 30,
            profile: &PROFILE,
            pages: false,
        }
    }

    fn backings(columns: &[ColumnStats], inputs: &CostInputs<'_>) -> Vec<Backing> {
        choose_backings(columns, inputs)
            .into_iter()
            .map(|c| c.backing)
            .collect()
    }

    #[test]
    fn columns_read_whole_are_loaded_and_columns_read_sparsely_are_fetched() {
        assert_eq!(
            backings(&[column(true), column(false)], &inputs(0.0003)),
            [Backing::Resident, Backing::Paged]
        );
        assert_eq!(backings(&[column(false)], &inputs(0.5)), [Backing::Resident]);
        let cold = ColumnStats {
            cold: true,
            ..column(false)
        };
        assert_eq!(backings(&[cold], &inputs(0.0003)), [Backing::Queued]);
    }

    #[test]
    fn row_groups_are_decoded_as_they_are_missed_where_few_hold_rows_that_pass() {
        let decoded = ColumnStats {
            group_rows: 10_000,
            ..decoded()
        };
        assert_eq!(
            backings(std::slice::from_ref(&decoded), &inputs(1e-6)),
            [Backing::Paged]
        );
        let choice = &choose_backings(std::slice::from_ref(&decoded), &inputs(1e-6))[0];
        assert_eq!(choice.granularity_bytes, 80_000);
        assert!(choice.estimated_bytes < 16_000_000, "1 % of the row groups: {choice:?}");
        assert_eq!(
            backings(&[decoded], &inputs(0.01)),
            [Backing::Resident],
            "nearly all of them"
        );
    }

    /// A column of chunks with so many rows, which the device decompresses to 1.6 GB.
    fn compressed(chunk_rows: u64) -> ColumnStats {
        let mut column = ColumnStats {
            chunk_rows,
            ..decoded()
        };
        column.rows.on_device = 200_000_000;
        column.rows.by_chunk = 200_000_000;
        column.bytes.moved = 600_000_000;
        column.bytes.decoded_moved = 600_000_000;
        *column.bytes.compressed.by_device.get_mut(Codec::Snappy) = 1_600_000_000;
        column
    }

    #[test]
    fn chunks_are_loaded_where_few_are_touched_and_whole_columns_where_nearly_all_are() {
        let choice =
            |chunk_rows, selectivity| choose_backings(&[compressed(chunk_rows)], &inputs(selectivity)).remove(0);
        // Chunks of 64 KiB, of which 56 % are touched, and of 4 KiB.
        let paged = choice(8192, 1e-4);
        assert_eq!((paged.backing, paged.granularity_bytes), (Backing::Paged, 65_536));
        for words in [
            "56 % of chunks have one",
            "by chunks of 8192 rows",
            "decoded by the GPU",
        ] {
            assert!(paged.reason.contains(words), "{}", paged.reason);
        }
        // 56 % of the stored bytes.
        assert!((330_000_000..340_000_000).contains(&paged.estimated_bytes), "{paged:?}");
        let whole = choice(8192, 1e-3);
        assert_eq!((whole.backing, whole.estimated_bytes), (Backing::Resident, 600_000_000));
        assert!(whole.reason.contains("100 % of chunks have one"), "{}", whole.reason);
        assert_eq!(choice(512, 1e-4).backing, Backing::Paged);
        assert!(choice(512, 1e-4).estimated_time < paged.estimated_time);
        assert_eq!(choice(512, 1e-2).backing, Backing::Resident);
    }

    #[test]
    fn chunks_that_are_there_are_not_loaded_again() {
        let mut column = compressed(8192);
        column.there.chunks = 14_000;
        let choice = choose_backings(&[column.clone()], &inputs(1e-4)).remove(0);
        assert_eq!((choice.backing, choice.estimated_bytes), (Backing::Paged, 0));
        column.cold = true;
        let cold = choose_backings(&[column], &inputs(1e-4)).remove(0);
        assert_eq!(cold.backing, Backing::Resident, "files that are not in the page cache");
    }

    #[test]
    fn pages_that_are_there_are_taken_to_be_wanted_again() {
        let first = choose_backings(&[column(false)], &inputs(0.0003)).remove(0);
        assert!((3_000_000..4_000_000).contains(&first.estimated_bytes), "{first:?}");
        let mut again = column(false);
        again.there.raw = 60_000;
        let again = choose_backings(&[again], &inputs(0.0003)).remove(0);
        assert_eq!((again.backing, again.estimated_bytes), (Backing::Paged, 0));
    }

    #[test]
    fn a_column_on_the_device_is_used() {
        let mut there = column(false);
        there.bytes = ColumnBytes {
            resident: 1_600_000_000,
            ..ColumnBytes::default()
        };
        assert_eq!(backings(&[there], &inputs(0.0003)), [Backing::Resident]);
    }

    #[test]
    fn too_large_for_the_device_is_read_through_windows() {
        let small = CostInputs {
            capacity: 1 << 30,
            ..inputs(0.0003)
        };
        let choice = &choose_backings(&[column(true)], &small)[0];
        assert_eq!(choice.backing, Backing::Resident);
        assert!(choice.reason.contains("window"), "{}", choice.reason);
        // A streamed pass cannot be replayed.
        let dependents = backings(&[column(true), column(false)], &small);
        assert_eq!(dependents, [Backing::Resident, Backing::Queued]);
        let asked = CostInputs {
            choice: BackingChoice::All(Backing::Paged),
            ..small
        };
        assert_eq!(backings(&[column(true), column(false)], &asked), [Backing::Resident; 2]);
    }

    #[test]
    fn reasons_name_the_decoder_and_the_gpu_gets_encoded_bytes() {
        let choice = |on_device| {
            let mut column = column(true);
            column.rows = StoredRows {
                decoded: 200,
                on_device,
                ..StoredRows::default()
            };
            column.bytes.moved = 300;
            choose_backings(&[column], &inputs(0.1)).remove(0)
        };
        assert_eq!(choice(200).reason, "decoded by the GPU");
        assert_eq!(choice(200).estimated_bytes, 300);
        assert_eq!(choice(100).reason, "decoded by the GPU, in part by the CPU");
        assert_eq!(choice(0).reason, "decoded by the CPU");
    }

    #[test]
    fn choices_of_the_caller_are_followed_if_the_layout_allows() {
        let asked = |backing, column: ColumnStats| {
            let inputs = CostInputs {
                choice: BackingChoice::All(backing),
                ..inputs(0.1)
            };
            choose_backings(&[column], &inputs).remove(0).backing
        };
        let mut decoded = column(false);
        decoded.rows.decoded = 1;
        assert_eq!(asked(Backing::Queued, column(true)), Backing::Queued);
        assert_eq!(asked(Backing::Queued, decoded.clone()), Backing::Resident);
        for choice in [BackingChoice::All(Backing::Queued), BackingChoice::Auto] {
            let short = CostInputs {
                choice,
                commands: false,
                ..inputs(0.0003)
            };
            let cold = ColumnStats {
                cold: true,
                ..column(false)
            };
            assert_eq!(backings(&[cold], &short), [Backing::Resident], "no memory for commands");
        }
        assert_eq!(asked(Backing::Mapped, decoded.clone()), Backing::Mapped);
        assert_eq!(asked(Backing::Paged, decoded), Backing::Paged);
        assert_eq!(asked(Backing::Paged, column(true)), Backing::Resident);
        let refused = ColumnStats {
            can_be_mapped: false,
            ..column(true)
        };
        assert_eq!(asked(Backing::Mapped, refused), Backing::Resident);
    }
}
