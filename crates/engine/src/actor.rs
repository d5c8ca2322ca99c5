//! The person on whose behalf a turn is worked on: its personal credentials are used, it pays, and the commits name it.
//!
//! This is the person who retried the turn last, or the author of the last instruction that the agent was given in it: its
//! prompt, or what someone said when they resumed the turn, changed its plan, or turned down its plan or its result. The
//! token that they asked with pays as well. A turn that no person asked for, such as one for failed checks, is the
//! requester's of its task; it is only begun on commits of Harvest's own. The answer depends on the store alone, so a
//! worker that takes the turn over after a crash finds the same person.

use harvest_core::{Event, EventBody, Session, Task, TurnId, is_automatic};

use crate::journal::of_turn;

/// A person that a turn acts for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Actor {
    pub(crate) person: String,
    /// The id of the API token that they asked with.
    pub(crate) token: Option<String>,
}

impl Actor {
    /// The person who asked for a task.
    pub(crate) fn requester(task: &Task) -> Self {
        Self { person: task.requested_by.clone(), token: task.settings.token.clone() }
    }

    /// The person that `turn` acts for; `events` are those of its session.
    pub(crate) fn of(requester: Self, session: Option<&Session>, turn: &TurnId, events: &[Event]) -> Self {
        let Some(asked) = session.and_then(|session| session.turns.iter().find(|asked| asked.id == *turn)) else {
            return requester;
        };
        // Turns that were held when the store learnt to keep the person have it in their journal alone.
        let told = || of_turn(events, turn).iter().rev().find_map(|event| instructs(&event.body));
        let told = asked.acts_for.as_deref().or_else(told);
        let person = told.unwrap_or(&asked.author);
        if is_automatic(person) || (asked.number == 1 && told.is_none() && person == requester.person) {
            return requester;
        }
        Self { person: person.to_owned(), token: asked.token.as_ref().map(ToString::to_string) }
    }
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
            ended: None,
            created_at: Timestamp::UNIX_EPOCH,
            attempts: Vec::new(),
            acts_for: None,
            token: None,
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

    fn asker(person: &str, token: Option<&str>) -> Actor {
        Actor { person: person.into(), token: token.map(str::to_owned) }
    }

    #[test]
    fn a_turn_acts_for_whoever_retried_it_and_spends_with_the_token_that_it_was_asked_with() {
        let (first, second) = ("0000000000000001", "0000000000000002");
        let requester = || asker("ada", Some(first));
        let of = |author: &str, number: u32, acts_for: Option<&str>, token: Option<&str>| {
            let mut session = session(&["ada", author]);
            let asked = &mut session.turns[number as usize - 1];
            (asked.acts_for, asked.token) = (acts_for.map(str::to_owned), token.map(|id| id.parse().unwrap()));
            Actor::of(requester(), Some(&session), &turn(number), &journal(vec![started(1), started(2)]))
        };
        // A prompt in someone's session pays with its own token, and without one with none.
        assert_eq!(of("bob", 2, None, Some(second)), asker("bob", Some(second)));
        assert_eq!(of("bob", 2, None, None), asker("bob", None));
        assert_eq!(of("ada", 2, None, Some(second)), asker("ada", Some(second)));
        assert_eq!(of("ada", 2, None, None), asker("ada", None));
        // The first turn is its task's, also when it was made before turns kept their token.
        assert_eq!(of("bob", 1, None, None), requester());
        // A retry acts for the person who asks for it.
        assert_eq!(of("bob", 1, Some("eve"), Some(second)), asker("eve", Some(second)));
        assert_eq!(of("bob", 2, Some("eve"), None), asker("eve", None));
        assert_eq!(of(CHECKS_AUTHOR, 2, Some("eve"), None), asker("eve", None));
        assert_eq!(of(CHECKS_AUTHOR, 2, None, None), requester());
    }

    #[test]
    fn a_turn_acts_for_the_person_who_instructed_it_last_and_automatic_ones_for_the_requester() {
        let of = |author: &str, bodies: Vec<EventBody>| {
            let events = journal([vec![started(1), decided("eve", Some("hers"), None), started(2)], bodies].concat());
            Actor::of(asker("ada", None), Some(&session(&["ada", author])), &turn(2), &events).person
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
