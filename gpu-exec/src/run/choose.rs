//! Which backing serves each column, by what the machine gives (calibration.rs), what is on the device already, and what is known of
//! the filter; and the reason, for people. Nothing is moved here.

use super::calibration::{Calibration, LINK_SECTOR_BYTES, pieces_touched};
use crate::gpu::{Backing, BackingChoice, ColumnChoice};

/// What is known of one column before the query.
#[derive(Debug, Clone)]
pub(crate) struct ColumnFacts {
    /// It is read whole: the first conjunct needs it, or there is no filter.
    pub(crate) dense: bool,
    /// Bytes of a value.
    pub(crate) width: u64,
    /// Selected rows that lie raw in their files, have to be decoded, or all have one value.
    pub(crate) raw_rows: u64,
    pub(crate) decoded_rows: u64,
    /// Of those that have to be decoded: by the GPU.
    pub(crate) on_device_rows: u64,
    pub(crate) constant_rows: u64,
    /// Bytes on the device already.
    pub(crate) resident_bytes: u64,
    /// Bytes that would have to be brought for it to be there whole.
    pub(crate) missing_bytes: u64,
    /// Bytes that are moved for that: fewer where the GPU decodes.
    pub(crate) brought_bytes: u64,
    /// Bytes of the files with raw rows that are not registered; `None`: one of them cannot be.
    pub(crate) unregistered_bytes: Option<u64>,
    /// Some of its files' pages are not in the page cache.
    pub(crate) cold: bool,
}

impl ColumnFacts {
    /// All of it lies raw: it can be read by command.
    fn is_raw(&self) -> bool {
        self.decoded_rows == 0 && self.constant_rows == 0 && self.raw_rows > 0
    }

    fn rows(&self) -> u64 {
        self.raw_rows + self.decoded_rows + self.constant_rows
    }
}

/// What else the choice depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) choice: BackingChoice,
    /// Share of rows that pass.
    pub(crate) selectivity: f64,
    pub(crate) sector_bytes: u64,
    /// Device memory for columns.
    pub(crate) room: u64,
    pub(crate) calibration: Calibration,
    /// Files may be registered for columns that are read sparsely.
    pub(crate) register: bool,
}

/// Whether registering files, which is done once for all their columns, is less than what it saves those that are read sparsely.
fn registering_pays(columns: &[ColumnFacts], terms: &Terms) -> bool {
    let sparse = columns
        .iter()
        .filter(|c| !c.dense && c.raw_rows > 0 && c.missing_bytes > 0);
    let (mut without, mut with, mut bytes) = (0.0, 0.0, 0);
    for column in sparse {
        let Some(unregistered) = column.unregistered_bytes else {
            return false;
        };
        let mut least = cost(column, Backing::Resident, terms);
        if column.is_raw() {
            least = least.min(cost(column, Backing::Queued, terms));
        }
        let mapped = cost(column, Backing::Mapped, terms).min(least);
        without += if unregistered == 0 { mapped } else { least };
        with += mapped;
        bytes = unregistered.max(bytes);
    }
    with + bytes as f64 / terms.calibration.register_bytes_per_s < without
}

/// One choice per column.
pub(crate) fn choose(columns: &[ColumnFacts], terms: &Terms) -> Vec<ColumnChoice> {
    let mut room = terms.room;
    let terms = &Terms {
        register: registering_pays(columns, terms),
        ..*terms
    };
    // What is read whole has the first right to device memory.
    let mut order: Vec<usize> = (0..columns.len()).collect();
    order.sort_by_key(|&c| !columns[c].dense);
    let mut choices: Vec<Option<ColumnChoice>> = vec![None; columns.len()];
    for c in order {
        let choice = choose_one(&columns[c], terms, room);
        if choice.backing == Backing::Resident {
            room = room.saturating_sub(columns[c].missing_bytes + columns[c].resident_bytes);
        }
        choices[c] = Some(choice);
    }
    choices.into_iter().flatten().collect()
}

fn choose_one(column: &ColumnFacts, terms: &Terms, room: u64) -> ColumnChoice {
    let backing = match terms.choice {
        BackingChoice::All(backing) => asked_for(column, backing),
        BackingChoice::Auto => by_cost(column, terms, room),
    };
    let (backing, mut reason) = backing;
    if let Some(words) = decoding(column).filter(|words| *words != reason) {
        reason = format!("{reason}, {words}");
    }
    ColumnChoice {
        backing,
        granularity_bytes: granularity(column, backing, terms),
        estimated_bytes: estimate(column, backing, terms),
        resident_bytes: column.resident_bytes,
        reason,
    }
}

/// Who decodes what has to be decoded.
fn decoding(column: &ColumnFacts) -> Option<&'static str> {
    match (column.on_device_rows, column.decoded_rows) {
        (_, 0) => None,
        (0, _) => Some("decoded by the CPU"),
        (gpu, all) if gpu == all => Some("decoded by the GPU"),
        _ => Some("decoded by the GPU, in part by the CPU"),
    }
}

fn asked_for(column: &ColumnFacts, backing: Backing) -> (Backing, String) {
    match backing {
        Backing::Queued if !column.is_raw() => (
            Backing::Resident,
            "asked for by command, but not all of it lies raw in its files".to_owned(),
        ),
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

/// Seconds that each way takes, as far as it is possible, without registering; the least wins.
fn by_cost(column: &ColumnFacts, terms: &Terms, room: u64) -> (Backing, String) {
    let seconds = |backing| cost(column, backing, terms);
    if column.raw_rows == 0 {
        let why = decoding(column).unwrap_or("one value in all rows");
        return (Backing::Resident, why.to_owned());
    }
    if column.missing_bytes == 0 {
        return (Backing::Resident, "on the device already".to_owned());
    }
    let fits = column.missing_bytes + column.resident_bytes <= room;
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
    if column.unregistered_bytes == Some(0) || (terms.register && column.unregistered_bytes.is_some()) {
        ways.push((Backing::Mapped, seconds(Backing::Mapped)));
    }
    if column.is_raw() {
        ways.push((Backing::Queued, seconds(Backing::Queued)));
    }
    ways.sort_by(|a, b| a.1.total_cmp(&b.1));
    let told: Vec<String> = ways
        .iter()
        .map(|(b, s)| format!("{} {:.1} ms", name(*b), s * 1e3))
        .collect();
    let why = format!(
        "about {:.2} % of rows pass: {}",
        terms.selectivity * 100.0,
        told.join(", ")
    );
    (ways[0].0, why)
}

fn name(backing: Backing) -> &'static str {
    match backing {
        Backing::Resident => "resident",
        Backing::Mapped => "mapped",
        Backing::Queued => "queued",
    }
}

fn cost(column: &ColumnFacts, backing: Backing, terms: &Terms) -> f64 {
    let c = &terms.calibration;
    let wanted = |piece: u64| pieces_touched(column.raw_rows, column.width, terms.selectivity, piece);
    let push = if column.cold {
        c.disk_bytes_per_s
    } else {
        c.push_bytes_per_s
    };
    match backing {
        Backing::Resident => column.brought_bytes as f64 / push,
        Backing::Mapped => {
            let sectors = wanted(LINK_SECTOR_BYTES);
            let loads = (sectors / c.mapped_loads_per_s).max(sectors * LINK_SECTOR_BYTES as f64 / c.mapped_bytes_per_s);
            let rest = (column.decoded_rows * column.width) as f64 / push;
            let disk = if column.cold {
                wanted(4096) * 4096.0 / c.disk_bytes_per_s
            } else {
                0.0
            };
            loads.max(disk) + rest
        }
        Backing::Queued => {
            let commands = wanted(terms.sector_bytes);
            let bytes = commands * terms.sector_bytes as f64;
            (commands / c.commands_per_s).max(bytes / push)
        }
    }
}

fn granularity(column: &ColumnFacts, backing: Backing, terms: &Terms) -> u64 {
    match backing {
        Backing::Resident => super::bring::PIECE_BYTES.min((column.rows() * column.width).max(1)),
        Backing::Mapped => LINK_SECTOR_BYTES,
        Backing::Queued => terms.sector_bytes,
    }
}

fn estimate(column: &ColumnFacts, backing: Backing, terms: &Terms) -> u64 {
    let rows = column.raw_rows;
    let touched = |piece: u64| {
        if column.dense {
            rows * column.width
        } else {
            (pieces_touched(rows, column.width, terms.selectivity, piece) * piece as f64) as u64
        }
    };
    match backing {
        Backing::Resident => column.brought_bytes,
        Backing::Mapped => touched(LINK_SECTOR_BYTES) + column.decoded_rows * column.width,
        Backing::Queued => touched(terms.sector_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(dense: bool) -> ColumnFacts {
        ColumnFacts {
            dense,
            width: 8,
            raw_rows: 200_000_000,
            decoded_rows: 0,
            on_device_rows: 0,
            constant_rows: 0,
            resident_bytes: 0,
            missing_bytes: 1_600_000_000,
            brought_bytes: 1_600_000_000,
            unregistered_bytes: Some(9_600_000_000),
            cold: false,
        }
    }

    fn terms(selectivity: f64) -> Terms {
        Terms {
            choice: BackingChoice::Auto,
            selectivity,
            sector_bytes: 512,
            room: 100 << 30,
            calibration: Calibration::default(),
            register: false,
        }
    }

    fn backings(columns: &[ColumnFacts], terms: &Terms) -> Vec<Backing> {
        choose(columns, terms).into_iter().map(|c| c.backing).collect()
    }

    #[test]
    fn what_is_read_whole_is_brought_and_what_is_read_sparsely_is_fetched() {
        assert_eq!(
            backings(&[column(true), column(false)], &terms(0.0003)),
            [Backing::Resident, Backing::Queued]
        );
        assert_eq!(backings(&[column(false)], &terms(0.5)), [Backing::Resident]);
    }

    #[test]
    fn registered_files_serve_dependents_and_a_column_on_the_device_is_used() {
        let registered = ColumnFacts {
            unregistered_bytes: Some(0),
            ..column(false)
        };
        assert_eq!(
            backings(std::slice::from_ref(&registered), &terms(0.0003)),
            [Backing::Mapped]
        );
        let there = ColumnFacts {
            missing_bytes: 0,
            brought_bytes: 0,
            resident_bytes: 1_600_000_000,
            ..registered
        };
        assert_eq!(backings(&[there], &terms(0.0003)), [Backing::Resident]);
    }

    #[test]
    fn files_are_registered_when_many_columns_share_the_cost() {
        let few = Terms {
            calibration: Calibration {
                commands_per_s: 1e6,
                ..Calibration::default()
            },
            ..terms(0.0025)
        };
        assert_eq!(backings(&[column(false)], &few), [Backing::Resident]);
        let many = vec![column(false); 12];
        assert_eq!(backings(&many, &few), [Backing::Mapped; 12]);
        let refused = ColumnFacts {
            unregistered_bytes: None,
            ..column(false)
        };
        assert!(backings(&vec![refused; 12], &few).iter().all(|b| *b != Backing::Mapped));
    }

    #[test]
    fn too_large_for_the_device_is_read_from_mappings_that_are_there_or_through_windows() {
        let small = Terms {
            room: 1 << 30,
            ..terms(0.0003)
        };
        let registered = ColumnFacts {
            unregistered_bytes: Some(0),
            ..column(true)
        };
        assert_eq!(backings(&[registered], &small), [Backing::Mapped]);
        let choice = &choose(&[column(true)], &small)[0];
        assert_eq!(choice.backing, Backing::Resident);
        assert!(choice.reason.contains("window"), "{}", choice.reason);
    }

    #[test]
    fn who_decodes_is_said_and_what_the_gpu_decodes_moves_as_it_is_stored() {
        let stored = ColumnFacts {
            raw_rows: 0,
            decoded_rows: 200,
            on_device_rows: 200,
            brought_bytes: 300,
            ..column(true)
        };
        let choice = |on_device_rows| {
            let column = ColumnFacts {
                on_device_rows,
                ..stored.clone()
            };
            choose(&[column], &terms(0.1)).remove(0)
        };
        assert_eq!(choice(200).reason, "decoded by the GPU");
        assert_eq!(choice(200).estimated_bytes, 300);
        assert_eq!(choice(100).reason, "decoded by the GPU, in part by the CPU");
        assert_eq!(choice(0).reason, "decoded by the CPU");
    }

    #[test]
    fn what_was_asked_for_is_done_where_the_layout_allows() {
        let asked = |backing, column: ColumnFacts| {
            let terms = Terms {
                choice: BackingChoice::All(backing),
                ..terms(0.1)
            };
            choose(&[column], &terms).remove(0).backing
        };
        let decoded = ColumnFacts {
            decoded_rows: 1,
            ..column(false)
        };
        assert_eq!(asked(Backing::Queued, column(true)), Backing::Queued);
        assert_eq!(asked(Backing::Queued, decoded.clone()), Backing::Resident);
        assert_eq!(asked(Backing::Mapped, decoded), Backing::Mapped);
        let refused = ColumnFacts {
            unregistered_bytes: None,
            ..column(true)
        };
        assert_eq!(asked(Backing::Mapped, refused), Backing::Resident);
    }
}
