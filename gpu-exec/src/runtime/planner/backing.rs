//! Choice of a backing for each column: by the cost model, by what is resident, and by what is known of the filter.
//! Each choice has a reason for people. Nothing is moved here.

use crate::options::{Backing, BackingChoice, ColumnChoice};
use crate::runtime::planner::cost_model::{
    ColumnStats, CostInputs, compared_s, estimated_bytes, estimated_time, granularity_bytes, scan_time,
};

/// Whether the registration of files, done once for all their columns, costs less than it saves columns that are read
/// sparsely.
fn registering_pays(columns: &[ColumnStats], inputs: &CostInputs<'_>) -> bool {
    let sparse = columns
        .iter()
        .filter(|c| !c.dense && c.raw_rows > 0 && c.missing_bytes > 0);
    let (mut without, mut with, mut bytes) = (0.0, 0.0, 0);
    for column in sparse {
        let Some(unregistered) = column.unregistered_bytes else {
            return false;
        };
        let mut least = compared_s(column, Backing::Resident, inputs);
        if column.is_raw() && inputs.commands {
            least = least.min(compared_s(column, Backing::Queued, inputs));
        }
        if can_be_paged(column, inputs) {
            least = least.min(compared_s(column, Backing::Paged, inputs));
        }
        let mapped = compared_s(column, Backing::Mapped, inputs).min(least);
        without += if unregistered == 0 { mapped } else { least };
        with += mapped;
        bytes = unregistered.max(bytes);
    }
    with + bytes as f64 / inputs.profile.register_bytes_per_s < without
}

/// One choice per column.
pub(crate) fn choose_backings(columns: &[ColumnStats], inputs: &CostInputs<'_>) -> Vec<ColumnChoice> {
    let mut capacity = inputs.capacity;
    let whole = columns.iter().filter(|c| c.dense);
    let whole: u64 = whole.map(|c| c.missing_bytes + c.resident_bytes).sum();
    let inputs = &CostInputs {
        pages: whole <= capacity,
        ..*inputs
    };
    let inputs = &CostInputs {
        register: registering_pays(columns, inputs),
        ..*inputs
    };
    // Columns that are read whole have the first right to device memory.
    let mut order: Vec<usize> = (0..columns.len()).collect();
    order.sort_by_key(|&c| !columns[c].dense);
    let mut choices: Vec<Option<ColumnChoice>> = vec![None; columns.len()];
    for c in order {
        let choice = choose_one(&columns[c], inputs, capacity);
        if matches!(choice.backing, Backing::Resident | Backing::Paged) {
            capacity = capacity.saturating_sub(columns[c].missing_bytes + columns[c].resident_bytes);
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
    if backing == Backing::Paged && column.by_chunk_rows > 0 {
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
        resident_bytes: column.resident_bytes,
        reason,
    }
}

/// The processor that decodes.
fn decoding(column: &ColumnStats) -> Option<&'static str> {
    match (column.on_device_rows, column.decoded_rows) {
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
        Backing::Paged if column.raw_rows + column.decoded_rows == 0 => {
            (Backing::Resident, "one value in all rows".to_owned())
        }
        Backing::Mapped if column.unregistered_bytes.is_none() => (
            Backing::Resident,
            "asked for mapped, but a file cannot be registered".to_owned(),
        ),
        Backing::Mapped if column.raw_rows == 0 => {
            (Backing::Resident, "nothing of it lies raw in its files".to_owned())
        }
        _ => (backing, "asked for".to_owned()),
    }
}

/// The backing that takes the fewest seconds of those that are possible, registration left out.
fn by_cost(column: &ColumnStats, inputs: &CostInputs<'_>, capacity: u64) -> (Backing, String) {
    let seconds = |backing| compared_s(column, backing, inputs);
    if column.rows() == column.constant_rows {
        return (Backing::Resident, "one value in all rows".to_owned());
    }
    if column.missing_bytes == 0 {
        return (Backing::Resident, "on the device already".to_owned());
    }
    let fits = column.missing_bytes + column.resident_bytes <= capacity;
    let paged = fits && can_be_paged(column, inputs);
    if column.raw_rows == 0 && !paged {
        let why = decoding(column).unwrap_or("one value in all rows");
        return (Backing::Resident, why.to_owned());
    }
    if column.dense {
        if !fits && column.unregistered_bytes == Some(0) {
            let why = "read whole, larger than the room for columns, and its files are registered";
            return (Backing::Mapped, why.to_owned());
        }
        let why = if fits {
            "read whole, and kept on the device"
        } else {
            "read whole, through a window: larger than the room for columns"
        };
        return (Backing::Resident, why.to_owned());
    }
    let mut ways = vec![(Backing::Resident, seconds(Backing::Resident))];
    let registered = column.unregistered_bytes == Some(0) || (inputs.register && column.unregistered_bytes.is_some());
    if registered && column.raw_rows > 0 {
        ways.push((Backing::Mapped, seconds(Backing::Mapped)));
    }
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
    let chunks = match column.by_chunk_rows {
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
    inputs.pages && !column.dense && !column.cold && column.raw_rows + column.decoded_rows > 0
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
    use std::sync::LazyLock;

    use super::*;
    use crate::input::chunk_list::Codec;
    use crate::machine_profile::MachineProfile;
    use crate::runtime::planner::cost_model::CompressedBytes;

    fn column(dense: bool) -> ColumnStats {
        ColumnStats {
            dense,
            width: 8,
            raw_rows: 200_000_000,
            decoded_rows: 0,
            on_device_rows: 0,
            constant_rows: 0,
            group_rows: 0,
            by_chunk_rows: 0,
            chunk_rows: 0,
            pages_there: 0,
            groups_there: 0,
            chunks_there: 0,
            resident_bytes: 0,
            missing_bytes: 1_600_000_000,
            moved_bytes: 1_600_000_000,
            decoded_moved_bytes: 0,
            compressed_bytes: CompressedBytes::default(),
            unregistered_bytes: Some(9_600_000_000),
            has_one_controller: true,
            cold: false,
        }
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
            register: false,
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
            raw_rows: 0,
            decoded_rows: 200_000_000,
            group_rows: 10_000,
            decoded_moved_bytes: 1_600_000_000,
            ..column(false)
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
        let mut compressed_bytes = CompressedBytes::default();
        *compressed_bytes.by_device.get_mut(Codec::Snappy) = 1_600_000_000;
        ColumnStats {
            raw_rows: 0,
            decoded_rows: 200_000_000,
            on_device_rows: 200_000_000,
            by_chunk_rows: 200_000_000,
            chunk_rows,
            moved_bytes: 600_000_000,
            decoded_moved_bytes: 600_000_000,
            compressed_bytes,
            ..column(false)
        }
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
        column.chunks_there = 14_000;
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
        let again = ColumnStats {
            pages_there: 60_000,
            unregistered_bytes: Some(0),
            ..column(false)
        };
        let again = choose_backings(&[again], &inputs(0.0003)).remove(0);
        assert_eq!((again.backing, again.estimated_bytes), (Backing::Paged, 0));
    }

    #[test]
    fn registered_files_serve_dependents_and_a_column_on_the_device_is_used() {
        let registered = ColumnStats {
            unregistered_bytes: Some(0),
            ..column(false)
        };
        assert_eq!(
            backings(std::slice::from_ref(&registered), &inputs(0.0003)),
            [Backing::Mapped]
        );
        let there = ColumnStats {
            missing_bytes: 0,
            moved_bytes: 0,
            resident_bytes: 1_600_000_000,
            ..registered
        };
        assert_eq!(backings(&[there], &inputs(0.0003)), [Backing::Resident]);
    }

    #[test]
    fn files_are_registered_when_many_columns_share_the_cost() {
        let profile = MachineProfile {
            commands_per_s: 1e6,
            fetched_pages_per_s: 1e6,
            register_bytes_per_s: 60e9,
            ..MachineProfile::default()
        };
        let few = CostInputs {
            profile: &profile,
            ..inputs(0.0025)
        };
        assert_eq!(backings(&[column(false)], &few), [Backing::Resident]);
        let many = vec![column(false); 12];
        assert_eq!(backings(&many, &few), [Backing::Mapped; 12]);
        let refused = ColumnStats {
            unregistered_bytes: None,
            ..column(false)
        };
        assert!(backings(&vec![refused; 12], &few).iter().all(|b| *b != Backing::Mapped));
    }

    #[test]
    fn too_large_for_the_device_is_read_from_mappings_that_are_there_or_through_windows() {
        let small = CostInputs {
            capacity: 1 << 30,
            ..inputs(0.0003)
        };
        let registered = ColumnStats {
            unregistered_bytes: Some(0),
            ..column(true)
        };
        assert_eq!(backings(&[registered], &small), [Backing::Mapped]);
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
        let stored = ColumnStats {
            raw_rows: 0,
            decoded_rows: 200,
            on_device_rows: 200,
            moved_bytes: 300,
            ..column(true)
        };
        let choice = |on_device_rows| {
            let column = ColumnStats {
                on_device_rows,
                ..stored.clone()
            };
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
        let decoded = ColumnStats {
            decoded_rows: 1,
            ..column(false)
        };
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
            unregistered_bytes: None,
            ..column(true)
        };
        assert_eq!(asked(Backing::Mapped, refused), Backing::Resident);
    }
}
