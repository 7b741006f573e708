//! [`Grampus`]: the state that sessions share, and its [`GrampusBuilder`].

use std::fmt;
use std::sync::Arc;

use datafusion::common::config_err;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::cache::cache_manager::CacheManagerConfig;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::object_store::ObjectStoreRegistry;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

use super::large_limits::LargeLimits;
use super::path_tables::with_tables_by_path;
use super::session_change::SessionChange;
use super::session_memory::SessionMemory;
use crate::aggregate::indexed_aggregates::IndexedAggregates;
use crate::config::{Device, GrampusConfig};
use crate::datafusion_repairs;
use crate::datafusion_repairs::drawn_once::DrawnOnce;
use crate::datafusion_repairs::float_keys::FloatKeys;
use crate::datafusion_repairs::float_literals::FloatLiterals;
use crate::datafusion_repairs::map_entries::MapEntries;
use crate::datafusion_repairs::parquet_nans::{ParquetBounds, ParquetFilters};
use crate::datafusion_repairs::scalar_functions::RepairedFunction;
use crate::datafusion_repairs::shifts::Shift;
use crate::datafusion_repairs::spill_safe_repartition::SpillSafeRepartitions;
use crate::datafusion_repairs::subqueries::Subqueries;
use crate::device_settings::RuntimeSettings;
use crate::file::file_cache::FileCache;
use crate::gpu::background_loader::BackgroundLoader;
use crate::gpu::offload_rule::OffloadRule;
use crate::gpu::session::GpuSession;
use crate::join::cooperative_joins::CooperativeJoins;
use crate::join::scan_filter_estimates::ScanFilterEstimates;
use crate::join::spilling_join::SpillingJoins;
use crate::named_files::named_format::NamedFormatFactory;
use crate::orc_format::OrcFormatFactory;
use crate::orc_table_factory::OrcTableFactory;
use crate::parquet_scan::cascade_rule::ParquetCascade;
use crate::statement::char_literals::CharLiterals;
use crate::statement::confinement::Confined;
use crate::statement::definitions::Macros;
use crate::statement::listed_once::ListedOnce;
use crate::statement::long_chains::BalancedChains;
use crate::statement::plan_cache::PlanCache;
use crate::statement::replaced_files::ReplacedFiles;
use crate::statement::store_statements::{StoreCopies, StoreTables};
use crate::statement::timestamp_literals::TimestampLiterals;
use crate::store::lazy_stores::LazyStores;
use crate::{relations, sql_functions};

/// One runtime for any number of sessions, threads and tokio runtimes. Clones are the same runtime.
///
/// The sessions of a runtime share:
///
/// - open files and their parsed metadata;
/// - the GPU, its settings, its cached columns and its measurements. `SET` of `grampus.gpu`, `gpu_target`,
///   `gpu_cache_bytes`, `gpu_sector_bytes` and `cache_folder` holds for all sessions, and is refused while the device
///   is open;
/// - the memory pool, for sessions of [`context`](Self::context).
///
/// Catalogs, other settings, plans, object stores and their credentials are each session's own.
///
/// # Two sessions over one runtime
///
/// ```
/// # async fn two_sessions() -> datafusion::error::Result<()> {
/// use datafusion::execution::SessionStateBuilder;
/// use datafusion::prelude::SessionContext;
/// use grampus::{Grampus, GrampusConfig};
///
/// let grampus = Grampus::builder().config(GrampusConfig::default()).build()?;
/// let own = SessionStateBuilder::new().with_default_features();
/// let one = SessionContext::new_with_state(grampus.register(own).build());
/// let other = grampus.context()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Grampus {
    config: GrampusConfig,
    without: Vec<SessionChange>,
    memory: SessionMemory,
    files: Arc<FileCache>,
    gpu: Arc<GpuSession>,
    loader: Arc<BackgroundLoader>,
}

impl fmt::Debug for Grampus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Grampus");
        text.field("config", &self.config).field("without", &self.without);
        text.finish_non_exhaustive()
    }
}

/// The configuration of a [`Grampus`].
#[derive(Debug, Default)]
pub struct GrampusBuilder {
    config: GrampusConfig,
    without: Vec<SessionChange>,
    metadata_bytes: Option<usize>,
    gpu: Option<Arc<GpuSession>>,
}

impl GrampusBuilder {
    /// The configuration that sessions start with. The memory limit holds for all sessions of
    /// [`Grampus::context`] together.
    #[must_use]
    pub fn config(mut self, config: GrampusConfig) -> Self {
        self.config = config;
        self
    }

    /// Switches one change of an owner's session off.
    #[must_use]
    pub fn without(mut self, change: SessionChange) -> Self {
        self.without.push(change);
        self
    }

    /// Maximum estimated bytes of parsed metadata of files, at most 256 MiB. The default is an eighth of the memory
    /// limit.
    #[must_use]
    pub fn metadata_bytes(mut self, bytes: usize) -> Self {
        self.metadata_bytes = Some(bytes);
        self
    }

    /// Sets the GPU state.
    #[cfg(test)]
    pub(crate) fn gpu(mut self, gpu: Arc<GpuSession>) -> Self {
        self.gpu = Some(gpu);
        self
    }

    /// The runtime. No file and no device is opened before a query needs it.
    ///
    /// # Errors
    /// If the configuration asks for the GPU and [`without`](Self::without) has switched the GPU off.
    pub fn build(self) -> Result<Grampus> {
        if self.config.options.device == Device::Gpu && self.without.contains(&SessionChange::GpuAggregates) {
            return config_err!(
                "grampus.device is 'gpu', but the session is made without GpuAggregates: drop one of the two"
            );
        }
        Ok(self.assemble())
    }

    /// The runtime, whatever the settings.
    pub(super) fn assemble(self) -> Grampus {
        let partitions = self.config.target_partitions;
        let partitions = partitions.unwrap_or_else(|| SessionConfig::new().target_partitions());
        let memory = SessionMemory::new(self.config.memory_limit, partitions.max(1));
        let files = match self.metadata_bytes {
            Some(bytes) => FileCache::of_bytes(bytes),
            None => FileCache::within(memory.limit_bytes()),
        };
        let mut config = self.config;
        config.options.runtime = Some(RuntimeSettings::new(config.options.device_settings()));
        Grampus {
            config,
            without: self.without,
            memory,
            files: Arc::new(files),
            gpu: self.gpu.unwrap_or_default(),
            loader: Arc::default(),
        }
    }
}

/// The builder with ORC among the file formats.
fn with_orc_format(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    builder
        .file_formats()
        .get_or_insert_default()
        .push(Arc::new(OrcFormatFactory));
    builder
}

/// The builder with formats whose errors name the file.
fn with_named_files(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    for format in builder.file_formats().get_or_insert_default() {
        let inner = Arc::clone(format);
        *format = Arc::new(NamedFormatFactory { inner });
    }
    builder
}

/// The builder with OPTIONS of stores in its statements.
fn with_store_options(mut builder: SessionStateBuilder, stores: &Arc<LazyStores>) -> SessionStateBuilder {
    for tables in builder.table_factories().get_or_insert_default().values_mut() {
        *tables = Arc::new(StoreTables {
            tables: Arc::clone(tables),
            stores: Arc::clone(stores),
        });
    }
    builder.with_analyzer_rule(Arc::new(StoreCopies {
        stores: Arc::clone(stores),
    }))
}

impl Grampus {
    /// A builder with the defaults.
    pub fn builder() -> GrampusBuilder {
        GrampusBuilder::default()
    }

    /// Adds Grampus to an owner's session.
    ///
    /// The session gets the settings `grampus.*` and the changes of [`SessionChange`], each of which can be switched
    /// off. Memory, partitions, catalogs, functions and object stores stay as the owner sets them. But for
    /// `filter_samples`, the rules run after those that the builder has. [`memory_pool`](Self::memory_pool) is for
    /// owners whose sessions share the limit.
    pub fn register(&self, mut builder: SessionStateBuilder) -> SessionStateBuilder {
        let has = |change| !self.without.contains(&change);
        let mut session = builder.config().take().unwrap_or_default();
        session = session
            .with_extension(Arc::clone(&self.files))
            .with_option_extension(self.config.options.clone());
        if has(SessionChange::PlanCache) {
            session = session.with_extension(Arc::new(PlanCache::default()));
        }
        builder = builder.with_config(session);
        if has(SessionChange::OrcTables) {
            builder = builder
                .with_table_factory("ORC".to_owned(), Arc::new(OrcTableFactory))
                .with_analyzer_rule(Arc::new(ReplacedFiles));
            builder = ListedOnce::install(builder);
        }
        if has(SessionChange::OrcFormat) {
            builder = with_orc_format(builder);
        }
        if has(SessionChange::DataFusionRepairs) {
            builder = datafusion_repairs::install(builder);
            builder = builder.with_optimizer_rule(Arc::new(BalancedChains));
        }
        if has(SessionChange::CharLiterals) {
            builder = builder.with_analyzer_rule(Arc::new(CharLiterals));
        }
        if has(SessionChange::TimestampLiterals) {
            builder = builder.with_analyzer_rule(Arc::new(TimestampLiterals));
        }
        if has(SessionChange::FloatZeros) {
            builder = builder.with_analyzer_rule(Arc::new(FloatLiterals));
            builder = builder.with_optimizer_rule(Arc::new(FloatKeys));
        }
        if has(SessionChange::ParquetNans) {
            ParquetBounds::insert_into(builder.physical_optimizers().get_or_insert_default());
            builder = builder.with_physical_optimizer_rule(Arc::new(ParquetFilters));
        }
        if has(SessionChange::ParquetCascade) {
            let has_samples = has(SessionChange::FilterSamples);
            ParquetCascade { has_samples }.insert_into(builder.physical_optimizers().get_or_insert_default());
        }
        if has(SessionChange::DrawnOnce) {
            builder = builder.with_analyzer_rule(Arc::new(DrawnOnce));
        }
        // After the rules that see the expressions of subqueries as written.
        if has(SessionChange::DataFusionRepairs) {
            builder = builder.with_analyzer_rule(Arc::new(Subqueries));
        }
        if has(SessionChange::RepairedFunctions) {
            let functions = builder.scalar_functions().get_or_insert_default();
            RepairedFunction::replace_in(functions);
            MapEntries::replace_in(functions);
            Shift::replace_in(builder.window_functions().get_or_insert_default());
        }
        if has(SessionChange::SqlFunctions) {
            builder = sql_functions::install(builder);
            builder = relations::install(builder);
            let session = builder.config().take().unwrap_or_default();
            builder = builder.with_config(session.with_extension(Arc::new(Macros::default())));
        }
        if has(SessionChange::FilterSamples) {
            ScanFilterEstimates::insert_into(builder.physical_optimizers().get_or_insert_default());
        }
        // Before the rules whose operators hide an aggregation's input from it.
        if has(SessionChange::GpuAggregates) {
            let rule = OffloadRule::new(Arc::clone(&self.gpu), Arc::clone(&self.loader));
            builder = builder.with_physical_optimizer_rule(Arc::new(rule));
        }
        if has(SessionChange::IndexedAggregates) {
            builder = builder.with_physical_optimizer_rule(Arc::new(IndexedAggregates));
        }
        if has(SessionChange::SpillSafeRepartitions) {
            builder = builder.with_physical_optimizer_rule(Arc::new(SpillSafeRepartitions));
        }
        if has(SessionChange::SpillingJoins) {
            builder = builder.with_physical_optimizer_rule(Arc::new(SpillingJoins));
        }
        if has(SessionChange::CooperativeJoins) {
            builder = builder.with_physical_optimizer_rule(Arc::new(CooperativeJoins));
        }
        builder
    }

    /// Waits until no columns are being loaded in the background.
    #[cfg(test)]
    pub(crate) fn wait_for_loads(&self) {
        self.loader.wait_until_idle();
    }

    /// A new session with nothing else in it. A path stands for a table: `FROM 'trips.orc'`.
    ///
    /// # Errors
    /// If the runtime cannot be set up (no temporary folder, say).
    pub fn context(&self) -> Result<SessionContext> {
        let mut session = SessionConfig::new().with_information_schema(true);
        if let Some(partitions) = self.config.target_partitions {
            session = session.with_target_partitions(partitions.max(1));
        }
        session = self.memory.fit(session);
        if let Some(rows) = self.config.batch_rows {
            session = session.with_batch_size(rows.max(1));
        }
        let rows = self.memory.first_rows(session.target_partitions());
        let stores = Arc::new(LazyStores::default());
        session = session.with_extension(Arc::clone(stores.secrets()));
        if self.config.is_confined {
            session = session.with_extension(Arc::new(Confined));
        }
        // DataFusion's cache of listings never ends and does not tell the stores of two buckets apart.
        let caches = CacheManagerConfig::default().with_list_files_cache_limit(0);
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(self.memory_pool())
            .with_cache_manager(caches)
            .with_object_store_registry(Arc::clone(&stores) as Arc<dyn ObjectStoreRegistry>);
        let state = SessionStateBuilder::new()
            .with_config(session)
            .with_runtime_env(runtime.build_arc()?)
            .with_default_features()
            .with_physical_optimizer_rule(Arc::new(LargeLimits { rows }));
        let state = self.register(with_named_files(state));
        let state = with_store_options(state, &stores).build();
        Ok(with_tables_by_path(SessionContext::new_with_state(state)))
    }

    /// The pool from which the queries of [`context`](Self::context) reserve memory, within the configured limit.
    pub fn memory_pool(&self) -> Arc<dyn MemoryPool> {
        Arc::clone(&self.memory.pool)
    }
}
