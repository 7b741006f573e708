//! Files that statements write: `COPY … TO`, `INSERT INTO`.
//!
//! ```text
//! write_error     errors of files that cannot be written
//! empty_file      a file without rows, for the types of declared columns
//! write_options   OPTIONS of a statement as the writer's options
//! partition_values
//!                 NULL in partition columns
//! partition_order rows of many partitions, one partition after the other
//! replaced_folder the folder of INSERT OVERWRITE, replaced whole
//! uploaded_file   a file that is written here and uploaded
//! new_files       the files of a statement, which appear when all are complete
//! scoped_threads  threads that encode columns
//! stripe_file     a file that is open while a stripe is written
//! orc_files       the ORC files that are written at once, within the memory pool
//! orc_sink        rows to one or more such files
//! held_upload     the parts of an upload to a local file
//! held_store      a store whose new objects appear together
//! held_sink       DataFusion's sinks of other formats, over such a store
//! ```

pub(crate) mod empty_file;
pub(crate) mod held_sink;
mod held_store;
mod held_upload;
mod new_files;
mod orc_files;
pub(crate) mod orc_sink;
mod partition_order;
mod partition_values;
mod replaced_folder;
pub(crate) mod scoped_threads;
mod stripe_file;
mod uploaded_file;
mod write_error;
pub(crate) mod write_options;
