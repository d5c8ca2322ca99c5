//! A limit of the sandbox was reached: whose failure that is, and what to do about it.

use harvest_core::FailureReason;
use harvest_sandbox::Limit;

use crate::Failure;

/// What an agent, or something it started, was ended for. `message` says how much was too much, with "it" for the process.
pub(crate) fn failure(limit: Limit, message: &str) -> Failure {
    let reason = match limit {
        Limit::Wall => FailureReason::Timeout,
        Limit::Memory | Limit::Processes | Limit::Disk | Limit::Inodes | Limit::Output => FailureReason::Agent,
    };
    Failure::new(reason, format!("the agent reached a limit of its sandbox: {}", explain(limit, message)))
}

/// The same about a command that is not an agent's.
pub(crate) fn explain(limit: Limit, message: &str) -> String {
    match setting(limit) {
        Some(setting) => {
            format!("{message}; use less at a time, or raise `{setting}` under [limits] in harvest.toml")
        }
        None => message.to_owned(),
    }
}

fn setting(limit: Limit) -> Option<&'static str> {
    match limit {
        Limit::Memory => Some("memory"),
        Limit::Processes => Some("processes"),
        Limit::Disk => Some("disk"),
        Limit::Inodes => Some("files"),
        Limit::Output => Some("output"),
        // Follows from the timeout of the task.
        Limit::Wall => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_its_value_and_the_way_out_are_named() {
        let failure = failure(Limit::Memory, "it used more than 8 GiB of memory and was ended");
        assert_eq!(failure.reason, FailureReason::Agent);
        assert_eq!(
            failure.message,
            "the agent reached a limit of its sandbox: it used more than 8 GiB of memory and was ended; use less at \
             a time, or raise `memory` under [limits] in harvest.toml"
        );
        assert_eq!(super::failure(Limit::Wall, "it took long").reason, FailureReason::Timeout);
    }
}
