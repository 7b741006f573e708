//! Which backing serves each column, by what the machine gives (calibration.rs), what is on the device already, and what is known of
//! the filter; and the reason, for people. Nothing is moved here.

use super::calibration::{Calibration, LINK_SECTOR_BYTES, pieces_touched};
use crate::gpu::{Backing, BackingChoice, ColumnChoice};
use crate::paging::PAGE_BYTES;

/// What is known of one column before the query.
#[derive(Debug, Clone)]
pub(crate) struct ColumnFacts {
    /// It is read whole: the first conjunct needs it, or there is no filter.
    pub(crate) dense: bool,
    /// Bytes of a value.
    pub(crate) width: u64,
    /// Selected rows that lie raw in their files, are decoded by the CPU, or all have one value.
    pub(crate) raw_rows: u64,
    pub(crate) decoded_rows: u64,
    pub(crate) constant_rows: u64,
    /// Rows of a row group of the stripes that are decoded, the most of any.
    pub(crate) group_rows: u64,
    /// Pages that are there of stripes that are there in part: of 64 raw bytes, and row groups.
    pub(crate) pages_there: u64,
    pub(crate) groups_there: u64,
    /// Bytes on the device already.
    pub(crate) resident_bytes: u64,
    /// Bytes that would have to be brought for it to be there whole.
    pub(crate) missing_bytes: u64,
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

    /// Pages of it that are to be gathered, and row groups that are to be decoded, for rows of which a share of `selectivity` passes. Those
    /// that are there are taken to be wanted again: most queries repeat, or narrow down, an earlier one.
    fn pages(&self, selectivity: f64) -> (f64, f64) {
        let missing = |touched: f64, there: u64| (touched - there as f64).max(0.0);
        let pages = pieces_touched(self.raw_rows, self.width, selectivity, PAGE_BYTES);
        let group_bytes = self.group_rows.max(1) * self.width;
        let groups = pieces_touched(self.decoded_rows, self.width, selectivity, group_bytes);
        (missing(pages, self.pages_there), missing(groups, self.groups_there))
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
    /// What is read whole fits into device memory, so that rows can be gone over again for pages.
    pub(crate) pages: bool,
}

/// What a further pass costs, and waiting for the last pages: half a millisecond is what it took over 200 million rows.
const PASS_SECONDS: f64 = 0.0005;

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
        if can_be_paged(column, terms) {
            least = least.min(cost(column, Backing::Paged, terms));
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
    let whole = columns.iter().filter(|c| c.dense);
    let whole: u64 = whole.map(|c| c.missing_bytes + c.resident_bytes).sum();
    let terms = &Terms {
        pages: whole <= room,
        ..*terms
    };
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
        if matches!(choice.backing, Backing::Resident | Backing::Paged) {
            room = room.saturating_sub(columns[c].missing_bytes + columns[c].resident_bytes);
        }
        choices[c] = Some(choice);
    }
    choices.into_iter().flatten().collect()
}

fn choose_one(column: &ColumnFacts, terms: &Terms, room: u64) -> ColumnChoice {
    let backing = match terms.choice {
        BackingChoice::All(backing) => asked_for(column, backing, terms),
        BackingChoice::Auto => by_cost(column, terms, room),
    };
    let (backing, reason) = backing;
    ColumnChoice {
        backing,
        granularity_bytes: granularity(column, backing, terms),
        estimated_bytes: estimate(column, backing, terms),
        resident_bytes: column.resident_bytes,
        reason,
    }
}

fn asked_for(column: &ColumnFacts, backing: Backing, terms: &Terms) -> (Backing, String) {
    match backing {
        Backing::Queued if !column.is_raw() => (
            Backing::Resident,
            "asked for by command, but not all of it lies raw in its files".to_owned(),
        ),
        Backing::Paged if column.dense => (
            Backing::Resident,
            "read whole, so that it has no pages to miss".to_owned(),
        ),
        Backing::Paged if !terms.pages => (
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

/// Seconds that each way takes, as far as it is possible, without registering; the least wins.
fn by_cost(column: &ColumnFacts, terms: &Terms, room: u64) -> (Backing, String) {
    let seconds = |backing| cost(column, backing, terms);
    if column.rows() == column.constant_rows {
        return (Backing::Resident, "one value in all rows".to_owned());
    }
    if column.missing_bytes == 0 {
        return (Backing::Resident, "on the device already".to_owned());
    }
    let fits = column.missing_bytes + column.resident_bytes <= room;
    let paged = fits && can_be_paged(column, terms);
    if column.raw_rows == 0 && !paged {
        return (Backing::Resident, "decoded by the CPU".to_owned());
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
    let registered = column.unregistered_bytes == Some(0) || (terms.register && column.unregistered_bytes.is_some());
    if registered && column.raw_rows > 0 {
        ways.push((Backing::Mapped, seconds(Backing::Mapped)));
    }
    if column.is_raw() {
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
    let why = format!(
        "about {:.2} % of rows pass: {}",
        terms.selectivity * 100.0,
        told.join(", ")
    );
    (ways[0].0, why)
}

/// Whether pages of it may be brought as they are missed. What is not in the page cache is better asked for by many commands at once.
fn can_be_paged(column: &ColumnFacts, terms: &Terms) -> bool {
    terms.pages && !column.dense && !column.cold && column.raw_rows + column.decoded_rows > 0
}

fn name(backing: Backing) -> &'static str {
    match backing {
        Backing::Resident => "resident",
        Backing::Paged => "paged",
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
    // Of stripes that are there nothing is decoded.
    let all = (column.missing_bytes + column.resident_bytes).max(1);
    let to_decode = column.decoded_rows as f64 * (column.missing_bytes as f64 / all as f64) / c.decoded_values_per_s;
    match backing {
        Backing::Resident => column.missing_bytes as f64 / push + to_decode,
        Backing::Paged => {
            let (pages, groups) = column.pages(terms.selectivity);
            let values = groups * column.group_rows as f64;
            let decode = values / c.decoded_values_per_s + values * column.width as f64 / push;
            pages / c.gathered_pages_per_s + decode + PASS_SECONDS
        }
        Backing::Mapped => {
            let sectors = wanted(LINK_SECTOR_BYTES);
            let loads = (sectors / c.mapped_loads_per_s).max(sectors * LINK_SECTOR_BYTES as f64 / c.mapped_bytes_per_s);
            let rest = (column.decoded_rows * column.width) as f64 / push + to_decode;
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
        Backing::Paged if column.raw_rows > 0 => PAGE_BYTES,
        Backing::Paged => (column.group_rows * column.width).max(1),
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
        Backing::Resident => column.missing_bytes,
        Backing::Paged => {
            let (pages, groups) = column.pages(terms.selectivity);
            (pages * PAGE_BYTES as f64 + groups * (column.group_rows * column.width) as f64) as u64
        }
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
            constant_rows: 0,
            group_rows: 0,
            pages_there: 0,
            groups_there: 0,
            resident_bytes: 0,
            missing_bytes: 1_600_000_000,
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
            pages: false,
        }
    }

    fn backings(columns: &[ColumnFacts], terms: &Terms) -> Vec<Backing> {
        choose(columns, terms).into_iter().map(|c| c.backing).collect()
    }

    #[test]
    fn what_is_read_whole_is_brought_and_what_is_read_sparsely_is_fetched() {
        assert_eq!(
            backings(&[column(true), column(false)], &terms(0.0003)),
            [Backing::Resident, Backing::Paged]
        );
        assert_eq!(backings(&[column(false)], &terms(0.5)), [Backing::Resident]);
        let cold = ColumnFacts {
            cold: true,
            ..column(false)
        };
        assert_eq!(backings(&[cold], &terms(0.0003)), [Backing::Queued]);
    }

    #[test]
    fn row_groups_are_decoded_as_they_are_missed_where_few_hold_rows_that_pass() {
        let decoded = ColumnFacts {
            raw_rows: 0,
            decoded_rows: 200_000_000,
            group_rows: 10_000,
            ..column(false)
        };
        assert_eq!(backings(std::slice::from_ref(&decoded), &terms(1e-6)), [Backing::Paged]);
        let choice = &choose(std::slice::from_ref(&decoded), &terms(1e-6))[0];
        assert_eq!(choice.granularity_bytes, 80_000);
        assert!(choice.estimated_bytes < 16_000_000, "1 % of the row groups: {choice:?}");
        assert_eq!(
            backings(&[decoded], &terms(0.01)),
            [Backing::Resident],
            "nearly all of them"
        );
    }

    #[test]
    fn pages_that_are_there_are_taken_to_be_wanted_again() {
        let first = choose(&[column(false)], &terms(0.0003)).remove(0);
        assert!((3_000_000..4_000_000).contains(&first.estimated_bytes), "{first:?}");
        let again = ColumnFacts {
            pages_there: 60_000,
            unregistered_bytes: Some(0),
            ..column(false)
        };
        let again = choose(&[again], &terms(0.0003)).remove(0);
        assert_eq!((again.backing, again.estimated_bytes), (Backing::Paged, 0));
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
                gathered_pages_per_s: 1e6,
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
        // What streams by cannot be gone over again.
        let dependents = backings(&[column(true), column(false)], &small);
        assert_eq!(dependents, [Backing::Resident, Backing::Queued]);
        let asked = Terms {
            choice: BackingChoice::All(Backing::Paged),
            ..small
        };
        assert_eq!(backings(&[column(true), column(false)], &asked), [Backing::Resident; 2]);
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
        assert_eq!(asked(Backing::Mapped, decoded.clone()), Backing::Mapped);
        assert_eq!(asked(Backing::Paged, decoded), Backing::Paged);
        assert_eq!(asked(Backing::Paged, column(true)), Backing::Resident);
        let refused = ColumnFacts {
            unregistered_bytes: None,
            ..column(true)
        };
        assert_eq!(asked(Backing::Mapped, refused), Backing::Resident);
    }
}
