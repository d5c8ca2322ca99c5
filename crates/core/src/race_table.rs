//! Everyone in a race side by side, and why it came out as it did.

use serde::{Deserialize, Serialize};

use crate::{Cost, JudgedBy, SessionId, TaskId, TaskStatus};

/// More than that is no race.
pub const MOST_ENTRANTS: usize = 16;

/// A race with its entrants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RaceTable {
    /// The id of the race, which is also the convoy of its tasks.
    pub id: String,
    pub judged_by: JudgedBy,
    pub winner: Option<TaskId>,
    /// The answer of the judge, if there was one.
    pub judgement: Option<Judgement>,
    pub items: Vec<RaceRow>,
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Judgement {
    pub agent: String,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RaceRow {
    pub task_id: TaskId,
    /// The session that has its work.
    pub session_id: Option<SessionId>,
    pub agent: String,
    pub model: Option<String>,
    pub status: TaskStatus,
    pub error: Option<String>,
    /// Whether its work passed its tests in a clean sandbox.
    pub passed: bool,
    pub cost_usd: Cost,
    /// The number of lines added and removed; only for entrants that passed.
    pub changed_lines: Option<u64>,
    /// From the creation of the task to its end.
    pub duration_ms: Option<i64>,
    /// Its standing in the race and the reason, in a few words.
    pub verdict: String,
}

impl RaceTable {
    /// Says of everyone why it is the winner or not.
    pub fn new(id: String, judged_by: JudgedBy, winner: Option<&TaskId>, mut items: Vec<RaceRow>) -> Self {
        let winner = items.iter().find(|row| Some(&row.task_id) == winner).cloned();
        let passed = items.iter().filter(|row| row.passed).count();
        let others: Vec<RaceRow> = items.iter().filter(|row| row.passed).cloned().collect();
        for row in &mut items {
            row.verdict = match &winner {
                Some(winner) if winner.task_id == row.task_id => won(judged_by, row, &others, passed),
                winner => not_won(judged_by, row, winner.as_ref()),
            };
        }
        Self { id, judged_by, winner: winner.map(|winner| winner.task_id), judgement: None, items, next_cursor: None }
    }

    /// The winner is the one that someone found the best, and the others are told so.
    pub fn judged(mut self, judgement: Judgement) -> Self {
        for row in self.items.iter_mut().filter(|row| row.passed) {
            if self.winner.as_ref() == Some(&row.task_id) {
                row.verdict = format!("won: chosen by {}", judgement.agent);
            } else if row.status == TaskStatus::Cancelled {
                row.verdict = format!("passes, but {} finds another better", judgement.agent);
            }
        }
        self.judgement = Some(judgement);
        self
    }
}

fn won(by: JudgedBy, winner: &RaceRow, passed: &[RaceRow], count: usize) -> String {
    let others = passed.iter().filter(|row| row.task_id != winner.task_id);
    let reason = match by {
        _ if count <= 1 => "the only entrant that passed",
        JudgedBy::Time => "the first entrant that passed",
        JudgedBy::Cost if others.clone().all(|row| row.cost_usd > winner.cost_usd) => "passes at the lowest cost",
        JudgedBy::Cost
            if others.clone().all(|row| row.cost_usd > winner.cost_usd || row.changed_lines > winner.changed_lines) =>
        {
            "passes at the lowest cost, with the smallest change"
        }
        JudgedBy::Cost => "passes at the lowest cost, and finished first",
    };
    format!("won: {reason}")
}

fn not_won(by: JudgedBy, row: &RaceRow, winner: Option<&RaceRow>) -> String {
    let words = match (row.status, row.passed, winner) {
        (TaskStatus::Cancelled, true, Some(winner)) if by == JudgedBy::Cost && row.cost_usd > winner.cost_usd => {
            "passes, but cost more"
        }
        (TaskStatus::Cancelled, true, Some(winner))
            if by == JudgedBy::Cost && row.changed_lines > winner.changed_lines =>
        {
            "passes at the same cost, but changes more"
        }
        (TaskStatus::Cancelled, true, Some(_)) => "passes, but finished later",
        (TaskStatus::Cancelled, false, Some(_)) => "stopped: it could no longer win",
        (TaskStatus::Cancelled, ..) => "stopped",
        (TaskStatus::Completed, ..) => "did not win; later prompts were completed",
        (TaskStatus::Failed, ..) => return row.error.clone().unwrap_or_else(|| "failed".to_owned()),
        (TaskStatus::Pending, ..) => "waits for a worker",
        (TaskStatus::Interrupted, ..) => "interrupted",
        (TaskStatus::AwaitingApproval, ..) => "waits for a person",
        (_, true, _) => "passes, and waits for the others",
        (..) => "works",
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: u64, status: TaskStatus, passed: bool, cents: u64, changed_lines: u64) -> RaceRow {
        RaceRow {
            task_id: format!("{number:016}").parse().unwrap(),
            session_id: None,
            agent: "builtin".into(),
            model: None,
            status,
            error: (status == TaskStatus::Failed).then(|| "the tests fail".into()),
            passed,
            cost_usd: Cost::from_nanos(cents * 10_000_000),
            changed_lines: passed.then_some(changed_lines),
            duration_ms: None,
            verdict: String::new(),
        }
    }

    fn verdicts(by: JudgedBy, rows: Vec<RaceRow>) -> Vec<String> {
        let winner = rows.iter().find(|row| row.status == TaskStatus::Completed).map(|row| row.task_id.clone());
        RaceTable::new("race-x".into(), by, winner.as_ref(), rows).items.into_iter().map(|row| row.verdict).collect()
    }

    #[test]
    fn what_a_judge_says_is_why() {
        let rows = vec![row(1, TaskStatus::Completed, true, 20, 5), row(2, TaskStatus::Cancelled, true, 10, 5)];
        let winner = rows[0].task_id.clone();
        let judgement = Judgement { agent: "codex".into(), reason: "It is clearer.".into() };
        let table = RaceTable::new("race-x".into(), JudgedBy::Cost, Some(&winner), rows).judged(judgement.clone());
        let verdicts: Vec<&str> = table.items.iter().map(|row| row.verdict.as_str()).collect();
        assert_eq!(verdicts, ["won: chosen by codex", "passes, but codex finds another better"]);
        assert_eq!(table.judgement, Some(judgement));
    }

    #[test]
    fn everyone_is_told_why() {
        use TaskStatus::{Cancelled, Completed, Failed, Running};
        let rows = vec![
            row(1, Cancelled, true, 20, 5),
            row(2, Completed, true, 10, 5),
            row(3, Cancelled, true, 10, 9),
            row(4, Cancelled, false, 30, 0),
            row(5, Failed, false, 1, 0),
        ];
        assert_eq!(
            verdicts(JudgedBy::Cost, rows.clone()),
            [
                "passes, but cost more",
                "won: passes at the lowest cost, with the smallest change",
                "passes at the same cost, but changes more",
                "stopped: it could no longer win",
                "the tests fail",
            ]
        );
        assert_eq!(
            verdicts(JudgedBy::Time, rows)[..2],
            ["passes, but finished later", "won: the first entrant that passed"]
        );
        let alone = vec![row(1, Completed, true, 1, 1), row(2, Failed, false, 1, 1)];
        assert_eq!(verdicts(JudgedBy::Cost, alone)[0], "won: the only entrant that passed");
        let open = vec![row(1, Running, true, 1, 1), row(2, Running, false, 1, 1)];
        assert_eq!(verdicts(JudgedBy::Cost, open), ["passes, and waits for the others", "works"]);
    }
}
