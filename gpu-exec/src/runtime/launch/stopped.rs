//! `Stopped`: how an attempt ended that has no results.

use crate::error::RunError;
use crate::input::file_registry::FileId;

/// Why there are no results. [`Remedies`](super::remedies::Remedies) decide whether another attempt follows.
pub(crate) enum Stopped {
    /// It failed. `reads_by_command`: the plan had columns that are read by command.
    Failed { error: RunError, reads_by_command: bool },
    /// A column of a kept plan is not resident any more.
    KeptPlanLost,
    /// The device could not decode a column. `column`: its number in the files.
    Undecoded { file: FileId, column: u32 },
}

impl From<RunError> for Stopped {
    fn from(error: RunError) -> Self {
        Self::Failed {
            error,
            reads_by_command: false,
        }
    }
}
