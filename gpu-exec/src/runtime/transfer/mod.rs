//! transfer

pub(crate) mod copy_job;
pub(crate) mod encoded_columns;
pub(crate) mod extent_map;
pub(crate) mod transfer_plan;
pub(crate) mod uploader;
