//! SQL sessions with the settings of the command line.

use std::collections::BTreeSet;

use datafusion::prelude::SessionContext;
use grampus::GrampusConfig;

use crate::args::Resources;
use crate::error_messages::explain_alone;
use crate::exit_error::ExitError;

/// Opens a session.
pub(crate) fn open(resources: &Resources) -> Result<SessionContext, ExitError> {
    let mut config = GrampusConfig {
        target_partitions: resources.partitions,
        memory_limit: resources.memory_limit.unwrap_or_default(),
        ..GrampusConfig::default()
    };
    config.options.device = resources.device.unwrap_or_default();
    let context = grampus::session::context(config).map_err(|error| explain_alone(&error))?;
    // Error messages name the places of unknown columns and functions in the text.
    context
        .state_ref()
        .write()
        .config_mut()
        .options_mut()
        .sql_parser
        .collect_spans = true;
    Ok(context)
}

/// The names of all functions of a session, sorted.
pub(crate) fn function_names(context: &SessionContext) -> Vec<String> {
    let state = context.state();
    let scalar = state.scalar_functions().keys();
    let names = scalar
        .chain(state.aggregate_functions().keys())
        .chain(state.window_functions().keys());
    let names: BTreeSet<String> = names.chain(state.table_functions().keys()).cloned().collect();
    names.into_iter().collect()
}
