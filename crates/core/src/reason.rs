//! Why a task did not complete. One closed list, used by the queue, the API and the exit code alike.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FailureReason {
    /// The agent itself failed: it crashed, gave up or reported an error.
    Agent,
    /// The result does not pass its tests in a clean sandbox, or cannot be trusted to.
    Tests,
    /// A sandbox could not be made, or was lost.
    Sandbox,
    /// The model's vendor refused for quota or rate.
    ModelQuota,
    /// The turn took longer than it may.
    Timeout,
    /// The agent was silent for too long.
    Stall,
    /// The agent did the same again and again, with the same outcome.
    Loop,
    /// The agent called the model more often than it may.
    Turns,
    /// A hook that must succeed did not.
    Hook,
    /// The budget is spent.
    Budget,
    /// A person stopped it.
    Cancelled,
    /// A person interrupted it; it can be resumed.
    Interrupted,
    /// Harvest's own fault, or its process was killed.
    Internal,
}

impl FailureReason {
    pub const ALL: [Self; 13] = [
        Self::Agent,
        Self::Tests,
        Self::Sandbox,
        Self::ModelQuota,
        Self::Timeout,
        Self::Stall,
        Self::Loop,
        Self::Turns,
        Self::Hook,
        Self::Budget,
        Self::Cancelled,
        Self::Interrupted,
        Self::Internal,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Tests => "tests",
            Self::Sandbox => "sandbox",
            Self::ModelQuota => "model_quota",
            Self::Timeout => "timeout",
            Self::Stall => "stall",
            Self::Loop => "loop",
            Self::Turns => "turns",
            Self::Hook => "hook",
            Self::Budget => "budget",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
            Self::Internal => "internal",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }

    /// Stopped by a limit or a person, rather than gone wrong.
    pub fn is_stop(self) -> bool {
        matches!(
            self,
            Self::Budget | Self::Timeout | Self::Stall | Self::Loop | Self::Turns | Self::Cancelled | Self::Interrupted
        )
    }

    /// Whether trying the same again may go better.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Agent | Self::Sandbox | Self::ModelQuota | Self::Stall | Self::Loop | Self::Internal)
    }
}

impl std::fmt::Display for FailureReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_the_wire_format() {
        for reason in FailureReason::ALL {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
            assert_eq!(FailureReason::parse(reason.as_str()), Some(reason));
        }
    }
}
