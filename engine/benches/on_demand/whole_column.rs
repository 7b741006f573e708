//! `WholeColumnTable`: orc-rust reads whole columns of a query, stripes in parallel, and DataFusion filters the rows.
//!
//! The table, the SQL and the plan above the scan are the same as with the on-demand scan.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use orc_rust::ArrowReaderBuilder;
use orc_rust::projection::ProjectionMask;
use orc_rust::reader::ChunkReader;

/// A folder of ORC files, read by whole columns.
#[derive(Debug)]
pub(crate) struct WholeColumnTable {
    files: Vec<PathBuf>,
    schema: SchemaRef,
    /// File and offset of each stripe.
    stripes: Vec<(usize, u64)>,
    moved_bytes: Arc<AtomicU64>,
}

impl WholeColumnTable {
    pub(crate) fn open(files: &[PathBuf]) -> Result<Self> {
        let moved_bytes = Arc::new(AtomicU64::new(0));
        let mut schema = None;
        let mut stripes = Vec::new();
        for (index, file) in files.iter().enumerate() {
            let builder = ArrowReaderBuilder::try_new(PositionedFile::open(file, &moved_bytes)?).map_err(external)?;
            stripes.extend(
                builder
                    .file_metadata()
                    .stripe_metadatas()
                    .iter()
                    .map(|stripe| (index, stripe.offset())),
            );
            schema.get_or_insert_with(|| builder.schema());
        }
        let schema = schema.ok_or_else(|| DataFusionError::Plan("no file".into()))?;
        Ok(Self {
            files: files.to_vec(),
            schema,
            stripes,
            moved_bytes,
        })
    }

    /// Bytes read since the last call.
    pub(crate) fn take_moved_bytes(&self) -> u64 {
        self.moved_bytes.swap(0, Ordering::Relaxed)
    }
}

#[async_trait]
impl TableProvider for WholeColumnTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = projection
            .cloned()
            .unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let schema = Arc::new(self.schema.project(&columns)?);
        let partitions = state.config().target_partitions().min(self.stripes.len()).max(1);
        let mut work = vec![Vec::new(); partitions];
        for (index, stripe) in self.stripes.iter().enumerate() {
            work[index * partitions / self.stripes.len()].push(*stripe);
        }
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Arc::new(WholeColumnExec {
            files: self.files.clone(),
            schema,
            work,
            properties: Arc::new(properties),
            moved_bytes: Arc::clone(&self.moved_bytes),
        }))
    }
}

/// The operator that reads the projected columns of each partition's stripes.
#[derive(Debug)]
struct WholeColumnExec {
    files: Vec<PathBuf>,
    schema: SchemaRef,
    work: Vec<Vec<(usize, u64)>>,
    properties: Arc<PlanProperties>,
    moved_bytes: Arc<AtomicU64>,
}

impl DisplayAs for WholeColumnExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "WholeColumnExec: files={}, partitions={}",
            self.files.len(),
            self.work.len()
        )
    }
}

impl ExecutionPlan for WholeColumnExec {
    fn name(&self) -> &str {
        "WholeColumnExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = Arc::clone(&self.schema);
        let moved_bytes = Arc::clone(&self.moved_bytes);
        let files = self.files.clone();
        let batch_rows = context.session_config().batch_size();
        let batches = self.work[partition].clone().into_iter().flat_map({
            let schema = Arc::clone(&schema);
            move |(file, offset)| match stripe_batches(&files[file], offset, &schema, batch_rows, &moved_bytes) {
                Ok(batches) => batches,
                Err(error) => Box::new(std::iter::once(Err(error))),
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            schema,
            futures::stream::iter(batches),
        )))
    }
}

type Batches = Box<dyn Iterator<Item = Result<arrow::array::RecordBatch>> + Send>;

/// The columns of `schema` of the stripe at `offset`, in the schema's order.
fn stripe_batches(
    file: &Path,
    offset: u64,
    schema: &SchemaRef,
    batch_rows: usize,
    moved_bytes: &Arc<AtomicU64>,
) -> Result<Batches> {
    let builder = ArrowReaderBuilder::try_new(PositionedFile::open(file, moved_bytes)?).map_err(external)?;
    let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let mask = ProjectionMask::named_roots(builder.file_metadata().root_data_type(), &names);
    let only: Range<usize> = offset as usize..offset as usize + 1;
    let reader = builder
        .with_batch_size(batch_rows)
        .with_projection(mask)
        .with_file_byte_range(only)
        .build();
    let schema = Arc::clone(schema);
    Ok(Box::new(reader.map(move |batch| {
        let batch = batch?;
        if schema.fields().is_empty() {
            return Ok(batch);
        }
        let places = schema
            .fields()
            .iter()
            .map(|field| batch.schema().index_of(field.name()));
        Ok(batch.project(&places.collect::<Result<Vec<_>, _>>()?)?)
    })))
}

fn external(error: orc_rust::error::OrcError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Positioned reads. orc-rust's own file reader shares one cursor between readers.
struct PositionedFile {
    file: Arc<File>,
    length: u64,
    moved_bytes: Arc<AtomicU64>,
}

impl PositionedFile {
    fn open(path: &Path, moved_bytes: &Arc<AtomicU64>) -> Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Ok(Self {
            file: Arc::new(file),
            length,
            moved_bytes: Arc::clone(moved_bytes),
        })
    }
}

impl ChunkReader for PositionedFile {
    type T = PositionedRead;

    fn len(&self) -> u64 {
        self.length
    }

    fn get_read(&self, offset: u64) -> std::io::Result<PositionedRead> {
        Ok(PositionedRead {
            file: Arc::clone(&self.file),
            offset,
        })
    }

    fn get_bytes(&self, offset: u64, length: u64) -> std::io::Result<Bytes> {
        let mut bytes = vec![0; length as usize];
        self.file.read_exact_at(&mut bytes, offset)?;
        self.moved_bytes.fetch_add(length, Ordering::Relaxed);
        Ok(bytes.into())
    }
}

/// A reader with its own position.
struct PositionedRead {
    file: Arc<File>,
    offset: u64,
}

impl Read for PositionedRead {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read_at(out, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}
