//! ORC files that statements write: `COPY … TO`, `INSERT INTO`.
//!
//! ```text
//! staged_file     a file that is written hidden and published by a rename, or uploaded
//! write_options   OPTIONS of a statement as the writer's options
//! orc_sink        rows to one or more staged files, published together at the end
//! orc_format      OrcFormatFactory, by which DataFusion finds the sink
//! ```

pub(crate) mod orc_format;
mod orc_sink;
mod staged_file;
mod write_options;
