//! Device memory and pinned memory, and what is cached in them.
//!
//! ```text
//! residency         what is known of files and cached data, published for planning
//! cached_column     where a stripe's column is in device memory
//! column_key        the key of cached data of a column of a stripe
//! buffer_pool       device memory for columns; the least recently used ones are evicted
//! pool_entry        a column in the pool, with its users
//! arena             a large range of device memory, and the parts of it that are free
//! arena_set         the arenas that are taken from the driver
//! unused_arenas     the arenas that can be given back to the driver as a whole
//! page_table        a query's columns of which only some pages are resident
//! streamed_parts    the columns of stripes of which queries have loaded only some rows
//! constant_columns  device memory full of one value
//! group_table_size  for how many groups the table of all warps has space
//! query_scratch     device memory for what a query needs beside its columns
//! staging_buffer    device memory in which encoded bytes wait until they are decoded
//! page_staging      device memory in which the stored bytes of pages wait until they are decoded
//! copy_target       a place in device memory that bytes are copied to
//! pinned_ring       slots of pinned memory that threads fill and the copy engine empties
//! mapped_files      registered mappings of files
//! ```

pub(crate) mod arena;
pub(crate) mod arena_set;
pub(crate) mod buffer_pool;
pub(crate) mod cached_column;
pub(crate) mod column_key;
pub(crate) mod constant_columns;
pub(crate) mod copy_target;
pub(crate) mod group_table_size;
pub(crate) mod mapped_files;
pub(crate) mod page_staging;
pub(crate) mod page_table;
pub(crate) mod pinned_ring;
mod pool_entry;
pub(crate) mod query_scratch;
pub(crate) mod residency;
pub(crate) mod staging_buffer;
pub(crate) mod streamed_parts;
mod unused_arenas;
