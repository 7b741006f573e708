//! [`DataSourceExec`]s over an [`OrcSource`] as messages.

use std::sync::Arc;

use datafusion::common::{not_impl_err, plan_datafusion_err};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::from_proto::{parse_protobuf_file_scan_config, parse_table_schema_from_proto};
use datafusion_proto::physical_plan::to_proto::serialize_file_scan_config;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};

use super::message::FilesMessage;
use crate::orc_source::OrcSource;

/// The configuration and the source, if the operator scans ORC files.
pub(super) fn listed(plan: &dyn ExecutionPlan) -> Option<(&FileScanConfig, &OrcSource)> {
    let source = plan.downcast_ref::<DataSourceExec>()?.data_source();
    let config = source.downcast_ref::<FileScanConfig>()?;
    Some((config, config.file_source().downcast_ref()?))
}

/// The message. Dynamic filters stay behind: the operators that make them exclude the same rows again.
///
/// # Errors
/// If the configuration has an adapter, or an expression has no message.
pub(super) fn encoded(
    (config, source): (&FileScanConfig, &OrcSource),
    codec: &dyn PhysicalExtensionCodec,
    converter: &dyn PhysicalProtoConverterExtension,
) -> Result<FilesMessage> {
    if config.expr_adapter_factory.is_some() {
        return not_impl_err!("a scan of ORC files with a PhysicalExprAdapterFactory does not travel");
    }
    let filters = source.constant_filters().iter();
    let filters = filters.map(|filter| converter.physical_expr_to_proto(filter, codec));
    Ok(FilesMessage {
        config: Some(serialize_file_scan_config(config, codec, converter)?),
        filters: filters.collect::<Result<_>>()?,
        invalid_utf8: source.invalid_utf8().to_string(),
    })
}

/// The operator, with the settings and files of the task's session.
///
/// # Errors
/// If the message is damaged.
pub(super) fn decoded(
    message: &FilesMessage,
    context: &PhysicalPlanDecodeContext<'_>,
    converter: &dyn PhysicalProtoConverterExtension,
    task: &TaskContext,
) -> Result<Arc<dyn ExecutionPlan>> {
    let config = message.config.as_ref();
    let config = config.ok_or_else(|| plan_datafusion_err!("the message of a scan has no configuration"))?;
    let schema = parse_table_schema_from_proto(config)?;
    let mut source = OrcSource::new(schema.clone()).in_task(task, message.invalid_utf8.parse()?);
    for filter in &message.filters {
        source = source.with_predicate(converter.proto_to_physical_expr(filter, schema.table_schema(), context)?);
    }
    let config = parse_protobuf_file_scan_config(config, context, converter, Arc::new(source))?;
    Ok(DataSourceExec::from_data_source(config))
}
