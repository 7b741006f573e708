//! Common parts of the whole-crate tests: sessions under several settings, ORC files of our writer, and a full reader.
//!
//! Tests compare on-demand answers with those of the full reader, orc-rust.
#![allow(dead_code)] // each test binary uses a part of it

pub(crate) mod seeds;

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use datafusion::datasource::MemTable;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use grampus::gpu::gpu_aggregate_exec::GpuAggregateExec;
use grampus::{Device, GpuBacking, GpuTarget, GrampusConfig, GrampusOptions, LocalIo};
use grampus_orc_layout::write::{ArrowWriter, WriterProperties};
use orc_rust::ArrowReaderBuilder;
use orc_rust::schema::TimestampPrecision;

/// Settings that must not change any answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    /// Partitions that a query runs on.
    pub(crate) partitions: usize,
    /// The way files are read.
    pub(crate) local_io: LocalIo,
    /// Rows per batch.
    pub(crate) batch_rows: usize,
    /// Rows that a filter evaluates in one step.
    pub(crate) tile_rows: usize,
    /// Minimum rows of a partition.
    pub(crate) min_partition_rows: usize,
    /// Whether statistics and bloom filters may skip rows.
    pub(crate) prune: bool,
    /// Backing for kernels on host threads, which compute each aggregate that they can; `None`: the CPU computes all.
    pub(crate) gpu: Option<GpuBacking>,
}

/// The defaults with one partition; small sizes; more partitions than stripes; no pruning and odd sizes.
pub(crate) const SETTINGS: [Setting; 4] = [
    Setting {
        partitions: 1,
        local_io: LocalIo::Mmap,
        batch_rows: 8192,
        tile_rows: 65_536,
        min_partition_rows: 16_384,
        prune: true,
        gpu: None,
    },
    Setting {
        partitions: 4,
        local_io: LocalIo::Read,
        batch_rows: 3,
        tile_rows: 5,
        min_partition_rows: 16_384,
        prune: true,
        gpu: None,
    },
    Setting {
        partitions: 4,
        local_io: LocalIo::Mmap,
        batch_rows: 8192,
        tile_rows: 65_536,
        min_partition_rows: 16_384,
        prune: true,
        gpu: None,
    },
    Setting {
        partitions: 1,
        local_io: LocalIo::Read,
        batch_rows: 100,
        tile_rows: 64,
        min_partition_rows: 16_384,
        prune: false,
        gpu: None,
    },
];

/// The GPU path: resident columns, the NVMe command path, and paged columns.
pub(crate) const GPU_SETTINGS: [Setting; 3] = [
    Setting {
        partitions: 4,
        local_io: LocalIo::Mmap,
        batch_rows: 8192,
        tile_rows: 65_536,
        min_partition_rows: 16_384,
        prune: true,
        gpu: Some(GpuBacking::Resident),
    },
    Setting {
        partitions: 1,
        local_io: LocalIo::Mmap,
        batch_rows: 3,
        tile_rows: 65_536,
        min_partition_rows: 16_384,
        prune: false,
        gpu: Some(GpuBacking::Queued),
    },
    Setting {
        partitions: 4,
        local_io: LocalIo::Read,
        batch_rows: 8192,
        tile_rows: 65_536,
        min_partition_rows: 16_384,
        prune: true,
        gpu: Some(GpuBacking::Paged),
    },
];

/// The folder of compiled kernels. Kernels are keyed by their source, so tests and runs share them.
pub(crate) fn kernel_folder() -> String {
    format!("{}/gpu-cache", env!("CARGO_TARGET_TMPDIR"))
}

/// The numbers of aggregations of an executed plan that the GPU computed, and that fell back to the CPU.
pub(crate) fn gpu_runs(plan: &Arc<dyn ExecutionPlan>) -> (usize, usize) {
    let mut runs = plan
        .children()
        .into_iter()
        .map(gpu_runs)
        .fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    if let Some(gpu) = plan.downcast_ref::<GpuAggregateExec>() {
        match gpu.fell_back() {
            None => runs.0 += 1,
            Some(_) => runs.1 += 1,
        }
    }
    runs
}

/// Whether kernels can be compiled for host threads. If not, prints that `test` is skipped.
pub(crate) fn has_compiler(test: &str) -> bool {
    if gpu_target() == GpuTarget::Cuda {
        return true; // NVRTC, or the test fails
    }
    match grampus_cuda::host_compiler() {
        Ok(_) => true,
        Err(e) => {
            grampus_test_support::missing(grampus_test_support::Resource::Compiler, format_args!("{test}: {e}"));
            false
        }
    }
}

/// As [`has_compiler`], for a test with stand-ins on host threads: of nvCOMP, or of another machine's rates.
pub(crate) fn has_stand_ins(test: &str) -> bool {
    if gpu_target() == GpuTarget::Cuda {
        println!("ignored: {test} has stand-ins on host threads");
        return false;
    }
    has_compiler(test)
}

/// The first GPU if `GRAMPUS_TEST_CUDA` is set, else host threads.
pub(crate) fn gpu_target() -> GpuTarget {
    match std::env::var_os("GRAMPUS_TEST_CUDA") {
        Some(_) => GpuTarget::Cuda,
        None => GpuTarget::Host,
    }
}

impl Setting {
    /// A session with this setting.
    pub(crate) fn context(&self) -> SessionContext {
        let mut options = GrampusOptions::default();
        options.local_io = self.local_io;
        options.tile_rows = self.tile_rows;
        options.min_partition_rows = self.min_partition_rows;
        options.prune = self.prune;
        options.device = Device::Cpu;
        if let Some(backing) = self.gpu {
            options.device = Device::Prefer;
            options.gpu_target = gpu_target();
            options.gpu_backing = backing;
            options.cache_folder = kernel_folder();
            options.gpu_cache_bytes = 256 << 20;
        }
        grampus::session::context(GrampusConfig {
            target_partitions: Some(self.partitions),
            batch_rows: Some(self.batch_rows),
            options,
            ..GrampusConfig::default()
        })
        .expect("a session")
    }
}

/// Writes `batches` as one ORC file.
pub(crate) fn write_orc(path: &Path, schema: SchemaRef, batches: &[RecordBatch], options: WriterProperties) {
    let file = File::create(path).expect("a file in the temporary folder");
    let mut writer = ArrowWriter::try_new(file, schema, Some(options)).expect("a schema that ORC can store");
    for batch in batches {
        writer.write(batch).expect("a batch of the writer's schema");
    }
    writer.close().expect("room on the disk");
}

/// All rows of a file by orc-rust's full read, in file order. If orc-rust fails or panics, its error.
pub(crate) fn full_read(path: &Path) -> Result<RecordBatch, String> {
    full_read_in(path, TimestampPrecision::Nanosecond)
}

/// The same with timestamps in this unit.
pub(crate) fn full_read_in(path: &Path, unit: TimestampPrecision) -> Result<RecordBatch, String> {
    let bytes = bytes::Bytes::from(std::fs::read(path).map_err(|error| error.to_string())?);
    catch_unwind(AssertUnwindSafe(|| {
        let builder = ArrowReaderBuilder::try_new(bytes).map_err(|error| error.to_string())?;
        let builder = builder.with_timestamp_precision(unit);
        let schema = builder.schema();
        let batches = builder
            .build()
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| error.to_string())?;
        concat_batches(&schema, &batches).map_err(|error| error.to_string())
    }))
    .unwrap_or_else(|_| Err("panicked".to_owned()))
}

/// Registers `rows` as the in-memory table `name`. DataFusion's answers over this table are right by definition.
pub(crate) fn register_rows(context: &SessionContext, name: &str, rows: &RecordBatch) {
    let table = MemTable::try_new(rows.schema(), vec![vec![rows.clone()]]).expect("one schema");
    context.register_table(name, Arc::new(table)).expect("a new name");
}

/// All batches as one.
pub(crate) fn one_batch(schema: &SchemaRef, batches: &[RecordBatch]) -> RecordBatch {
    concat_batches(schema, batches).expect("batches of one schema")
}

/// The first difference; `None`: the columns hold the same values in the same order, floats compared bit by bit.
pub(crate) fn difference(expected: &RecordBatch, actual: &RecordBatch) -> Option<String> {
    if expected.num_columns() != actual.num_columns() || expected.num_rows() != actual.num_rows() {
        return Some(format!(
            "{} columns x {} rows instead of {} x {}",
            actual.num_columns(),
            actual.num_rows(),
            expected.num_columns(),
            expected.num_rows()
        ));
    }
    for (index, field) in expected.schema().fields().iter().enumerate() {
        let (wanted, got) = (expected.column(index), actual.column(index));
        let name = field.name();
        if actual.schema().field(index).name() != name {
            return Some(format!(
                "column {index} is {} instead of {name}",
                actual.schema().field(index).name()
            ));
        }
        if wanted.data_type() != got.data_type() {
            return Some(format!(
                "column {name} is {} instead of {}",
                got.data_type(),
                wanted.data_type()
            ));
        }
        if wanted.to_data() != got.to_data() {
            let row = (0..wanted.len()).find(|&row| wanted.slice(row, 1).to_data() != got.slice(row, 1).to_data());
            let row = row.unwrap_or(0);
            return Some(format!(
                "column {name} ({}), row {row}: {:?} instead of {:?}",
                wanted.data_type(),
                got.slice(row, 1),
                wanted.slice(row, 1)
            ));
        }
    }
    None
}
