//! [`Given`]: tables that one statement has beside those of its session: relations, and variables of Python.
//!
//! A table of the session comes before one of these. A variable is looked up when no table has its name.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use datafusion::catalog::{DynamicFileCatalog, TableProvider, UrlTableFactory};
use datafusion::common::plan_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use pyo3::prelude::*;

use crate::interpreter::call_python;
use crate::memory_table::memory_table;
use crate::query::Query;

tokio::task_local! {
    static GIVEN: Arc<Given>;
}

/// Lets statements of a session have tables of their own.
pub(crate) fn allow(context: &SessionContext) {
    let catalogs = Arc::clone(context.state_ref().read().catalog_list());
    context.register_catalog_list(Arc::new(DynamicFileCatalog::new(catalogs, Arc::new(GivenTables))));
}

/// The tables of a statement.
pub(crate) struct Given {
    context: SessionContext,
    relations: HashMap<String, Arc<dyn TableProvider>>,
    /// Returns the variable of a name, or None.
    look_up: Option<Py<PyAny>>,
    variables: Mutex<HashMap<String, Arc<dyn TableProvider>>>,
    /// The exception that ended the statement.
    failure: Mutex<Option<PyErr>>,
}

impl Given {
    pub(crate) fn new(
        context: &SessionContext,
        relations: HashMap<String, Arc<dyn TableProvider>>,
        look_up: Option<Py<PyAny>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            context: context.clone(),
            relations,
            look_up,
            variables: Mutex::default(),
            failure: Mutex::default(),
        })
    }

    /// Binds a statement that may name these tables.
    pub(crate) async fn during<T>(self: &Arc<Self>, binding: impl Future<Output = T>) -> T {
        GIVEN.scope(Arc::clone(self), binding).await
    }

    /// Whether statements had one of the tables. Their texts alone do not say what they mean.
    pub(crate) fn has_tables(&self) -> bool {
        !self.relations.is_empty() || !lock(&self.variables).is_empty()
    }

    /// The exception of a variable that is no table.
    pub(crate) fn failure(&self) -> Option<PyErr> {
        lock(&self.failure).take()
    }

    /// Refuses statements that change a variable: the session would change its copy.
    ///
    /// # Errors
    /// If the plan is one.
    pub(crate) fn check(&self, plan: &LogicalPlan) -> Result<()> {
        match plan {
            LogicalPlan::Dml(change) if lock(&self.variables).contains_key(change.table_name.table()) => {
                let name = change.table_name.table();
                plan_err!(
                    "{name} is a variable of Python, which SQL cannot change: CREATE TABLE … AS SELECT * FROM {name} \
                     makes a table of it"
                )
            }
            _ => Ok(()),
        }
    }

    fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(relation) = self.relations.get(name) {
            return Ok(Some(Arc::clone(relation)));
        }
        if let Some(found) = lock(&self.variables).get(name) {
            return Ok(Some(Arc::clone(found)));
        }
        let Some(look_up) = &self.look_up else {
            return Ok(None);
        };
        let found = call_python(|py| {
            let variable = look_up.bind(py).call1((name,))?;
            if variable.is_none() {
                return Ok(None);
            }
            match variable.cast::<Query>() {
                Ok(query) => Ok(Some(query.get().table())),
                Err(_) => memory_table(py, &self.context, &variable).map(|(table, _)| Some(table)),
            }
        });
        match found {
            None | Some(Ok(None)) => Ok(None),
            Some(Ok(Some(table))) => {
                lock(&self.variables).insert(name.to_owned(), Arc::clone(&table));
                Ok(Some(table))
            }
            Some(Err(exception)) => {
                let words = exception.to_string();
                lock(&self.failure).get_or_insert(exception);
                Err(DataFusionError::Execution(words))
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Finds the tables of the statement that is being bound.
#[derive(Debug)]
struct GivenTables;

#[async_trait]
impl UrlTableFactory for GivenTables {
    async fn try_new(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match GIVEN.try_with(Arc::clone) {
            Ok(given) => given.table(name),
            Err(_) => Ok(None),
        }
    }
}
