//! Transfer of columns to the device: the plan, the jobs, and the threads that do them.
//!
//! ```text
//! transfer_plan     where each column will be, and the jobs that fill what is missing
//! column_locator    where each stripe's columns are, or what is missing of them
//! window_plan       columns that stream through two windows because they do not fit
//! page_reservation  space for columns of which pages are loaded when kernels miss them
//! extent_map        a column's extents, as kernels see them
//! decoded_values    values that the CPU has decoded, in the layout that kernels read
//! encoded_columns   columns that are copied in their stored form and decoded on the device
//! job_list          the jobs of a query while they are collected
//! copy_job          one slot's bytes: where they come from and go to
//! uploader          reader threads fill slots of the pinned ring; the copy engine empties them
//! ```

pub(crate) mod column_locator;
pub(crate) mod copy_job;
pub(crate) mod decoded_values;
pub(crate) mod encoded_columns;
pub(crate) mod extent_map;
pub(crate) mod job_list;
pub(crate) mod page_reservation;
pub(crate) mod transfer_plan;
pub(crate) mod uploader;
pub(crate) mod window_plan;
