//! The executor: attempts at a request, until one has results or no remedy is left.

use crate::error::RunError;
use crate::options::Request;
use crate::output::Output;
use crate::runtime::device_state::DeviceState;
use crate::runtime::kept_plans::KeptPlans;
use crate::runtime::launch::attempt::Attempt;
use crate::runtime::launch::remedies::Remedies;
use crate::runtime::launch::stopped::Stopped;
use crate::runtime::turn_queue::Turn;

/// Runs a request.
pub(crate) fn run(
    state: &DeviceState,
    kept_plans: &KeptPlans,
    request: &Request<'_>,
    turn: &Turn<'_>,
) -> Result<Output, RunError> {
    let mut remedies = Remedies::default();
    loop {
        if request.is_cancelled() {
            return Err(RunError::Cancelled);
        }
        let left = turn.left();
        state.pool().look_again();
        let program = remedies.layouts.program(request, &state.residency);
        let request = Request {
            program: &program,
            ..*request
        };
        match attempt(state, kept_plans, &request, turn, &remedies) {
            Ok(output) => return Ok(output),
            Err(stopped) => remedies.take(stopped, state, &request, (turn, left))?,
        }
    }
}

/// One attempt, with resources of its own.
fn attempt(
    state: &DeviceState,
    kept_plans: &KeptPlans,
    request: &Request<'_>,
    turn: &Turn<'_>,
    remedies: &Remedies,
) -> Result<Output, Stopped> {
    let resources = state.resources.take().map_err(RunError::from)?;
    let attempt = Attempt {
        state,
        kept_plans,
        request,
        resources: &resources,
        // Queries that run side by side share the processors.
        threads: (state.threads / turn.running().max(1)).max(state.threads.min(2)),
        remedies,
    };
    let result = attempt.run();
    state.resources.give_back(resources);
    result
}
