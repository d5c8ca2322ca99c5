//! Named places where a test can make the process crash, fail or wait.
//!
//! Every stage boundary and every effect on the outside has one. Without the feature `failpoints` they are nothing at all.
//! A test names them in `HARVEST_FAILPOINTS`, e.g. `deliver::before=return(crash)`, `provision::before=return(full)`
//! or `execute::started=sleep(100)`.

use crate::Error;

/// Every place in the life of a turn, so that tests can visit them all.
pub const ALL: &[&str] = &[
    "claim::after",
    "provision::before",
    "provision::after",
    "execute::before",
    "execute::recorded",
    "execute::started",
    "execute::after",
    "verify::before",
    "verify::after",
    "deliver::before",
    "deliver::published",
    "record::before",
    "record::after",
];

/// Every place in a change of the master key.
pub const ROTATION: &[&str] = &["rotate::key_made", "rotate::resealed", "rotate::before_retire"];

/// Every place in the life of a model call's money.
pub const METERING: &[&str] = &["meter::reserved", "meter::answered", "meter::settled"];

/// Every place of a turn that is taken over from a dead worker.
pub const REATTACH: &[&str] = &["reattach::taken", "reattach::attached"];

/// Every place of an interrupt.
pub const INTERRUPT: &[&str] = &["interrupt::before", "interrupt::after", "interrupts::obeyed"];

/// Every place of a task that is ended without a worker.
pub const CANCEL: &[&str] = &["cancel::claimed", "cancel::published"];

/// Every place of a race.
pub const RACE: &[&str] = &["race::placed", "race::won"];

/// Every place of a plan that is being made, and of a session that is being forked.
pub const PLAN: &[&str] = &["plan::before", "plan::asked", "fork::brought"];

/// Every place of a pull request that is being made.
pub const HOSTING: &[&str] = &["deliver::proposed", "deliver::reviewed", "carry::done"];

/// Every place of a delivery that waits for a person, and of a server that gets a sandbox of its own.
pub const GATE: &[&str] = &["gate::before", "gate::asked", "mcp::recorded"];

/// Every place of a request to the API that has changed something.
pub const ANSWER: &[&str] = &["answer::before"];

/// Every place of a snapshot that is being prepared.
pub const PREPARE: &[&str] = &["prepare::recorded", "prepare::started", "prepare::installed", "prepare::frozen"];

#[cfg(feature = "failpoints")]
fn is_known(name: &str) -> bool {
    [ALL, ROTATION, METERING, PLAN, HOSTING, GATE, PREPARE, REATTACH, INTERRUPT, CANCEL, RACE, ANSWER]
        .iter()
        .any(|places| places.contains(&name))
}

/// Does what a test asked for here.
#[cfg(feature = "failpoints")]
pub fn reach(name: &'static str) -> Result<(), Error> {
    debug_assert!(is_known(name), "{name} is not listed");
    match fail::eval(name, |action| action) {
        Some(Some(action)) if action == "crash" => std::process::abort(),
        Some(Some(action)) if action == "full" => Err(Error::NoRoom { what: format!("failpoint {name}") }),
        Some(_) => Err(Error::Failpoint(name)),
        None => Ok(()),
    }
}

#[cfg(not(feature = "failpoints"))]
pub fn reach(_name: &'static str) -> Result<(), Error> {
    Ok(())
}

/// Switches on what `settings` (`name=action;name=action`) says.
#[cfg(feature = "failpoints")]
pub fn configure(settings: &str) -> Result<(), String> {
    settings.split(';').filter_map(|setting| setting.split_once('=')).try_for_each(|(name, action)| {
        if is_known(name) { fail::cfg(name, action) } else { Err(format!("there is no failpoint {name}")) }
    })
}
