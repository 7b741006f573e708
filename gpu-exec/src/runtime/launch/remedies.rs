//! `Remedies`: what the next attempt at a request does differently, by how the last one ended.
//!
//! | the attempt ended because | the next one |
//! | --- | --- |
//! | a value lies beyond its column's narrow layout | has a wider layout (`ColumnLayouts`) |
//! | a column of a kept plan is not resident any more | is planned anew |
//! | the device could not decode a column | has the CPU decode it |
//! | memory is short | follows a step of `MemoryRelief`, or the end of another query |
//!
//! Every other failure is the request's.
//!
//! **Invariant:** each remedy leaves fewer to take. Layouts widen to their types', plans are kept no more, the CPU
//! decodes, and steps of relief and waits are bounded.

use crate::error::RunError;
use crate::options::Request;
use crate::runtime::device_state::DeviceState;
use crate::runtime::launch::memory_relief::MemoryRelief;
use crate::runtime::launch::stopped::Stopped;
use crate::runtime::planner::column_layouts::ColumnLayouts;
use crate::runtime::turn_queue::Turn;

/// The remedies that were taken.
#[derive(Debug, Clone, Default)]
pub(crate) struct Remedies {
    pub(crate) layouts: ColumnLayouts,
    pub(crate) memory: MemoryRelief,
    /// No kept plan is taken.
    pub(crate) plans_anew: bool,
    /// The CPU decodes everything.
    pub(crate) decodes_on_cpu: bool,
}

impl Remedies {
    /// Takes the remedy for the end of an attempt. `left`: queries that had left `turn`'s queue when the attempt began.
    ///
    /// # Errors
    /// The attempt's failure, if there is no remedy.
    pub(crate) fn take(
        &mut self,
        stopped: Stopped,
        state: &DeviceState,
        request: &Request<'_>,
        (turn, left): (&Turn<'_>, u64),
    ) -> Result<(), RunError> {
        let stop = || request.is_cancelled();
        match stopped {
            Stopped::KeptPlanLost => self.plans_anew = true,
            Stopped::Undecoded { file, column } => {
                state.residency.leave_to_cpu(file, column);
                self.decodes_on_cpu = true;
            }
            Stopped::Failed { error, .. } if self.layouts.widen(&error, request, &state.residency) => {
                // Other layouts are another query.
                let layouts = std::mem::take(&mut self.layouts);
                *self = Self {
                    layouts,
                    ..Self::default()
                };
            }
            Stopped::Failed {
                error,
                reads_by_command,
            } => {
                let Some(shortage) = error.shortage() else {
                    return Err(error);
                };
                if stop() {
                    return Err(RunError::Cancelled);
                }
                let is_relieved = self.memory.next(state, shortage, reads_by_command)
                    || (request.waits_for_memory && self.memory.may_wait() && turn.wait_for_memory(left, stop));
                if !is_relieved {
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}
