//! `Plan`: the cascade of filters, and a warp's shared memory.
//!
//! 1. The columns of the first conjunct are read in tiles.
//! 2. Rows that pass are held in a ring in shared memory until they fill a warp.
//! 3. The columns of the next conjunct are fetched for these rows, and the conjunct is evaluated.
//! 4. Steps 2 and 3 repeat for the other conjuncts. Later conjuncts share the last ring.
//! 5. At the end the columns of keys and aggregates are fetched, and the rows are added to their groups.
//!
//! A dense kernel has no rings: it reads all columns in tiles.

use std::collections::BTreeSet;

use super::expr::{arguments_of, cost};
use super::words::Words;
use super::{Access, BLOCK_THREADS, ColumnShape, GPU_LANES, Grouping, Shape, TableScope};
use crate::abi::query::Sizes;
use crate::error::RunError;
use crate::program::{self, Expr, Program};

/// Static shared memory of a block (CUDA C++ Programming Guide, "Technical Specifications"), divided among its warps.
const SHARED_BYTES: usize = 48 << 10;
const WARP_SHARED_BYTES: usize = SHARED_BYTES / (BLOCK_THREADS / GPU_LANES) as usize;
/// Columns and arguments that a warp caches in shared memory for its stages (`Near`).
const MAX_NEAR_ENTRIES: usize = 16;
/// Bytes of a cached extent: `Nearby` of device/tiles.cuh.
const NEARBY_BYTES: usize = 32;
/// Bytes of `NearStripe` of device/pages.cuh.
const NEAR_STRIPE_BYTES: usize = 24;
/// Rings of a kernel. Each ring divides the shared memory further; later conjuncts share the last one.
const MAX_RINGS: usize = 3;
/// 32-bit registers for a tile's values, of the 64 that four blocks on a multiprocessor leave.
///
/// With more, the loop over tiles spills to memory, behind L2, and loses more than longer tiles gain.
const MAX_TILE_REGISTERS: u32 = 16;
/// The same if a tile's rows go to group tables by code: that loop needs few other registers.
const MAX_CODED_TILE_REGISTERS: u32 = 24;
/// Values of a lane in a tile.
const MAX_LANE_VALUES: u32 = 8;
/// Registers for the values of a queued tile: 16 doubles of a warp are a line of the cache.
const MAX_QUEUED_TILE_REGISTERS: u32 = 32;
const MAX_QUEUED_LANE_VALUES: u32 = 16;
/// Operators in a tile's unrolled loop.
const MAX_UNROLLED_NODES: usize = 256;
/// Consecutive tiles of a warp if columns are queued: the warp sends commands for many tiles at once.
const QUEUED_CHUNK_TILES: u32 = 32;
/// Consecutive rows of a warp in a dense kernel over device memory. A warp that leaps over other warps' tiles searches
/// runs and extents again.
const DENSE_CHUNK_ROWS: u32 = 4096;
/// Groups in a warp's own table. One vote finds this many, and the host reads the groups of every warp.
const MAX_OWN_GROUPS: usize = 32;
/// Groups below which a warp's own table does not pay.
const MIN_OWN_GROUPS: usize = 4;
/// Aggregates of a program: each has a bit in one word.
const MAX_AGGREGATES: usize = 64;

/// One step of a stage: columns to fetch for the remaining rows, then conjuncts to evaluate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Step {
    pub fetch: Vec<usize>,
    pub conjuncts: Vec<usize>,
}

/// A ring of held rows, and the steps that the rows take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stage {
    /// Columns with values in the ring, the widest first.
    pub carried: Vec<usize>,
    /// The first step fetches queued columns. Their commands are sent some time before the step.
    pub queued: bool,
    pub steps: Vec<Step>,
}

impl Stage {
    /// Capacity of the ring, in warps.
    pub(super) fn capacity_warps(&self) -> u32 {
        if self.queued { 4 } else { 2 }
    }

    /// Rows that start the stage, in warps.
    pub(super) fn enough_warps(&self) -> u32 {
        if self.queued { 3 } else { 1 }
    }
}

/// Decisions that a kernel's source follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub tile_columns: Vec<usize>,
    pub tile_conjuncts: Vec<usize>,
    /// Values of a lane in a tile.
    pub lane_values: u32,
    /// Consecutive tiles of a warp.
    pub chunk_tiles: u32,
    pub stages: Vec<Stage>,
    pub words: Words,
    /// The group tables by code. `None`: groups have no codes.
    pub scope: Option<TableScope>,
    /// Words of a key, including the word of NULLs.
    pub key_words: usize,
    /// Whether the last word of a key marks the keys that are NULL.
    pub null_keys: bool,
    /// Groups of a warp's own table. 0: no table.
    pub own_groups: usize,
    /// Columns that stages fetch by address. A warp caches the last extent of each.
    pub near_columns: Vec<usize>,
    /// Arguments that a warp caches for its stages.
    pub near_arguments: Vec<usize>,
    /// Stages fetch paged columns, and a warp caches the stripe of its last row.
    pub near_stripe: bool,
    /// By column: width in memory, and whether it is nullable.
    widths: Vec<(usize, bool)>,
    /// By column: the counter of its values that were read. `None`: the column is not read.
    pub counter_of: Vec<Option<usize>>,
}

impl Plan {
    pub(super) fn new(program: &Program, shape: &Shape) -> Result<Self, RunError> {
        check_shape(program, shape)?;
        let nullable = |at: usize| shape.columns[at].nullable;
        let widths = program.columns.iter().zip(&shape.columns);
        let widths: Vec<_> = widths.map(|(c, s)| (c.stored.bytes() as usize, s.nullable)).collect();
        let cascade = Cascade::new(program, shape, &widths);
        if let Some(&c) = cascade
            .tile_columns
            .iter()
            .find(|&&c| shape.columns[c].access == Access::Paged)
        {
            let name = &program.columns[c].name;
            return Err(RunError::Invalid(format!(
                "column {name} is read whole, and cannot be paged"
            )));
        }
        let by_command = |&c: &usize| shape.columns[c].access == Access::Queued;
        if matches!(shape.grouping, Grouping::Coded(_)) && cascade.tile_columns.iter().any(by_command) {
            let reason = "groups by code of columns that are read by command";
            return Err(RunError::Invalid(reason.to_owned()));
        }
        let mut plan = Self {
            lane_values: 1,
            chunk_tiles: 1,
            words: Words::new(program, shape.grouping, &nullable)?,
            scope: match shape.grouping {
                Grouping::Coded(scope) => Some(scope),
                Grouping::Ungrouped | Grouping::Private | Grouping::Global => None,
            },
            null_keys: program.keys.iter().any(|e| program.can_be_null(e, &nullable)),
            key_words: 0,
            own_groups: 0,
            counter_of: cascade.counters(program.columns.len()),
            near_columns: Vec::new(),
            near_arguments: Vec::new(),
            near_stripe: false,
            tile_columns: cascade.tile_columns,
            tile_conjuncts: cascade.tile_conjuncts,
            stages: cascade.stages,
            widths,
        };
        plan.key_words = program.keys.len() + usize::from(plan.null_keys);
        plan.choose_tile(program, &shape.columns);
        plan.choose_near(program, &shape.columns);
        plan.choose_groups(shape.grouping);
        Ok(plan)
    }

    /// Chooses the values of a lane in a tile: as many as registers hold and as unrolled code allows.
    fn choose_tile(&mut self, program: &Program, columns: &[ColumnShape]) {
        let registers = |&(width, nullable): &(usize, bool)| width.div_ceil(4) as u32 + u32::from(nullable);
        let each: u32 = self.tile_columns.iter().map(|&c| registers(&self.widths[c])).sum();
        let conjuncts = self.tile_conjuncts.iter().map(|&c| &program.conjuncts[c]);
        let rest = program.expressions().skip(program.conjuncts.len());
        let direct = self.stages.is_empty();
        let nodes: usize = conjuncts.chain(rest.filter(|_| direct)).map(cost).sum();
        let by_command = |&c: &usize| columns[c].access == Access::Queued;
        let (mut max_lane_values, mut max_registers) = match self.scope {
            Some(_) => (MAX_LANE_VALUES, MAX_CODED_TILE_REGISTERS),
            None => (MAX_LANE_VALUES, MAX_TILE_REGISTERS),
        };
        if self.tile_columns.iter().any(by_command) {
            self.chunk_tiles = QUEUED_CHUNK_TILES;
            (max_lane_values, max_registers) = (MAX_QUEUED_LANE_VALUES, MAX_QUEUED_TILE_REGISTERS);
        }
        while self.lane_values < max_lane_values
            && 2 * self.lane_values * each <= max_registers
            && 2 * self.lane_values as usize * nodes.max(1) <= MAX_UNROLLED_NODES
        {
            self.lane_values *= 2;
        }
        if direct && self.tile_columns.iter().all(|&c| columns[c].on_device) {
            self.chunk_tiles = DENSE_CHUNK_ROWS / (self.lane_values * GPU_LANES);
        }
    }

    fn choose_near(&mut self, program: &Program, columns: &[ColumnShape]) {
        if self.stages.is_empty() {
            return;
        }
        self.near_stripe = self.fetched().iter().any(|&c| columns[c].access == Access::Paged);
        let by_address = self.fetched().into_iter().filter(|&c| columns[c].access.by_loads());
        self.near_columns = by_address.take(MAX_NEAR_ENTRIES / 2).collect();
        let later = self.stages.iter().flat_map(|s| &s.steps).flat_map(|s| &s.conjuncts);
        let later = later.map(|&c| &program.conjuncts[c]);
        let last = program.expressions().skip(program.conjuncts.len());
        self.near_arguments = arguments_of(later.chain(last))
            .into_iter()
            .take(MAX_NEAR_ENTRIES)
            .collect();
    }

    fn choose_groups(&mut self, grouping: Grouping) {
        if grouping == Grouping::Private {
            let rings: usize = (0..self.stages.len()).map(|s| self.held_bytes(s, GPU_LANES)).sum();
            let others = rings + self.tally_bytes() + self.near_bytes();
            let group = 8 * (self.key_words + self.words.ops.len());
            let groups = (WARP_SHARED_BYTES.saturating_sub(others + 8) / group).min(MAX_OWN_GROUPS);
            self.own_groups = if groups < MIN_OWN_GROUPS { 0 } else { groups };
        }
    }

    /// Whether kernels must look whether a column's values are NULL.
    pub(super) fn is_nullable(&self, column: usize) -> bool {
        self.widths[column].1
    }

    pub(super) fn grouped(&self) -> bool {
        self.key_words > 0
    }

    /// Columns that stages fetch.
    pub(super) fn fetched(&self) -> BTreeSet<usize> {
        let steps = self.stages.iter().flat_map(|s| &s.steps);
        steps.flat_map(|s| s.fetch.iter().copied()).collect()
    }

    /// Number of counters: rows read, rows at the start of each step, rows that passed.
    pub(super) fn counters(&self) -> usize {
        2 + self.stages.iter().map(|s| s.steps.len()).sum::<usize>()
    }

    /// `sizeof(Held…)`: a ring's arrays.
    pub(super) fn held_bytes(&self, stage: usize, lanes: u32) -> usize {
        let stage = &self.stages[stage];
        entry_bytes(&stage.carried, &self.widths) * (stage.capacity_warps() * lanes) as usize
    }

    /// `sizeof(OwnGroups<…>)`.
    fn own_bytes(&self) -> usize {
        match self.own_groups {
            0 => 0,
            groups => 8 + groups * 8 * (self.key_words + self.words.ops.len()),
        }
    }

    /// `sizeof(Shared)`.
    pub(super) fn shared_bytes(&self, lanes: u32) -> usize {
        if self.scope.is_some() {
            return 0;
        }
        let rings: usize = (0..self.stages.len())
            .map(|s| self.held_bytes(s, lanes).next_multiple_of(8))
            .sum();
        (rings + self.own_bytes() + self.tally_bytes() + self.near_bytes()).max(8)
    }

    /// `sizeof(Tally)`: words of aggregates, rings, counters.
    fn tally_bytes(&self) -> usize {
        if self.stages.is_empty() {
            return 0;
        }
        let words = if self.grouped() { 0 } else { self.words.ops.len() };
        8 * (words + self.stages.len()) + (4 * (self.counters() - 1)).next_multiple_of(8)
    }

    /// `sizeof(Near)`.
    pub(super) fn near_bytes(&self) -> usize {
        let columns: usize = self
            .near_columns
            .iter()
            .map(|&c| 1 + usize::from(self.widths[c].1))
            .sum();
        let stripe = if self.near_stripe { NEAR_STRIPE_BYTES } else { 0 };
        NEARBY_BYTES * columns + 8 * self.near_arguments.len() + stripe
    }

    /// `sizeof(Lane)`, without stages.
    pub(super) fn lane_bytes(&self) -> usize {
        match (self.stages.is_empty() && self.scope.is_none(), self.grouped()) {
            (false, _) => 0,
            (true, true) => 8,
            (true, false) => 8 * self.words.ops.len(),
        }
    }

    pub(super) fn sizes(&self, lanes: u32) -> Sizes {
        let word_bytes = 8 * self.words.ops.len();
        Sizes {
            tile_rows: self.lane_values * lanes,
            state_bytes: self.shared_bytes(lanes) + lanes as usize * self.lane_bytes(),
            partial_bytes: if self.grouped() { self.own_bytes() } else { word_bytes },
            counters: self.counters(),
            group_words: if self.grouped() {
                self.key_words + self.words.ops.len()
            } else {
                0
            },
        }
    }
}

fn check_shape(program: &Program, shape: &Shape) -> Result<(), RunError> {
    let no = |reason: String| Err(RunError::Invalid(reason));
    if shape.columns.len() != program.columns.len() {
        return no(format!(
            "the shapes of {} columns for {}",
            shape.columns.len(),
            program.columns.len()
        ));
    }
    if let Some((column, _)) = program
        .columns
        .iter()
        .zip(&shape.columns)
        .find(|(c, s)| s.nullable && !c.nullable)
    {
        return no(format!("column {} has NULLs that it must not have", column.name));
    }
    if (shape.grouping == Grouping::Ungrouped) != program.keys.is_empty() {
        return no(format!("{:?} with {} keys", shape.grouping, program.keys.len()));
    }
    if matches!(shape.grouping, Grouping::Coded(_)) && !(shape.dense || program.conjuncts.is_empty()) {
        return no("groups by code in a kernel that is not dense".to_owned());
    }
    if program.aggregates.len() > MAX_AGGREGATES || program.keys.len() > MAX_AGGREGATES {
        return no(format!("more than {MAX_AGGREGATES} aggregates or keys"));
    }
    Ok(())
}

/// Shared memory for each ring, beside the largest possible tally and cache of a warp. Groups get what the rings leave.
fn ring_bytes(program: &Program) -> usize {
    let words = 2 * program.aggregates.len() + 1;
    let counters = program.conjuncts.len() + 2;
    let tally = 8 * (words + MAX_RINGS) + (4 * counters).next_multiple_of(8);
    let near = NEAR_STRIPE_BYTES
        + NEARBY_BYTES * program.columns.len().min(MAX_NEAR_ENTRIES)
        + 8 * program.arguments.len().min(MAX_NEAR_ENTRIES);
    WARP_SHARED_BYTES.saturating_sub(tally + near) / MAX_RINGS
}

fn entry_bytes(carried: &[usize], widths: &[(usize, bool)]) -> usize {
    let value = |&c: &usize| widths[c].0 + usize::from(widths[c].1);
    8 + carried.iter().map(value).sum::<usize>()
}

/// Columns of expressions.
fn columns_of<'a>(exprs: impl IntoIterator<Item = &'a Expr>) -> BTreeSet<usize> {
    let column = |expr: &Expr| match expr {
        Expr::Column(at) => Some(*at),
        _ => None,
    };
    program::nodes(exprs).filter_map(column).collect()
}

/// `Cascade`: tiles and stages while conjuncts are assigned to them.
struct Cascade<'a> {
    shape: &'a Shape,
    widths: &'a [(usize, bool)],
    /// Maximum bytes of one ring.
    ring_bytes: usize,
    tile_columns: Vec<usize>,
    tile_conjuncts: Vec<usize>,
    stages: Vec<Stage>,
    /// Columns with values in registers at this point.
    known: BTreeSet<usize>,
}

impl<'a> Cascade<'a> {
    fn new(program: &Program, shape: &'a Shape, widths: &'a [(usize, bool)]) -> Self {
        let last = columns_of(program.expressions().skip(program.conjuncts.len()));
        let first = match program.conjuncts.first() {
            Some(_) if shape.dense => columns_of(program.expressions()),
            Some(conjunct) => columns_of([conjunct]),
            None => last.clone(),
        };
        let mut cascade = Self {
            shape,
            widths,
            ring_bytes: ring_bytes(program),
            tile_columns: first.iter().copied().collect(),
            tile_conjuncts: Vec::new(),
            stages: Vec::new(),
            known: first,
        };
        for (at, conjunct) in program.conjuncts.iter().enumerate() {
            let later = program.conjuncts[at..].iter();
            let later: BTreeSet<_> = columns_of(later).union(&last).copied().collect();
            cascade.need(&columns_of([conjunct]), &later);
            match cascade.stages.last_mut().and_then(|s| s.steps.last_mut()) {
                Some(step) => step.conjuncts.push(at),
                None => cascade.tile_conjuncts.push(at),
            }
        }
        cascade.need(&last, &last);
        cascade
    }

    /// Makes the columns' values available from here on, by a new step if necessary. `later` has all columns that this
    /// or a later point needs.
    fn need(&mut self, columns: &BTreeSet<usize>, later: &BTreeSet<usize>) {
        if columns.is_subset(&self.known) {
            return;
        }
        if self.stages.len() < MAX_RINGS {
            let queued = columns.iter().any(|&c| self.shape.columns[c].access == Access::Queued);
            let stage = self.stage(queued, later);
            self.known = stage.carried.iter().copied().collect();
            self.stages.push(stage);
        }
        let fetch: Vec<usize> = columns.difference(&self.known).copied().collect();
        self.known.extend(&fetch);
        if let Some(stage) = self.stages.last_mut() {
            stage.steps.push(Step {
                fetch,
                conjuncts: Vec::new(),
            });
        }
    }

    /// A stage with a ring for the known columns that are needed later, the widest first. Columns that do not fit are
    /// fetched again, and so are columns in device memory.
    fn stage(&self, queued: bool, later: &BTreeSet<usize>) -> Stage {
        let kept = self.known.intersection(later).copied();
        let mut stage = Stage {
            carried: kept.filter(|&c| !self.shape.columns[c].on_device).collect(),
            queued,
            steps: Vec::new(),
        };
        stage.carried.sort_by_key(|&c| std::cmp::Reverse(self.widths[c].0));
        let entries = (stage.capacity_warps() * GPU_LANES) as usize;
        while entries * entry_bytes(&stage.carried, self.widths) > self.ring_bytes {
            stage.carried.pop();
        }
        stage
    }

    /// By column: the counter of its values that were read.
    fn counters(&self, columns: usize) -> Vec<Option<usize>> {
        let mut counter_of = vec![None; columns];
        let steps = self.stages.iter().flat_map(|s| &s.steps).enumerate();
        for (at, column) in steps.flat_map(|(at, step)| step.fetch.iter().map(move |&c| (at, c))) {
            counter_of[column].get_or_insert(1 + at);
        }
        for &column in &self.tile_columns {
            counter_of[column] = Some(0);
        }
        counter_of
    }
}
