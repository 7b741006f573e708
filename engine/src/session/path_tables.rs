//! `PathTableFactory`: tables named by a path, as in `SELECT … FROM 'data/trips.orc'`, or by a call of a function that
//! reads files.

use std::fmt;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use datafusion::catalog::{DynamicFileCatalog, TableProvider, UrlTableFactory};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::prelude::SessionContext;

use crate::file_table;
use crate::statement::confinement::check_path;
use crate::statement::read_functions::FileCall;

/// The session with a catalog that also resolves paths.
pub(crate) fn with_tables_by_path(context: SessionContext) -> SessionContext {
    let factory = Arc::new(PathTableFactory::default());
    let named = Arc::clone(context.state_ref().read().catalog_list());
    let catalog = DynamicFileCatalog::new(named, Arc::clone(&factory) as Arc<dyn UrlTableFactory>);
    let session_id = context.session_id();
    let builder = context
        .into_state_builder()
        .with_session_id(session_id)
        .with_catalog_list(Arc::new(catalog));
    let context = SessionContext::new_with_state(builder.build());
    let session = context.state_weak_ref();
    let state = move || session.upgrade().map(|session| session.read().clone());
    // The factory is new, so this is the only call and cannot fail.
    let _ = factory.state.set(Box::new(state));
    context
}

/// Opens a table for each unknown name that looks like a path.
#[derive(Default)]
struct PathTableFactory {
    /// Returns the session's state while the session lives. Set when the session has been built.
    state: OnceLock<Box<dyn Fn() -> Option<SessionState> + Send + Sync>>,
}

impl fmt::Debug for PathTableFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PathTableFactory").finish_non_exhaustive()
    }
}

#[async_trait]
impl UrlTableFactory for PathTableFactory {
    async fn try_new(&self, path: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let call = FileCall::parse(path)?;
        if call.is_none() && !looks_like_a_path(path) {
            return Ok(None);
        }
        let Some(state) = self.state.get().and_then(|state| state()) else {
            return Ok(None);
        };
        check_path(&state, path)?;
        if let Some(call) = call {
            return Ok(Some(call.open(&state).await?));
        }
        Ok(Some(file_table::open(&state, path).await?))
    }
}

/// Whether the text can only mean a path: the text has a folder, a pattern or the end of a file of a known format.
fn looks_like_a_path(text: &str) -> bool {
    text.contains(['/', '*']) || file_table::has_known_end(text)
}

#[cfg(test)]
mod tests {
    use crate::config::GrampusConfig;

    #[tokio::test]
    async fn path_tables_open_paths_and_refuse_names() {
        let context = crate::session::context(GrampusConfig::default()).unwrap();
        let error = context.sql("SELECT * FROM trips").await.unwrap_err().to_string();
        assert!(error.contains("table 'datafusion.public.trips' not found"), "{error}");
        let error = context
            .sql("SELECT * FROM 'no/such.orc'")
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("no/such.orc") && !error.contains("datafusion.public"),
            "{error}"
        );
    }
}
