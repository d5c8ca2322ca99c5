//! Who looks at which session. Known to this process alone, and gone with it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use harvest_api_types::Person;
use harvest_core::SessionId;
use serde::Serialize;

use super::feed::{Aside, Feed};

/// Everyone who looks at a session now.
#[derive(Debug, Serialize)]
struct Present<'a> {
    session_id: &'a SessionId,
    people: Vec<Person>,
}

#[derive(Debug, Clone)]
pub struct Presence {
    feed: Feed,
    here: Arc<Mutex<HashMap<SessionId, BTreeMap<String, usize>>>>,
}

impl Presence {
    pub fn new(feed: Feed) -> Self {
        Self { feed, here: Arc::default() }
    }

    /// They are there until what is returned is dropped.
    pub fn enter(&self, session: &SessionId, repository: &str, user: &str) -> Here {
        let here = Here {
            presence: self.clone(),
            session: session.clone(),
            repository: repository.to_owned(),
            user: user.to_owned(),
        };
        {
            let mut sessions = self.here.lock().unwrap_or_else(PoisonError::into_inner);
            *sessions.entry(session.clone()).or_default().entry(user.to_owned()).or_default() += 1;
        }
        here.tell();
        here
    }

    pub fn people(&self, session: &SessionId) -> Vec<Person> {
        let sessions = self.here.lock().unwrap_or_else(PoisonError::into_inner);
        let people = sessions.get(session).into_iter().flatten();
        people.map(|(user, windows)| Person { user: user.clone(), windows: *windows }).collect()
    }
}

/// Someone is there.
#[derive(Debug)]
pub struct Here {
    presence: Presence,
    session: SessionId,
    repository: String,
    user: String,
}

impl Here {
    fn tell(&self) {
        let people = self.presence.people(&self.session);
        let present = Present { session_id: &self.session, people };
        self.presence.feed.tell(Aside::new("presence", &self.repository, &present));
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        {
            let mut sessions = self.presence.here.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(people) = sessions.get_mut(&self.session) {
                if let Some(windows) = people.get_mut(&self.user) {
                    *windows -= 1;
                }
                people.retain(|_, windows| *windows > 0);
                if people.is_empty() {
                    sessions.remove(&self.session);
                }
            }
        }
        self.tell();
    }
}
