//! Signing in with GitHub: who someone is, and whether they belong to those who may come in.
//!
//! The browser is sent to GitHub with a state and a challenge that only it can answer (PKCE); what comes back is exchanged for
//! a token of the person, which is kept in the vault. Whether they still belong is asked again from time to time, with that
//! token; who belongs no more is signed out, and the tokens they made for themselves end.

mod kept;
mod protocol;
mod routes;
#[cfg(test)]
mod tests;

pub use routes::{begin, callback};

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use harvest_core::{Clock, Role, Scope, Stopping, TaskStatus};
use harvest_store::{AccessToken, OwnerRight, Store, TaskQuery, TokenKind};
use tokio::sync::Semaphore;

use super::secret::Secret;
use crate::Error;
use crate::desk::Desk;
use crate::state::App;
use kept::Keeping;
use protocol::{Github, Trouble};

/// People who sign in at the same time; each has the server ask GitHub a few times.
const AT_ONCE: usize = 8;
const MOST_KNOWN: usize = 10_000;
const TASKS_AT_ONCE: usize = 100;
/// What GitHub said last is believed no longer than this while it cannot be asked.
const LONGEST_BELIEVED: Duration = Duration::from_secs(24 * 60 * 60);

/// Who may come in, and how GitHub knows us.
#[derive(Debug)]
pub struct Options {
    pub client_id: String,
    pub client_secret: Secret,
    /// `https://github.com`, or that of an Enterprise server.
    pub url: String,
    /// Members of any of these may come in.
    pub organizations: Vec<String>,
    /// And of any of these, as `organization/team`.
    pub teams: Vec<String>,
    /// These may, and they are admins of everything.
    pub admins: Vec<String>,
    /// What everyone who comes in may do everywhere; `None`: what their projects give them.
    pub role: Option<Role>,
    /// How long someone is believed to belong before GitHub is asked again.
    pub believed: Duration,
}

#[derive(Debug)]
pub struct SignIn {
    options: Options,
    github: Github,
    /// Those who sign in right now.
    places: Semaphore,
    /// When it was last asked whether someone belongs.
    asked: Mutex<HashMap<String, Instant>>,
    /// Tokens that are being refreshed: a refresh token works once.
    refreshing: tokio::sync::Mutex<()>,
    /// The name under which this process takes the right to refresh a token in the store.
    holder: Secret,
}

/// What someone who belongs may do.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Standing {
    role: Role,
    /// `None`: everywhere; else what their projects give them.
    projects: Option<Vec<String>>,
}

impl SignIn {
    pub fn new(options: Options) -> Result<Self, Error> {
        let github = Github::at(&options.url)?;
        if options.organizations.is_empty() && options.teams.is_empty() && options.admins.is_empty() {
            return Err(Error::OpenToEveryone);
        }
        if let Some(team) =
            options.teams.iter().find(|team| team.split('/').filter(|part| !part.is_empty()).count() != 2)
        {
            return Err(Error::BadTeam { team: team.clone() });
        }
        Ok(Self {
            options,
            github,
            places: Semaphore::new(AT_ONCE),
            asked: Mutex::default(),
            refreshing: tokio::sync::Mutex::default(),
            holder: Secret::generate("")?,
        })
    }

    /// What someone may do, as GitHub says now; `None` when they do not belong.
    async fn standing(&self, access: &str, login: &str) -> Result<Option<Standing>, Trouble> {
        let options = &self.options;
        if options.admins.iter().any(|admin| admin.eq_ignore_ascii_case(login)) {
            return Ok(Some(Standing { role: Role::Admin, projects: None }));
        }
        if !self.belongs(access, login).await? {
            return Ok(None);
        }
        Ok(Some(match options.role {
            Some(role) => Standing { role, projects: None },
            None => Standing { role: Role::Viewer, projects: Some(Vec::new()) },
        }))
    }

    async fn belongs(&self, access: &str, login: &str) -> Result<bool, Trouble> {
        for organization in &self.options.organizations {
            if self.github.is_in_organization(access, organization).await? {
                return Ok(true);
            }
        }
        for team in &self.options.teams {
            if self.github.is_in_team(access, team, login).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether someone of this name signs in here. The token of anyone else is never shown to this GitHub.
    pub fn concerns(&self, user: &str) -> bool {
        self.github.login_of(user).is_some()
    }

    /// What someone of this name may do everywhere, as long as they belong.
    pub fn role_everywhere(&self, user: &str) -> Option<Role> {
        let login = self.github.login_of(user)?;
        let is_admin = self.options.admins.iter().any(|admin| admin.eq_ignore_ascii_case(login));
        if is_admin { Some(Role::Admin) } else { self.options.role }
    }

    /// Asks again whether someone belongs, when it is time. In the background: nobody waits for GitHub, and while it cannot
    /// be reached people stay as they are.
    pub fn check_again(self: &Arc<Self>, app: &App, token: &AccessToken) {
        {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            if asked.len() >= MOST_KNOWN {
                asked.clear();
            }
            let last = asked.get(&token.user);
            // Another server, or the one before this, may have asked; the token itself is proof for as long.
            let age = app.clock.now().duration_since(token.created_at).unsigned_abs();
            if age < self.options.believed || last.is_some_and(|last| last.elapsed() < self.options.believed) {
                return;
            }
            asked.insert(token.user.clone(), Instant::now());
        }
        let (own, app, user) = (self.clone(), app.clone(), token.user.clone());
        tokio::spawn(async move {
            let keeping = Keeping { store: app.store.as_ref(), desk: app.desk.as_ref(), clock: app.clock.as_ref() };
            match own.look_again(keeping, &user).await {
                Ok(standing) => {
                    if let Err(error) = own.end_tokens(&app, &user, standing.as_ref()).await {
                        tracing::warn!(%error, user, "the tokens of someone who no longer belongs could not be ended");
                    }
                }
                Err(error) => tracing::warn!(%error, user, "GitHub cannot say whether someone belongs"),
            }
        });
    }

    /// What someone may do now; `None` when they do not belong, and when the name is not theirs any more. GitHub gives a login
    /// that its owner gave up to others, who are then called the same here.
    async fn look_again(&self, keeping: Keeping<'_>, user: &str) -> Result<Option<Standing>, Trouble> {
        let Some(kept) = self.token_of(keeping, user).await? else { return Ok(None) };
        match self.github.person(&kept.access_token).await {
            // The person has withdrawn what they gave.
            Err(Trouble::Refused(_)) => Ok(None),
            Err(error) => Err(error),
            Ok(person) if !kept.is_of(&person) || self.github.name_of(&person) != user => {
                tracing::warn!(user, account = kept.account, "an account that signed in is not called so any more");
                kept::forget(keeping.desk, user, &kept).await?;
                Ok(None)
            }
            Ok(person) => self.standing(&kept.access_token, &person.login).await,
        }
    }

    /// Ends what belonged to whoever had a name before, when another account takes it: sessions, tokens that they made for
    /// themselves, schedules that run as them, tasks that are not finished, and their own credentials.
    async fn end_former(&self, app: &App, user: &str) -> Result<(), harvest_engine::Error> {
        let mut former = Vec::new();
        for kind in [TokenKind::Person, TokenKind::Personal] {
            former.extend(app.store.tokens(kind).await?.into_iter().filter(|token| token.user == user));
        }
        let Some(session) = former.first().map(|token| token.id.clone()) else { return Ok(()) };
        for token in former.iter().filter(|token| token.revoked_at.is_none()) {
            app.store.revoke_token(&token.id, app.clock.now()).await?;
        }
        app.doorman.forget();
        for mut schedule in app.store.schedules().await? {
            if let Some(owner) = schedule.owner.as_mut()
                && owner.user == user
                && owner.right == OwnerRight::Person
            {
                // It is refused from now on, and says why.
                owner.right = OwnerRight::Token { id: session.clone() };
                app.store.save_schedule(schedule).await?;
            }
        }
        let theirs = Scope::User(user.to_owned());
        for record in app.store.credentials().await?.into_iter().filter(|one| one.credential.scope == theirs) {
            app.store.remove_credential(&record.credential.id).await?;
        }
        // What waits or runs would act as the new owner of the name.
        for status in TaskStatus::ALL.into_iter().filter(|status| !status.is_finished()) {
            let query = TaskQuery { status: Some(status), requested_by: Some(user.to_owned()), ..TaskQuery::default() };
            let mut query = TaskQuery { limit: TASKS_AT_ONCE, ..query };
            loop {
                let page = app.store.tasks(query.clone()).await?;
                for task in &page.items {
                    app.end(&task.id, Stopping::Cancel).await?;
                }
                match page.next_cursor {
                    Some(cursor) => query.cursor = Some(cursor),
                    None => break,
                }
            }
        }
        Ok(())
    }

    /// Ends every session of a person that says something else than `standing`, and the tokens they made for themselves
    /// when they belong no more.
    async fn end_tokens(&self, app: &App, user: &str, standing: Option<&Standing>) -> Result<(), harvest_store::Error> {
        let mut over = Vec::new();
        for kind in [TokenKind::Person, TokenKind::Personal] {
            let theirs = app.store.tokens(kind).await?.into_iter();
            over.extend(theirs.filter(|token| token.user == user && token.revoked_at.is_none()).filter(|token| {
                standing.is_none_or(|now| {
                    kind == TokenKind::Person && (now.role, &now.projects) != (token.role, &token.projects)
                })
            }));
        }
        if over.is_empty() {
            return Ok(());
        }
        tracing::info!(user, tokens = over.len(), "someone no longer belongs, or may something else: signed out");
        for token in over {
            app.store.revoke_token(&token.id, app.clock.now()).await?;
        }
        app.doorman.forget();
        Ok(())
    }
}

/// Whether people who sign in with GitHub still belong, for what is done in their name while they are away.
#[derive(Debug)]
pub struct Membership {
    sign_in: SignIn,
    store: Arc<dyn Store>,
    desk: Arc<dyn Desk>,
    clock: Arc<dyn Clock>,
    /// The last answers of GitHub.
    answers: Mutex<HashMap<String, (Instant, bool)>>,
}

impl Membership {
    pub fn new(
        options: Options,
        store: Arc<dyn Store>,
        desk: Arc<dyn Desk>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        Ok(Self { sign_in: SignIn::new(options)?, store, desk, clock, answers: Mutex::default() })
    }

    /// Whether someone of this name signs in here.
    pub fn concerns(&self, user: &str) -> bool {
        self.sign_in.concerns(user)
    }

    /// What someone of this name may do everywhere, as long as they belong.
    pub fn role_everywhere(&self, user: &str) -> Option<Role> {
        self.sign_in.role_everywhere(user)
    }

    /// Whether someone belongs. GitHub is asked as often as for people who are signed in. While it cannot be reached, what it
    /// said last holds for a day; someone whom it never spoke of does not belong.
    pub async fn holds(&self, user: &str) -> bool {
        let known = self.answers.lock().unwrap_or_else(PoisonError::into_inner).get(user).copied();
        if let Some((_, belongs)) = known.filter(|(at, _)| at.elapsed() < self.sign_in.options.believed) {
            return belongs;
        }
        let (store, desk, clock) = (self.store.as_ref(), self.desk.as_ref(), self.clock.as_ref());
        let belongs = match self.sign_in.look_again(Keeping { store, desk, clock }, user).await {
            Ok(standing) => standing.is_some(),
            Err(error) => {
                tracing::warn!(%error, user, "GitHub cannot say whether someone belongs");
                return known.is_some_and(|(at, belongs)| belongs && at.elapsed() < LONGEST_BELIEVED);
            }
        };
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= MOST_KNOWN {
            answers.clear();
        }
        answers.insert(user.to_owned(), (Instant::now(), belongs));
        belongs
    }
}
