//! `GrampusCodec`: the operators of Grampus in a plan that travels to another process.
//!
//! ```text
//! message         the bytes of an operator
//! decoded_scan    a scan that has arrived: it opens its files when it is executed
//! listed_files    scans of files that a program has listed
//! ```

pub(crate) mod decoded_scan;
mod listed_files;
mod message;

use std::sync::Arc;

use datafusion::common::{not_impl_err, plan_datafusion_err, plan_err};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::AggregateUDF;
use datafusion::physical_expr_common::physical_expr::proto_encode::PhysicalExprEncodeCtx;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use datafusion_prost::Message;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};

use crate::aggregate::exact_sum::{self, ExactSum};
use crate::aggregate::exact_task::ExactFunction;
use crate::gpu;
use crate::scan::orc_scan_exec::OrcScanExec;
use decoded_scan::DecodedScanExec;
use message::{Operator, OperatorMessage};

/// The version that wrote an operator reads it. A change of the messages needs no other number.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Bytes of `sum` and `avg` of ours, whose names are those of DataFusion's.
const EXACT_SUM: &[u8] = b"exact";

/// Makes bytes of the operators of Grampus, for `datafusion-proto`'s
/// [`AsExecutionPlan`](datafusion_proto::physical_plan::AsExecutionPlan).
///
/// - A scan travels as its columns, filter, and files. Each file travels as its place and version. The other process
///   opens the files when the plan is executed there, and the query fails if a file is missing or has changed. It needs
///   the object stores of the files, and both processes need the same version of Grampus.
/// - A `DataSourceExec` over an [`OrcSource`](crate::OrcSource) travels with its files, parts and filters. With a
///   `PhysicalExprAdapterFactory` it does not.
/// - `sum` and `avg` that do not wrap around travel as such.
/// - An aggregation on the GPU travels as the same aggregation for the CPU.
/// - A plan that has run is reset first, by DataFusion's `reset_plan_states`.
/// - Sinks do not travel. Nor do scans of a `ListingTable` over an object store, whose URL is unknown; those of an
///   [`OrcTable`](crate::OrcTable) do.
///
/// The decoded plan takes its settings from the task's session, except for `grampus.invalid_utf8`.
#[derive(Debug, Clone, Copy, Default)]
pub struct GrampusCodec;

impl PhysicalExtensionCodec for GrampusCodec {
    fn try_decode(
        &self,
        buf: &[u8],
        // A wrapper that travels as its input has brought that along once more.
        _inputs: &[Arc<dyn ExecutionPlan>],
        ctx: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let message = OperatorMessage::decode(buf);
        let message =
            message.map_err(|error| plan_datafusion_err!("bytes that are no operator of Grampus: {error}"))?;
        if message.version != VERSION {
            return plan_err!(
                "the plan is of Grampus {}, and this is Grampus {VERSION}: both ends need the same version",
                message.version
            );
        }
        let context = PhysicalPlanDecodeContext::new(ctx, self);
        match message.operator {
            Some(Operator::Scan(scan)) => Ok(Arc::new(DecodedScanExec::try_new(scan, &context, converter)?)),
            Some(Operator::Files(files)) => listed_files::decoded(&files, &context, converter, ctx),
            Some(Operator::Aggregation(cpu)) => converter.proto_to_execution_plan(&cpu, &context),
            None => plan_err!("an operator of Grampus without a kind"),
        }
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let operator = if let Some(scan) = node.downcast_ref::<OrcScanExec>() {
            Operator::Scan(message::of_scan(scan, self, converter)?)
        } else if let Some(listed) = listed_files::listed(node.as_ref()) {
            Operator::Files(Box::new(listed_files::encoded(listed, self, converter)?))
        } else if let Some(scan) = node.downcast_ref::<DecodedScanExec>() {
            Operator::Scan(scan.message().clone())
        } else if let Some(gpu) = gpu::aggregation(node.as_ref()) {
            Operator::Aggregation(Box::new(converter.execution_plan_to_proto(gpu.cpu_plan(), self)?))
        } else {
            return not_impl_err!("{} does not travel", node.name());
        };
        let message = OperatorMessage {
            version: VERSION.to_owned(),
            operator: Some(operator),
        };
        buf.extend(message.encode_to_vec());
        Ok(())
    }

    fn try_encode_udaf(&self, node: &AggregateUDF, buf: &mut Vec<u8>) -> Result<()> {
        if exact_sum::is_exact(node) {
            buf.extend(EXACT_SUM);
        }
        Ok(())
    }

    fn try_decode_udaf(&self, name: &str, buf: &[u8]) -> Result<Arc<AggregateUDF>> {
        let function = match (buf, name) {
            (EXACT_SUM, "sum") => ExactFunction::Sum,
            (EXACT_SUM, "avg") => ExactFunction::Average,
            _ => return not_impl_err!("the aggregate function {name} is unknown to this version of Grampus"),
        };
        Ok(Arc::new(AggregateUDF::from(ExactSum::new(function))))
    }

    fn try_encode_expr(
        &self,
        node: &Arc<dyn PhysicalExpr>,
        _buf: &mut Vec<u8>,
        _ctx: &PhysicalExprEncodeCtx<'_>,
    ) -> Result<()> {
        // A join that has run leaves its keys in its filter.
        not_impl_err!("{node} does not travel; call reset_plan_states before a plan that has run travels")
    }
}
