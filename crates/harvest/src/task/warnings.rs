//! What a person was warned of when a task was given: these are the first events of its journal.

use harvest_core::{Event, EventBody, SessionId};
use harvest_store::Store;

use crate::failure::Failure;
use crate::output;
use crate::view::clean;

/// The events that are read for it.
pub const FIRST_EVENTS: usize = 20;

pub async fn of(store: &dyn Store, session: &SessionId) -> Result<Vec<String>, Failure> {
    Ok(among(store.events(session, 0, FIRST_EVENTS).await?))
}

/// The warnings among the first events of a session.
pub fn among(events: Vec<Event>) -> Vec<String> {
    let given = events.into_iter().take_while(|event| !matches!(event.body, EventBody::TurnStarted { .. }));
    let warnings = given.filter_map(|event| match event.body {
        EventBody::Warning { message } => Some(message),
        _ => None,
    });
    warnings.collect()
}

/// Says them beside the answer of a command.
pub fn say(warnings: &[String]) {
    for warning in warnings {
        output::complain(&format!("warning: {}", clean(warning)));
    }
}
