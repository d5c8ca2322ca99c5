//! What a delivery leads to. Everything here may be done twice: whoever acts may die in between.

use harvest_core::{CHECKS_AUTHOR, Code, SessionId, Stopping, TaskStatus, Trust, is_automatic};
use harvest_engine::prepare::Push;
use harvest_engine::{FailedCheck, FollowUp, Found, Situation};
use harvest_forge::{Checked, Forge, Happening, Hosting, Place, PullRequestState, Remark, Standing, Verdict, What};
use harvest_store::{Delivery, IdempotencyKey, Link, LinkEnd, LinkKind, PlanVerdict, QuotaExceeded, describe};

use super::ask::{self, Wanted};
use crate::Refusal;
use crate::state::App;

/// What an agent is asked when checks of its pull request failed.
/// The first line of a prompt is the title of its turn and of the turn's commit.
const FAILED: &str = "Fix the failed checks\n\n\
    Checks failed on the pull request, at what you delivered. Fix the cause. Do not weaken the checks or the tests.";
const REVIEWED: &str = "Address review comments";
/// Of a comment, in the title of the turn that deals with it.
const LONGEST_FIRST_LINE: usize = 46;

/// The outcome of a delivery that would have begun a turn without a person for someone else's commit.
const NOT_OURS: &str = "ignored: no person asked, and Harvest did not deliver the commit";

/// Why a delivery failed.
#[derive(Debug)]
pub struct Trouble {
    pub code: Code,
    pub message: String,
    pub may_pass: bool,
}

impl Trouble {
    pub fn lasting(message: impl Into<String>) -> Self {
        Self { code: Code::Internal, message: message.into(), may_pass: false }
    }

    /// Harvest refuses, as it would on the command line.
    pub fn refused(refusal: Refusal) -> Self {
        Self { code: refusal.code, message: refusal.message, may_pass: false }
    }

    pub fn passing(message: impl Into<String>) -> Self {
        Self { code: Code::Internal, message: message.into(), may_pass: true }
    }
}

impl From<harvest_forge::Error> for Trouble {
    fn from(error: harvest_forge::Error) -> Self {
        Self { code: error.code(), may_pass: error.may_pass(), message: error.to_string() }
    }
}

impl From<harvest_store::Error> for Trouble {
    fn from(error: harvest_store::Error) -> Self {
        // The key of an issue or a delivery was used before: it was acted on. A day's quota is not waited out.
        let lasts = matches!(
            error,
            harvest_store::Error::KeyReused(_) | harvest_store::Error::Quota(QuotaExceeded::Begun { .. })
        );
        let may_pass = !lasts;
        Self { code: error.code(), message: error.to_string(), may_pass }
    }
}

impl From<harvest_engine::Error> for Trouble {
    fn from(error: harvest_engine::Error) -> Self {
        match error {
            harvest_engine::Error::Store(error) => error.into(),
            harvest_engine::Error::Forge(error) => error.into(),
            error => {
                let lasts = matches!(error.code(), Code::UnknownAgent | Code::AgentNotInstalled);
                Self { code: error.code(), message: error.to_string(), may_pass: !lasts }
            }
        }
    }
}

/// Acts, and says in a few words what came of it.
pub async fn act(app: &App, delivery: &Delivery) -> Result<String, Trouble> {
    let Some(webhooks) = app.desk.webhooks().await else { return Err(Trouble::lasting("webhooks are not set up")) };
    let told = webhooks.listener.translate(&delivery.event, delivery.payload.as_bytes());
    let Some(Happening { repository, by, what, .. }) = told.map_err(|error| Trouble::lasting(error.to_string()))?
    else {
        return Ok("ignored".to_owned());
    };
    // Whatever the delivery calls it, it is never a path of this machine.
    let Some(forge) = app.engine.forges().open_hosted(&repository).await else {
        return Ok("ignored: there is no GitHub account for this repository".to_owned());
    };
    describe(|entry| {
        entry.actor = person(&by);
        entry.project = app.desk.tenancy().identity(&entry.actor, forge.name()).project;
    });
    let Some(hosting) = forge.hosting() else {
        return Ok("ignored: there is no GitHub account for this repository".to_owned());
    };
    let acting = Acting { app, forge: forge.as_ref(), hosting, by: &by, delivery, most_fixes: webhooks.most_fixes };
    match what {
        What::Asked { issue } => acting.asked(&issue, None).await,
        What::Mentioned { place, text, .. } => acting.mentioned(&place, &text).await,
        What::ReviewAsked { pull } => acting.review_asked(&pull).await,
        What::Closed { pull, merged } => acting.closed(&pull, merged).await,
        What::CheckFailed { commit, pulls, .. } => acting.check_failed(&commit, &pulls).await,
        What::Reviewed { pull, review, verdict, text } => acting.reviewed(&pull, review, verdict, &text).await,
        What::Pushed { branch, commit, is_default } => {
            let push = Push { branch: &branch, commit: &commit, is_default };
            acting.pushed(push).await
        }
    }
}

struct Acting<'a> {
    app: &'a App,
    forge: &'a dyn Forge,
    hosting: &'a dyn Hosting,
    by: &'a str,
    delivery: &'a Delivery,
    most_fixes: u32,
}

impl Acting<'_> {
    async fn asked(&self, place: &Place, said: Option<&str>) -> Result<String, Trouble> {
        if let Some(known) = self.app.store.linked(&place.url).await? {
            return Ok(format!("ignored: session {} has it", known.session));
        }
        let wanted = Wanted { repository: self.forge.name(), place, by: self.by, said };
        let submitted = ask::task_of(self.app, self.hosting, &wanted).await?;
        self.app.engine.announce(self.hosting, &submitted.task, place.number).await;
        Ok(format!("task {}", submitted.task.id))
    }

    /// A first time it is a task; when it is asked for again, that task goes on with what the pull request is now.
    async fn review_asked(&self, place: &Place) -> Result<String, Trouble> {
        let wanted = Wanted { repository: self.forge.name(), place, by: self.by, said: None };
        let Some(known) = self.app.store.linked(&place.url).await? else {
            let submitted = ask::review_of(self.app, self.forge, self.hosting, &wanted).await?;
            self.app.engine.announce(self.hosting, &submitted.task, place.number).await;
            return Ok(format!("task {}", submitted.task.id));
        };
        if known.kind == LinkKind::PullRequest {
            return Ok("ignored: Harvest does not review its own pull requests".to_owned());
        }
        if self.hosting.standing(self.by).await? == Standing::Stranger {
            return Ok("ignored: the sender has no write access".to_owned());
        }
        if is_automatic(&self.author()) && !self.may_go_on(&known.session).await? {
            return Ok(format!("ignored: the limit of automatic turns ({}) is reached", self.most_fixes));
        }
        let thread = self.hosting.thread(place.number).await?;
        let task = self.app.store.session(&known.session).await?.task_id;
        let trust = self.app.store.task(&task).await?.task.settings.trust;
        if trust == Trust::Member && self.hosting.standing(&thread.author).await? == Standing::Stranger {
            // The task was begun when its author was trusted, and asks nobody before it reads.
            return Ok("ignored: its author has lost write access, and this session asks for no approval".to_owned());
        }
        let change = self.app.engine.change(self.forge, self.hosting, place.number, None).await?;
        if is_automatic(&self.author()) && !self.may_borrow(&known.session, &change.pull.head).await? {
            return Ok(NOT_OURS.to_owned());
        }
        let text = ask::review_prompt(self.app, &wanted, &thread, &change)?;
        let key = format!("github:review-asked:{}:{}", place.url, change.pull.head);
        self.prompt(&known.session, text.as_str().to_owned(), self.author(), key).await
    }

    async fn mentioned(&self, place: &Place, text: &str) -> Result<String, Trouble> {
        let Some(link) = self.app.store.linked(&place.url).await? else {
            if place.is_pull_request {
                return Ok("ignored: not a pull request of Harvest".to_owned());
            }
            return self.asked(place, Some(text)).await;
        };
        if self.hosting.standing(self.by).await? == Standing::Stranger {
            return Ok("ignored: the sender has no write access".to_owned());
        }
        let verdict = match text.trim().to_ascii_lowercase().as_str() {
            "" => return Ok("ignored: the mention asks for nothing".to_owned()),
            "approve" => Some(PlanVerdict::Approved { changed: None }),
            "reject" => Some(PlanVerdict::Rejected),
            _ => None,
        };
        let session = self.app.store.session(&link.session).await?;
        let task = self.app.store.task(&session.task_id).await?.task;
        if let (Some(verdict), TaskStatus::AwaitingApproval) = (verdict, task.status) {
            let (action, done) = match verdict {
                PlanVerdict::Rejected => ("task.reject", "rejected"),
                _ => ("task.approve", "approved"),
            };
            describe(|entry| action.clone_into(&mut entry.action));
            self.app.engine.decide(&task, (&self.author(), None), verdict).await?;
            return Ok(format!("{done} task {}", task.id));
        }
        if is_automatic(&self.author()) {
            if !self.may_go_on(&link.session).await? {
                return Ok(format!("ignored: the limit of automatic turns ({}) is reached", self.most_fixes));
            }
            if place.is_pull_request
                && !self.may_borrow(&link.session, &self.hosting.pull_request(place.number).await?.head).await?
            {
                return Ok(NOT_OURS.to_owned());
            }
        }
        self.prompt(&link.session, text.to_owned(), self.author(), self.delivery.id.clone()).await
    }

    async fn closed(&self, pull: &Place, merged: bool) -> Result<String, Trouble> {
        let end = if merged { LinkEnd::Merged } else { LinkEnd::Closed };
        let Some(link) = self.app.store.linked(&pull.url).await? else {
            return Ok("ignored: not a pull request of Harvest".to_owned());
        };
        self.app.store.close_link(&pull.url, end, self.app.clock.now()).await?;
        let session = self.app.store.session(&link.session).await?;
        // Whoever still works on it works for nobody.
        if !self.app.store.task(&session.task_id).await?.task.status.is_finished() {
            describe(|entry| "task.cancel".clone_into(&mut entry.action));
            self.app.end(&session.task_id, Stopping::Cancel).await?;
        }
        Ok(format!("{} after session {}", if merged { "merged" } else { "closed" }, link.session))
    }

    async fn check_failed(&self, commit: &str, pulls: &[Checked]) -> Result<String, Trouble> {
        for Checked { number, url } in pulls {
            let Some(link) = self.ours(url).await? else { continue };
            let pull = self.hosting.pull_request(*number).await?;
            if pull.head != commit || pull.state != PullRequestState::Open {
                return Ok("ignored: the branch has newer commits".to_owned());
            }
            if !self.may_go_on(&link.session).await? {
                return Ok(format!("ignored: the limit of automatic turns ({}) is reached", self.most_fixes));
            }
            if !self.may_borrow(&link.session, &pull.head).await? {
                return Ok(NOT_OURS.to_owned());
            }
            let failed = self.hosting.failed_checks(commit).await?;
            let checks = failed.into_iter().map(|check| FailedCheck { name: check.name, log: check.output }).collect();
            let text = self.told(FAILED, &Situation::CiFailure { checks })?;
            // All checks of a commit are one reason to go on.
            let key = format!("github:checks:{url}:{commit}");
            return self.prompt(&link.session, text, CHECKS_AUTHOR.to_owned(), key).await;
        }
        Ok("ignored: not a pull request of Harvest".to_owned())
    }

    async fn reviewed(&self, pull: &Place, review: u64, verdict: Verdict, text: &str) -> Result<String, Trouble> {
        let Some(link) = self.ours(&pull.url).await? else {
            return Ok("ignored: not a pull request of Harvest".to_owned());
        };
        if self.hosting.standing(self.by).await? == Standing::Stranger {
            return Ok("ignored: the sender has no write access".to_owned());
        }
        let remarks = self.hosting.remarks(pull.number, review).await?;
        let says_something = !text.trim().is_empty() || !remarks.is_empty();
        if verdict == Verdict::Approved || !says_something {
            return Ok("ignored: the review asks for nothing".to_owned());
        }
        if is_automatic(&self.author()) {
            if !self.may_go_on(&link.session).await? {
                return Ok(format!("ignored: the limit of automatic turns ({}) is reached", self.most_fixes));
            }
            if !self.may_borrow(&link.session, &self.hosting.pull_request(pull.number).await?.head).await? {
                return Ok(NOT_OURS.to_owned());
            }
        }
        let whole = (!text.trim().is_empty()).then(|| Found { path: None, line: None, text: text.to_owned() });
        let remark = |remark: Remark| Found {
            path: Some(remark.path),
            line: remark.line.and_then(|line| u32::try_from(line).ok()),
            text: remark.body,
        };
        let findings: Vec<Found> = whole.into_iter().chain(remarks.into_iter().map(remark)).collect();
        let title = review_title(&findings);
        let request = format!("{title}\n\n{} has reviewed the pull request. Do what the review asks for.", self.by);
        let text = self.told(&request, &Situation::Fix { findings })?;
        self.prompt(&link.session, text, self.author(), format!("github:review:{review}")).await
    }

    async fn pushed(&self, push: Push<'_>) -> Result<String, Trouble> {
        let followed = self.app.engine.pushed(self.forge, push).await?;
        Ok(match (followed.fetched, followed.due.as_slice()) {
            (false, []) => "ignored: no repository is prepared from it".to_owned(),
            (true, []) => format!("fetched {}", push.commit),
            (_, due) => format!("snapshots of {} are due", due.join(", ")),
        })
    }

    fn told(&self, request: &str, situation: &Situation) -> Result<String, Trouble> {
        let told = self.app.engine.tell(&self.author(), self.forge.name(), request, situation);
        told.map_err(|error| Trouble::lasting(error.to_string()))
    }

    /// A pull request that is still of interest.
    async fn ours(&self, url: &str) -> Result<Option<Link>, Trouble> {
        let known = self.app.store.linked(url).await?;
        Ok(known.filter(|link| link.kind == LinkKind::PullRequest && link.end.is_none()))
    }

    /// Whether a turn that no person asks for may be begun for a commit. It acts for the requester of its task, with their
    /// credentials and their money, so the commit must be what Harvest itself delivered: what other people push, and what its
    /// checks print, is nothing that the requester has asked for. A requester who is a program has nothing to lend.
    async fn may_borrow(&self, session: &SessionId, commit: &str) -> Result<bool, Trouble> {
        let task = self.app.store.session(session).await?.task_id;
        let requester = self.app.store.task(&task).await?.task.requested_by;
        if is_automatic(&requester) {
            return Ok(true);
        }
        Ok(self.app.engine.last_delivered(session).await?.as_deref() == Some(commit))
    }

    async fn may_go_on(&self, session: &SessionId) -> Result<bool, Trouble> {
        let turns = self.app.store.session(session).await?.turns;
        let fixes = turns.iter().skip(1).filter(|turn| is_automatic(&turn.author));
        Ok(fixes.count() < self.most_fixes as usize)
    }

    async fn prompt(&self, session: &SessionId, text: String, author: String, key: String) -> Result<String, Trouble> {
        let prompt = harvest_core::Prompt::new(text).map_err(|error| Trouble::lasting(error.to_string()))?;
        // The first words under a key count, whatever they were.
        let key = Some(IdempotencyKey { digest: key.clone(), key });
        let follow_up =
            FollowUp { session: session.clone(), prompt, author, agent: None, model: None, key, token: None };
        describe(|entry| "session.prompt".clone_into(&mut entry.action));
        let turn = self.app.engine.prompt(follow_up).await?;
        Ok(format!("turn {} of session {session}", turn.number))
    }

    fn author(&self) -> String {
        person(self.by)
    }
}

/// What a person who did something on GitHub is called. It is not the name that signing in gives: that one has credentials, and
/// a login may have got another owner since.
pub(super) fn person(login: &str) -> String {
    format!("github:{}", login.to_ascii_lowercase())
}

/// The title of a turn that deals with a review: the first line that says something, where there is one.
fn review_title(findings: &[Found]) -> String {
    let lines = findings.iter().flat_map(|found| found.text.lines());
    let Some(first) = lines.map(str::trim).find(|line| line.chars().any(char::is_alphanumeric)) else {
        return REVIEWED.to_owned();
    };
    let shown: String = first.chars().filter(|letter| !letter.is_control()).take(LONGEST_FIRST_LINE).collect();
    let more = if first.chars().count() > LONGEST_FIRST_LINE { "…" } else { "" };
    format!("{REVIEWED}: {}{more}", shown.trim_end())
}
