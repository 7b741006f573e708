//! NVMe wire types and rules for both sides of a queue: NVM Express Base Specification 2.0c and NVM Command Set 1.0c.
//! Fields keep the specification's short names.

mod completion;
mod identify;
mod log_page;
mod prp;
pub mod registers;
mod sgl;
mod submission;

pub use completion::{CompletionEntry, Status, StatusCode};
pub use identify::{Cns, ControllerIdentity, IDENTIFY_BYTES, LbaFormat, NamespaceIdentity, namespace_list};
pub use log_page::{AsyncEvent, LogPage, SMART_LOG_BYTES, SmartLog};
pub use prp::{PAGE_BYTES, PrpSegment, prp_segments};
pub use sgl::sgl_segments;
pub use submission::{AdminOpcode, Opcode, SubmissionEntry, feature};

/// Size of a submission queue entry: 64 bytes (Base 2.0c §3.3.3.1).
pub const SUBMISSION_ENTRY_BYTES: usize = 64;
/// Size of a completion queue entry: 16 bytes (Base 2.0c §3.3.3.2).
pub const COMPLETION_ENTRY_BYTES: usize = 16;
/// Largest number of entries of an I/O queue; CAP.MQES is 16 bits and zero-based (Base 2.0c §3.1.3.1).
pub const MAX_QUEUE_ENTRIES: u32 = 65_536;

// A ring index is 16 bits wide in completions (sqhd) and doorbells.
const _: () = assert!(MAX_QUEUE_ENTRIES == 1 << 16);
const _: () = assert!(size_of::<SubmissionEntry>() == SUBMISSION_ENTRY_BYTES);
const _: () = assert!(size_of::<CompletionEntry>() == COMPLETION_ENTRY_BYTES);
