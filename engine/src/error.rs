//! Errors of the layout crate as DataFusion carries them: one line that names the file and the place.

use datafusion::error::DataFusionError;
use grampus_orc_layout::LayoutError;

/// Wraps an error about a file's bytes so that its own message is all that is shown (see [`message`]).
pub fn layout(error: LayoutError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The words of `error` without DataFusion's wrapping: what a person should read.
pub fn message(error: &DataFusionError) -> String {
    match error.find_root() {
        DataFusionError::External(inner) => inner.to_string(),
        root => root.strip_backtrace(),
    }
}
