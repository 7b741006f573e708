//! The messages of operators (protocol buffers), and how a scan becomes one.

use std::path::Path;

use datafusion::common::{ScalarValue, internal_err, not_impl_err, plan_datafusion_err};
use datafusion::datasource::object_store::ObjectStoreUrl;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use datafusion_proto::protobuf;

use crate::error::layout;
use crate::file::{Identity, Place, changed};
use crate::scan::orc_scan_exec::OrcScanExec;
use crate::table::files::TableFile;
use crate::table::listing::FoundFile;

/// An operator.
#[derive(Clone, PartialEq, datafusion_prost::Message)]
#[prost(prost_path = "::datafusion_prost")]
pub(super) struct OperatorMessage {
    /// The version of Grampus.
    #[prost(string, tag = "1")]
    pub(super) version: String,
    #[prost(oneof = "Operator", tags = "2, 3, 4")]
    pub(super) operator: Option<Operator>,
}

/// What an operator is.
#[derive(Clone, PartialEq, datafusion_prost::Oneof)]
#[prost(prost_path = "::datafusion_prost")]
pub(super) enum Operator {
    #[prost(message, tag = "2")]
    Scan(ScanMessage),
    /// The plan for the CPU of an aggregation on the GPU.
    #[prost(message, tag = "3")]
    Aggregation(Box<protobuf::PhysicalPlanNode>),
    #[prost(message, boxed, tag = "4")]
    Files(Box<FilesMessage>),
}

/// A `DataSourceExec` over ORC files.
#[derive(Clone, PartialEq, datafusion_prost::Message)]
#[prost(prost_path = "::datafusion_prost")]
pub(super) struct FilesMessage {
    #[prost(message, optional, tag = "1")]
    pub(super) config: Option<protobuf::FileScanExecConf>,
    /// The filters that the source evaluates, over the table's columns.
    #[prost(message, repeated, tag = "2")]
    pub(super) filters: Vec<protobuf::PhysicalExprNode>,
    /// The setting `grampus.invalid_utf8`.
    #[prost(string, tag = "3")]
    pub(super) invalid_utf8: String,
}

/// An [`OrcScanExec`].
#[derive(Clone, PartialEq, datafusion_prost::Message)]
#[prost(prost_path = "::datafusion_prost")]
pub(super) struct ScanMessage {
    /// The table's columns: those of files, then partition columns.
    #[prost(message, optional, tag = "1")]
    pub(super) table: Option<protobuf::Schema>,
    /// The number of the columns of files.
    #[prost(uint64, tag = "2")]
    pub(super) file_columns: u64,
    #[prost(message, repeated, tag = "3")]
    pub(super) files: Vec<FileMessage>,
    /// Places of the emitted columns in the table.
    #[prost(uint64, repeated, tag = "4")]
    pub(super) projection: Vec<u64>,
    /// The filter, over the table's columns.
    #[prost(message, repeated, tag = "5")]
    pub(super) conjuncts: Vec<protobuf::PhysicalExprNode>,
    #[prost(uint64, optional, tag = "6")]
    pub(super) limit: Option<u64>,
    #[prost(uint64, tag = "7")]
    pub(super) partitions: u64,
    /// The setting `grampus.invalid_utf8`.
    #[prost(string, tag = "8")]
    pub(super) invalid_utf8: String,
}

/// A file of a table.
#[derive(Clone, PartialEq, datafusion_prost::Message)]
#[prost(prost_path = "::datafusion_prost")]
pub(super) struct FileMessage {
    /// The name in error messages.
    #[prost(string, tag = "1")]
    name: String,
    /// The store's URL; empty: the file system.
    #[prost(string, tag = "2")]
    store: String,
    /// The path in the store, or in the file system.
    #[prost(string, tag = "3")]
    path: String,
    /// Bytes.
    #[prost(uint64, tag = "4")]
    length: u64,
    /// The last modification: seconds since 1970, and nanoseconds.
    #[prost(sint64, tag = "5")]
    modified_seconds: i64,
    #[prost(uint32, tag = "6")]
    modified_nanoseconds: u32,
    #[prost(string, optional, tag = "7")]
    etag: Option<String>,
    /// Values by partition column of the table.
    #[prost(message, repeated, tag = "8")]
    partition_values: Vec<protobuf::ScalarValue>,
}

/// The message of a scan. Dynamic filters stay behind: the operators that make them exclude the same rows again.
///
/// # Errors
/// If a file has no place that another process can find, or an expression has no message.
pub(super) fn of_scan(
    exec: &OrcScanExec,
    codec: &dyn PhysicalExtensionCodec,
    converter: &dyn PhysicalProtoConverterExtension,
) -> Result<ScanMessage> {
    let scan = exec.scan();
    if !scan.coded.is_empty() {
        return internal_err!("a scan that emits dictionaries travels with its aggregation only");
    }
    let conjuncts = scan.conjuncts.iter();
    let conjuncts = conjuncts.map(|conjunct| converter.physical_expr_to_proto(&conjunct.expr, codec));
    let partition_columns = scan.files.first().map_or(0, |file| file.partition_values.len());
    Ok(ScanMessage {
        table: Some(scan.table.as_ref().try_into()?),
        file_columns: (scan.table.fields().len() - partition_columns) as u64,
        files: scan.files.iter().map(of_file).collect::<Result<_>>()?,
        projection: scan.projection.iter().map(|&column| column as u64).collect(),
        conjuncts: conjuncts.collect::<Result<_>>()?,
        limit: exec.limit().map(|limit| limit as u64),
        partitions: exec.properties().partitioning.partition_count() as u64,
        invalid_utf8: scan.options.invalid_utf8.to_string(),
    })
}

fn of_file(file: &TableFile) -> Result<FileMessage> {
    let (name, identity) = (&file.file.name, &file.file.identity);
    let (store, path) = match &file.file.place {
        Place::Local(path) => {
            let path = std::path::absolute(path)?;
            let path = path.to_str().ok_or_else(|| {
                plan_datafusion_err!("{name}: a path that is not UTF-8 does not travel; rename the file")
            })?;
            (String::new(), path.to_owned())
        }
        Place::Remote { url, path, .. } => {
            if ObjectStoreUrl::parse(url).is_err() {
                return not_impl_err!("{name}: the URL of its store is unknown; open the files as an OrcTable");
            }
            (url.to_string(), path.to_string())
        }
    };
    let values = file.partition_values.iter();
    let values = values.map(|value| protobuf::ScalarValue::try_from(value).map_err(DataFusionError::from));
    Ok(FileMessage {
        name: name.to_string(),
        store,
        path,
        length: identity.length,
        modified_seconds: identity.modified_ns.div_euclid(1_000_000_000) as i64,
        modified_nanoseconds: identity.modified_ns.rem_euclid(1_000_000_000) as u32,
        etag: identity.etag.clone(),
        partition_values: values.collect::<Result<_>>()?,
    })
}

impl FileMessage {
    /// The file, where this process finds it.
    ///
    /// # Errors
    /// If there is no such store, or the local file is missing or has another length or time than the message says.
    pub(super) fn found(&self, context: &TaskContext) -> Result<FoundFile> {
        let name = self.name.as_str().into();
        let planned = Identity {
            length: self.length,
            modified_ns: i128::from(self.modified_seconds) * 1_000_000_000 + i128::from(self.modified_nanoseconds),
            inode: None,
            etag: self.etag.clone(),
        };
        let (place, identity) = if self.store.is_empty() {
            let path = Path::new(&self.path);
            let metadata = std::fs::metadata(path);
            let metadata = metadata.map_err(|error| plan_datafusion_err!("{}: {error}", self.path))?;
            // Another machine sees a shared file under another inode.
            let now = Identity::of_local(&metadata);
            let inode = now.inode;
            if now
                != (Identity {
                    inode,
                    ..planned.clone()
                })
            {
                return Err(layout(changed(&name, &Identity { inode, ..planned }, &now)));
            }
            (Place::Local(path.to_owned()), now)
        } else {
            let url = ObjectStoreUrl::parse(&self.store)?;
            let place = Place::Remote {
                store: context.runtime_env().object_store(&url)?,
                url: url.as_str().into(),
                path: object_store::path::Path::parse(&self.path)?,
            };
            (place, planned)
        };
        Ok(FoundFile {
            name,
            place,
            identity,
            folders: Vec::new(),
            is_named: true,
        })
    }

    /// Values by partition column of the table.
    ///
    /// # Errors
    /// If a message is damaged.
    pub(super) fn partition_values(&self) -> Result<Vec<ScalarValue>> {
        let values = self.partition_values.iter();
        values.map(|value| Ok(ScalarValue::try_from(value)?)).collect()
    }
}
