//! Files that statements write: `COPY … TO`, `INSERT INTO`.
//!
//! ```text
//! staged_file     a file that is written hidden and published by a rename, or uploaded
//! empty_file      a file without rows, for the types of declared columns
//! write_options   OPTIONS of a statement as the writer's options
//! partition_values
//!                 NULL in partition columns
//! replaced_folder the folder of INSERT OVERWRITE, replaced whole
//! orc_sink        rows to one or more staged files, published together at the end
//! held_store      a store whose new objects appear together
//! held_sink       DataFusion's sinks of other formats, over such a store
//! ```

pub(crate) mod empty_file;
pub(crate) mod held_sink;
mod held_store;
pub(crate) mod orc_sink;
mod partition_values;
mod replaced_folder;
mod staged_file;
pub(crate) mod write_options;
