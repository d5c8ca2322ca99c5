//! The person on whose behalf a turn is worked on: its personal credentials are used, it pays, and the commits name it.
//!
//! This is the author of the last instruction that the agent was given in the turn: its prompt, or what someone said when
//! they resumed the turn, changed its plan, or turned down its plan or its result. A turn that no person asked for, such as
//! one for failed checks, is the requester's of its task. The answer depends on the journal alone, so a worker that takes
//! the turn over after a crash finds the same person.

use harvest_core::{Event, EventBody, Session, TurnId, is_automatic};

use crate::journal::of_turn;

/// The person that `turn` acts for; `events` are those of its session.
pub(crate) fn actor(requested_by: &str, session: Option<&Session>, turn: &TurnId, events: &[Event]) -> String {
    let asked = session.and_then(|session| session.turns.iter().find(|asked| asked.id == *turn));
    let instructed = of_turn(events, turn).iter().rev().find_map(|event| instructs(&event.body));
    let person = instructed.or(asked.map(|asked| asked.author.as_str())).filter(|author| !is_automatic(author));
    person.unwrap_or(requested_by).to_owned()
}

/// The author of an event that tells the agent something new.
fn instructs(event: &EventBody) -> Option<&str> {
    match event {
        EventBody::SessionResumed { author, prompt: Some(_), .. }
        | EventBody::PlanDecided { author, plan: Some(_), .. }
        | EventBody::PlanDecided { author, comment: Some(_), .. } => Some(author),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use harvest_core::{BranchName, CHECKS_AUTHOR, Prompt, Timestamp, Turn, TurnStatus};

    use super::*;
    use crate::story::{journal, turn};

    fn session(authors: &[&str]) -> Session {
        let id: harvest_core::SessionId = "0000000000000001".parse().unwrap();
        let turns = authors.iter().zip(1..).map(|(author, number)| Turn {
            id: turn(number),
            session_id: id.clone(),
            number,
            author: (*author).to_owned(),
            prompt: Prompt::new("Do it").unwrap(),
            agent: None,
            model: None,
            status: TurnStatus::Claimed,
            created_at: Timestamp::UNIX_EPOCH,
            attempts: Vec::new(),
        });
        let turns = turns.collect();
        let (task_id, branch) = ("0000000000000001".parse().unwrap(), BranchName::for_session("x", &id));
        Session { id, task_id, branch, created_at: Timestamp::UNIX_EPOCH, turns }
    }

    fn started(number: u32) -> EventBody {
        EventBody::TurnStarted { turn_id: turn(number), number, author: "told".into() }
    }

    fn resumed(author: &str, prompt: Option<&str>) -> EventBody {
        let prompt = prompt.map(|text| Prompt::new(text).unwrap());
        EventBody::SessionResumed { turn_id: turn(2), author: author.into(), prompt }
    }

    fn decided(author: &str, plan: Option<&str>, comment: Option<&str>) -> EventBody {
        let (plan, comment) = (plan.map(str::to_owned), comment.map(str::to_owned));
        EventBody::PlanDecided { approved: comment.is_none(), author: author.into(), plan, comment }
    }

    #[test]
    fn a_turn_acts_for_the_person_who_instructed_it_last_and_automatic_ones_for_the_requester() {
        let of = |author: &str, bodies: Vec<EventBody>| {
            let events = journal([vec![started(1), decided("eve", Some("hers"), None), started(2)], bodies].concat());
            actor("ada", Some(&session(&["ada", author])), &turn(2), &events)
        };
        assert_eq!(of("ada", Vec::new()), "ada");
        assert_eq!(of("bob", Vec::new()), "bob");
        // A worker that takes it over after a crash, or claims it after a decision, starts it again.
        assert_eq!(of("bob", vec![started(2)]), "bob");
        assert_eq!(of(CHECKS_AUTHOR, Vec::new()), "ada");
        assert_eq!(of("github:lint[bot]", Vec::new()), "ada");
        assert_eq!(of("ada", vec![resumed("bob", None), started(2)]), "ada");
        assert_eq!(of("ada", vec![resumed("bob", Some("Rather so")), started(2)]), "bob");
        assert_eq!(of("ada", vec![decided("bob", None, None), started(2)]), "ada");
        assert_eq!(of("ada", vec![decided("bob", Some("mine"), None), started(2)]), "bob");
        assert_eq!(of("ada", vec![decided("bob", None, Some("no")), started(2)]), "bob");
        assert_eq!(of(CHECKS_AUTHOR, vec![resumed("bob", Some("Stop that"))]), "bob");
    }
}
