//! `KeptPlans`: the plans of queries that found all their columns resident. The next run of such a query decides
//! nothing and places nothing: for thousands of stripes that takes longer than the kernels.
//!
//! **Invariant:** a kept plan is used only while no column has ceased to be resident since it was made
//! ([`Residency::losses`](crate::runtime::memory::residency::Residency::losses)), and under the pool's lock its columns
//! are marked as used before anything else can be evicted.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::RunError;
use crate::input::Input;
use crate::input::file_registry::FileId;
use crate::options::{Backing, BackingChoice, ColumnChoice, Request};
use crate::program::Program;
use crate::runtime::device_state::DeviceState;
use crate::runtime::file_io::file_source::FileSource;
use crate::runtime::memory::buffer_pool::{BufferPool, QueryId, UsedEntries};
use crate::runtime::memory::residency::Residency;
use crate::runtime::planner::{KernelChoice, QueryPlan, check_arguments, check_version};
use crate::runtime::transfer::extent_map::ExtentMap;
use crate::runtime::transfer::transfer_plan::TransferPlan;

/// Plans that are kept, at most: those that were used last.
const MAX_PLANS: usize = 32;

/// A plan whose columns are all resident.
#[derive(Debug)]
pub(crate) struct KeptPlan {
    /// The device's: after a failure it is opened anew, and nothing of before is valid.
    residency: Arc<Residency>,
    /// The request, but for literals.
    input: Arc<Input>,
    program: Program,
    backing: BackingChoice,
    selectivity: f64,
    /// The decisions, as in [`QueryPlan`].
    pub(crate) ids: Vec<FileId>,
    pub(crate) kernel: KernelChoice,
    pub(crate) choices: Vec<ColumnChoice>,
    pub(crate) dense: Vec<bool>,
    /// By file of the input: some of its rows are read.
    pub(crate) used: Vec<bool>,
    /// Where the columns are.
    extents: Arc<Vec<ExtentMap>>,
    entries: UsedEntries,
    window_ends: Vec<u64>,
    resident_bytes: u64,
}

impl KeptPlan {
    fn is_valid(&self, residency: &Arc<Residency>) -> bool {
        Arc::ptr_eq(&self.residency, residency) && self.entries.losses == residency.losses()
    }

    fn is_of(&self, request: &Request<'_>) -> bool {
        Arc::ptr_eq(&self.input, request.input)
            && self.backing == request.backing
            && self.selectivity.to_bits() == request.selectivity.to_bits()
            && self.program == *request.program
    }

    /// The plan, for a request that is run again. `None`: a file has another id, so what is cached of it was dropped.
    ///
    /// # Errors
    /// A file has changed.
    pub(crate) fn plan_again(&self, state: &DeviceState, request: &Request<'_>) -> Result<Option<QueryPlan>, RunError> {
        check_arguments(request)?;
        let mut sources = Vec::with_capacity(self.used.len());
        for ((version, used), id) in request.input.files.iter().zip(&self.used).zip(&self.ids) {
            if *used {
                check_version(state, version)?;
            }
            if state.number(version) != *id {
                return Ok(None);
            }
            sources.push(used.then(|| FileSource::unopened(version)));
        }
        Ok(Some(self.query_plan(sources)))
    }

    /// The decisions. `sources`: by file of the input.
    pub(crate) fn query_plan(&self, sources: Vec<Option<FileSource>>) -> QueryPlan {
        QueryPlan {
            ids: self.ids.clone(),
            sources,
            kernel: self.kernel.clone(),
            choices: self.choices.clone(),
            dense: self.dense.clone(),
            missing_bytes: 0,
        }
    }

    /// The columns' places; they stay for `query`. `None`: a column is not resident any more.
    pub(crate) fn transfer_plan(&self, pool: &mut BufferPool, query: QueryId) -> Option<TransferPlan> {
        let is_used = pool.use_again(query, &self.entries);
        is_used.then(|| TransferPlan::resident(&self.extents, &self.window_ends, self.resident_bytes))
    }
}

/// The plans of a device.
#[derive(Debug, Default)]
pub(crate) struct KeptPlans(Mutex<VecDeque<Arc<KeptPlan>>>);

impl KeptPlans {
    /// The plan of a request, if no column has ceased to be resident since.
    pub(crate) fn find(&self, request: &Request<'_>, residency: &Arc<Residency>) -> Option<Arc<KeptPlan>> {
        let mut plans = self.lock();
        let at = plans
            .iter()
            .position(|plan| plan.is_of(request) && plan.is_valid(residency))?;
        let found = plans.remove(at)?;
        plans.push_front(Arc::clone(&found));
        Some(found)
    }

    /// Keeps the plan of a query that has run, if all its columns were resident before. The query has not
    /// [ended](BufferPool::finish) yet.
    pub(crate) fn keep(
        &self,
        request: &Request<'_>,
        residency: &Arc<Residency>,
        (plan, transfer): (&QueryPlan, &TransferPlan),
        (pool, query): (&BufferPool, QueryId),
    ) {
        let is_resident = plan.choices.iter().all(|choice| choice.backing == Backing::Resident)
            && transfer.jobs.is_empty()
            && transfer.windows.memory.is_none()
            && transfer.page_table.columns.is_empty();
        let Some(entries) = is_resident.then(|| pool.used_entries(query)).flatten() else {
            return;
        };
        let kept = KeptPlan {
            residency: Arc::clone(residency),
            input: Arc::clone(request.input),
            program: request.program.clone(),
            backing: request.backing,
            selectivity: request.selectivity,
            ids: plan.ids.clone(),
            kernel: plan.kernel.clone(),
            choices: plan.choices.clone(),
            dense: plan.dense.clone(),
            used: plan.sources.iter().map(Option::is_some).collect(),
            extents: Arc::clone(&transfer.columns),
            window_ends: transfer.windows.ends.clone(),
            resident_bytes: transfer.resident_bytes,
            entries,
        };
        let mut plans = self.lock();
        // The others are of columns that are gone, of this request, or hold a dictionary that is no longer in use.
        let is_current = |plan: &KeptPlan| plan.input.dictionary == request.input.dictionary;
        plans.retain(|plan| plan.is_valid(residency) && is_current(plan) && !plan.is_of(request));
        plans.push_front(Arc::new(kept));
        plans.truncate(MAX_PLANS);
    }

    /// Drops all plans.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<KeptPlan>>> {
        // Each change leaves a list of whole plans.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use grampus_cuda::Device;

    use super::*;
    use crate::codegen::Grouping;
    use crate::input::{Decode, Decoded};
    use crate::options::Decompression;
    use crate::program::{Stored, Type};
    use crate::runtime::memory::column_key::ColumnKey;
    use crate::runtime::memory::residency::Limits;
    use crate::runtime::transfer::window_plan::WindowPlan;

    #[derive(Debug)]
    struct NoDecoder;

    impl Decode for NoDecoder {
        fn decode(
            &self,
            _: usize,
            _: usize,
            _: std::ops::Range<u64>,
        ) -> Result<Decoded, Box<dyn std::error::Error + Send + Sync>> {
            Err("nothing is decoded here".into())
        }
    }

    fn input() -> Arc<Input> {
        Arc::new(Input {
            files: Vec::new(),
            stripes: Vec::new(),
            column_ids: Vec::new(),
            dictionary: 0,
            value_ranges: Vec::new(),
            value_bounds: Vec::new(),
            decoder: Arc::new(NoDecoder),
        })
    }

    fn nothing() -> Program {
        Program {
            columns: Vec::new(),
            arguments: Vec::new(),
            conjuncts: Vec::new(),
            keys: Vec::new(),
            aggregates: Vec::new(),
        }
    }

    fn request<'a>(program: &'a Program, input: &'a Arc<Input>, cancel: &'a Arc<AtomicBool>) -> Request<'a> {
        Request {
            program,
            arguments: &[],
            input,
            backing: BackingChoice::Auto,
            decompression: Decompression::default(),
            selectivity: 0.5,
            waits_for_memory: false,
            cancel,
        }
    }

    fn key(stripe: usize) -> ColumnKey {
        ColumnKey {
            file: FileId::NONE,
            stripe,
            column: 1,
            ty: Type::Float64,
            stored: Stored::of(Type::Float64),
            dictionary: 0,
        }
    }

    /// A pool for two columns of 100 bytes, of which one is resident.
    fn pool() -> (Arc<Residency>, BufferPool) {
        let residency = Arc::new(Residency::new(Limits {
            capacity: 0,
            pin_bytes: 0,
            block_shared_bytes: 0,
        }));
        let mut pool = BufferPool::new(&Device::host(1, 1 << 20), &residency, 3 << 9);
        let first = pool.begin();
        pool.reserve(first, key(0), 100, None).unwrap().unwrap();
        pool.finish(first, true);
        (residency, pool)
    }

    fn kept(request: &Request<'_>, residency: &Arc<Residency>, pool: &mut BufferPool) -> KeptPlans {
        let plans = KeptPlans::default();
        let plan = QueryPlan {
            ids: Vec::new(),
            sources: Vec::new(),
            kernel: KernelChoice {
                dense: true,
                grouping: Grouping::Ungrouped,
                ranges: Vec::new(),
                groups: 0,
                block_warps: 8,
                is_window: false,
            },
            choices: Vec::new(),
            dense: Vec::new(),
            missing_bytes: 0,
        };
        let mut transfer = TransferPlan::resident(&Arc::default(), &[10], 100);
        let query = pool.begin();
        pool.find(query, &key(0)).unwrap();
        // While a window is lent, bytes stream.
        let memory = pool.lend(query, 8).unwrap();
        transfer.windows = WindowPlan { ends: vec![10], memory };
        plans.keep(request, residency, (&plan, &transfer), (pool, query));
        assert!(plans.lock().is_empty());
        transfer.windows.memory = None;
        plans.keep(request, residency, (&plan, &transfer), (pool, query));
        pool.finish(query, true);
        plans
    }

    #[test]
    fn a_plan_is_found_for_the_same_input_while_all_its_columns_stay() {
        let (residency, mut pool) = pool();
        let (input, cancel, program) = (input(), Arc::new(AtomicBool::new(false)), nothing());
        let request = request(&program, &input, &cancel);
        let plans = kept(&request, &residency, &mut pool);
        let found = plans.find(&request, &residency).unwrap();
        let other = self::input();
        assert!(
            plans
                .find(
                    &Request {
                        input: &other,
                        ..request
                    },
                    &residency
                )
                .is_none()
        );
        let less = Request {
            selectivity: 0.25,
            ..request
        };
        assert!(plans.find(&less, &residency).is_none());
        // The column stays for a query that uses it again, and goes afterwards.
        let query = pool.begin();
        let transfer = found.transfer_plan(&mut pool, query).unwrap();
        assert_eq!((transfer.windows.ends, transfer.resident_bytes), (vec![10], 100));
        pool.evict_unused();
        assert!(residency.known().has(&key(0)));
        pool.finish(query, true);
        pool.evict_unused();
        assert!(!residency.known().has(&key(0)));
        assert!(plans.find(&request, &residency).is_none());
        let late = pool.begin();
        assert!(found.transfer_plan(&mut pool, late).is_none(), "it was found before");
        pool.finish(late, true);
    }

    #[test]
    fn a_dropped_column_that_a_query_uses_again_goes_with_the_query() {
        let (residency, mut pool) = pool();
        let (input, cancel, program) = (input(), Arc::new(AtomicBool::new(false)), nothing());
        let request = request(&program, &input, &cancel);
        let plans = kept(&request, &residency, &mut pool);
        let (found, query) = (plans.find(&request, &residency).unwrap(), pool.begin());
        found.transfer_plan(&mut pool, query).unwrap();
        pool.forget(FileId::NONE);
        assert!(plans.find(&request, &residency).is_none());
        assert_eq!(pool.resident_bytes(), 100);
        pool.finish(query, true);
        assert_eq!(pool.resident_bytes(), 0);
    }
}
