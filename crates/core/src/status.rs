//! The states of a task and the moves between them.
//!
//! A move is named; whether it is allowed from a state is decided by [`TaskStatus::after`] alone, which is the only way to
//! get from one state to the next.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    Pending,
    Provisioning,
    Running,
    AwaitingApproval,
    Interrupted,
    Completed,
    Failed,
    Cancelled,
}

/// What happens to a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Move {
    /// A worker took it and is preparing its sandbox.
    Claim,
    /// The sandbox is ready and the agent works.
    Start,
    /// A person has to approve a plan.
    AskApproval,
    Approve,
    Interrupt,
    Resume,
    Complete,
    Fail,
    Cancel,
    Retry,
    /// Another prompt after the end.
    FollowUp,
    /// The worker vanished.
    LoseLease,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a task that is {} cannot {}", .from.as_str(), .by.as_words())]
pub struct IllegalMove {
    pub from: TaskStatus,
    pub by: Move,
}

impl TaskStatus {
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::Provisioning,
        Self::Running,
        Self::AwaitingApproval,
        Self::Interrupted,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Provisioning => "provisioning",
            Self::Running => "running",
            Self::AwaitingApproval => "awaiting_approval",
            Self::Interrupted => "interrupted",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    pub fn is_finished(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// The state after `by`, or why it cannot happen here.
    pub fn after(self, by: Move) -> Result<Self, IllegalMove> {
        use TaskStatus::*;
        match (self, by) {
            (Pending, Move::Claim) => Ok(Provisioning),
            (Provisioning, Move::Start) => Ok(Running),
            (Provisioning | Running, Move::LoseLease) => Ok(Pending),
            (Running, Move::AskApproval) => Ok(AwaitingApproval),
            (AwaitingApproval, Move::Approve) => Ok(Pending),
            (Running, Move::Interrupt) => Ok(Interrupted),
            (Interrupted, Move::Resume) => Ok(Pending),
            (Running, Move::Complete) => Ok(Completed),
            (Provisioning | Running, Move::Fail) => Ok(Failed),
            (Failed | Cancelled, Move::Retry) => Ok(Pending),
            (Completed | Failed, Move::FollowUp) => Ok(Pending),
            (from, Move::Cancel) if !from.is_finished() => Ok(Cancelled),
            (from, by) => Err(IllegalMove { from, by }),
        }
    }
}

impl std::fmt::Display for TaskStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Move {
    pub const ALL: [Self; 12] = [
        Self::Claim,
        Self::Start,
        Self::AskApproval,
        Self::Approve,
        Self::Interrupt,
        Self::Resume,
        Self::Complete,
        Self::Fail,
        Self::Cancel,
        Self::Retry,
        Self::FollowUp,
        Self::LoseLease,
    ];

    fn as_words(self) -> &'static str {
        match self {
            Self::Claim => "be claimed",
            Self::Start => "start running",
            Self::AskApproval => "ask for approval",
            Self::Approve => "be approved",
            Self::Interrupt => "be interrupted",
            Self::Resume => "be resumed",
            Self::Complete => "complete",
            Self::Fail => "fail",
            Self::Cancel => "be cancelled",
            Self::Retry => "be retried",
            Self::FollowUp => "take a follow-up prompt",
            Self::LoseLease => "lose its lease",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_whole_table() {
        let table: String = TaskStatus::ALL
            .into_iter()
            .flat_map(|from| Move::ALL.into_iter().filter_map(move |by| Some((from, by, from.after(by).ok()?))))
            .map(|(from, by, to)| format!("{from} --{by:?}--> {to}\n"))
            .collect();
        insta::assert_snapshot!(table);
    }

    proptest! {
        /// Whatever is asked in whatever order, an end is left only by retry or follow-up, and nothing else is an end.
        #[test]
        fn ends_are_left_only_on_purpose(moves in prop::collection::vec(prop::sample::select(&Move::ALL[..]), 0..60)) {
            let mut status = TaskStatus::Pending;
            for by in moves {
                match status.after(by) {
                    Ok(next) => {
                        if status.is_finished() {
                            prop_assert!(matches!(by, Move::Retry | Move::FollowUp));
                            prop_assert_eq!(next, TaskStatus::Pending);
                        }
                        if next == TaskStatus::Completed {
                            prop_assert_eq!(status, TaskStatus::Running);
                        }
                        status = next;
                    }
                    Err(refused) => prop_assert_eq!(refused, IllegalMove { from: status, by }),
                }
            }
        }
    }
}
