//! The folder of a command's temporary files: spilled data, made-up tables, files to measure with.

use std::path::Path;

use grampus_tools::atomic_output::TemporaryFolder;
use grampus_tools::atomic_output::temporary_folder::Purpose;

use crate::exit_error::{ErrorReport, ExitError};

/// Creates a folder in `parent`, by default the system's temporary folder (`$TMPDIR`), and removes what killed commands
/// left there. All temporary files of this process go into it.
pub(crate) fn create(parent: Option<&Path>) -> Result<TemporaryFolder, ExitError> {
    let default = std::env::temp_dir();
    let parent = parent.unwrap_or(&default);
    let folder = TemporaryFolder::create(parent, Purpose::Scratch).map_err(|error| {
        ErrorReport::file("make a temporary folder in", &parent.display().to_string(), &error)
            .hint("name another folder with --temp-folder or TMPDIR")
    })?;
    // DataFusion and other libraries ask `tempfile` for the place of their files. Only a first call has an effect.
    let _ = tempfile::env::override_temp_dir(folder.path());
    Ok(folder)
}

/// Like [`create`], for commands that may need no temporary file: a default folder that cannot be written to is no
/// error.
pub(crate) fn create_if_possible(parent: Option<&Path>) -> Result<Option<TemporaryFolder>, ExitError> {
    match create(parent) {
        Err(ExitError::Query(report)) if parent.is_none() => {
            log::info!("queries that spill will fail: {}", report.message);
            Ok(None)
        }
        created => created.map(Some),
    }
}
