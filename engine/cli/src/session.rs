//! SQL sessions with the settings of the command line.

use std::collections::BTreeSet;

use datafusion::logical_expr::{LogicalPlan, SetVariable, Statement};
use datafusion::prelude::SessionContext;
use grampus::GrampusConfig;

use crate::args::Resources;
use crate::error_messages::{ErrorContext, explain, explain_alone};
use crate::exit_error::ExitError;
use crate::setting::Setting;
use crate::statement_splitter::InputText;

/// Opens a session with the settings of the command line. A confined one opens no files but those of its tables.
pub(crate) fn open(resources: &Resources, is_confined: bool) -> Result<SessionContext, ExitError> {
    let mut config = GrampusConfig {
        target_partitions: resources.partitions,
        memory_limit: resources.memory_limit.unwrap_or_default(),
        is_confined,
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
    for setting in &resources.settings {
        set(&context, setting)?;
    }
    Ok(context)
}

/// Sets a setting of the command line, as SET does.
fn set(context: &SessionContext, setting: &Setting) -> Result<(), ExitError> {
    let plan = LogicalPlan::Statement(Statement::SetVariable(SetVariable {
        variable: setting.name.clone(),
        value: setting.value.clone(),
    }));
    let is_allowed = grampus::session::check_confined(context, &plan);
    // This plan waits for nothing.
    let set = || futures::executor::block_on(context.execute_logical_plan(plan));
    let Err(error) = is_allowed.and_then(|()| set()) else {
        return Ok(());
    };
    let statement = InputText {
        text: format!("SET {} = '{}'", setting.name, setting.value),
        line: 1,
        column: 1,
    };
    let known = ErrorContext {
        statement: Some(&statement),
        settings: setting_names(context),
        ..ErrorContext::default()
    };
    Err(ExitError::Usage(explain(&error, &known)))
}

/// The names of all settings of a session, sorted.
pub(crate) fn setting_names(context: &SessionContext) -> Vec<String> {
    let mut entries = context.copied_config().options().entries();
    entries.extend(context.runtime_env().config_entries());
    let names: BTreeSet<String> = entries.into_iter().map(|entry| entry.key).collect();
    names.into_iter().collect()
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
