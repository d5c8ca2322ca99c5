//! An issue, or a review that is asked for, becomes a task, with no more trust than its authors have earned.

use std::collections::HashMap;

use harvest_api_types::Ask;
use harvest_core::{Prompt, Source, TaskKind, Trust, is_automatic};
use harvest_engine::{Change, REVIEW, Remark, Situation};
use harvest_forge::{Comment, Forge, Hosting, Place, Standing, Thread};
use harvest_store::{IdempotencyKey, Link, LinkKind, Submitted, describe};

use super::act::{self, Trouble};
use crate::state::App;

const MOST_COMMENTS: usize = 50;

/// What is asked for, and who asks.
pub struct Wanted<'w> {
    pub repository: &'w str,
    pub place: &'w Place,
    /// Who made it ours.
    pub by: &'w str,
    /// What they said when they did.
    pub said: Option<&'w str>,
}

/// The task of an issue: the one there is, or a new one.
pub async fn task_of(app: &App, hosting: &dyn Hosting, wanted: &Wanted<'_>) -> Result<Submitted, Trouble> {
    let thread = hosting.thread(wanted.place.number).await?;
    let (text, asks, standing) = prompt(app, hosting, &thread, wanted).await?;
    let asked = Asked { text, asks, standing, kind: TaskKind::Issue, source: Source::GithubIssue, base: None };
    submit(app, wanted, asked).await
}

/// The task of reviewing a pull request. It stands on what is to be reviewed, and is told what would change.
pub async fn review_of(
    app: &App,
    forge: &dyn Forge,
    hosting: &dyn Hosting,
    wanted: &Wanted<'_>,
) -> Result<Submitted, Trouble> {
    let thread = hosting.thread(wanted.place.number).await?;
    let change = app.engine.change(forge, hosting, wanted.place.number, None).await?;
    let asks = hosting.standing(wanted.by).await?;
    let wrote = hosting.standing(&thread.author).await?;
    let text = review_prompt(app, wanted, &thread, &change)?;
    let asked = Asked {
        text,
        asks,
        standing: if asks == Standing::Writer { wrote } else { asks },
        kind: TaskKind::PrReview,
        source: Source::GithubPr,
        base: Some(change.pull.head),
    };
    submit(app, wanted, asked).await
}

/// What is told to whoever reviews.
pub fn review_prompt(app: &App, wanted: &Wanted<'_>, thread: &Thread, change: &Change) -> Result<Prompt, Trouble> {
    let review = Situation::Review {
        title: thread.title.clone(),
        author: thread.author.clone(),
        body: thread.body.clone(),
        diff: change.diff.clone(),
    };
    told(app, wanted, REVIEW, &review)
}

/// What is to become a task.
struct Asked {
    text: Prompt,
    /// Of the asker alone.
    asks: Standing,
    /// Of everyone who had a part in what is asked.
    standing: Standing,
    kind: TaskKind,
    source: Source,
    base: Option<String>,
}

async fn submit(app: &App, wanted: &Wanted<'_>, asked: Asked) -> Result<Submitted, Trouble> {
    let Wanted { repository, place, by, .. } = wanted;
    // A stranger's words may make a plan, without a way out. A person who may write decides on it; what is carried out then
    // reaches what the project allows.
    let stranger = asked.standing == Standing::Stranger;
    let ask = Ask {
        prompt: asked.text.as_str().to_owned(),
        repository: (*repository).to_owned(),
        base: asked.base,
        plan: stranger,
        source_url: Some(place.url.clone()),
        ..Ask::default()
    };
    let person = act::person(by);
    let mut request = app.desk.request(&ask, &person).await.map_err(Trouble::refused)?;
    request.source = asked.source;
    request.requested_by = person;
    request.base.author = Some(((*by).to_owned(), format!("{by}@users.noreply.github.com")));
    if stranger {
        (request.plan, request.trust) = (true, Trust::Stranger);
    }
    request.queue.asked_by_stranger = asked.asks == Standing::Stranger || is_automatic(by);
    request.queue.kind = Some(asked.kind);
    request.queue.source_url = Some(place.url.clone());
    // However often it is asked for, an issue has one task.
    request.queue.key = Some(IdempotencyKey { key: format!("github:{}", place.url), digest: place.url.clone() });
    describe(|entry| "task.create".clone_into(&mut entry.action));
    let submitted = app.engine.submit(request).await?;
    let link = Link {
        url: place.url.clone(),
        // A pull request of others is to us what an issue is: where someone asked for something.
        kind: LinkKind::Issue,
        session: submitted.session.clone(),
        repository: (*repository).to_owned(),
        opened_at: app.clock.now(),
        end: None,
    };
    app.store.link(link).await?;
    Ok(submitted)
}

fn told(app: &App, wanted: &Wanted<'_>, request: &str, situation: &Situation) -> Result<Prompt, Trouble> {
    let person = act::person(wanted.by);
    let text = app.engine.tell(&person, wanted.repository, request, situation);
    let text = text.map_err(|error| Trouble::lasting(error.to_string()))?;
    Prompt::new(text).map_err(|error| Trouble::lasting(error.to_string()))
}

/// What the agent is told, how far the asker is trusted, and how far all its authors are. Comments of strangers are left out: nobody asked for them.
async fn prompt(
    app: &App,
    hosting: &dyn Hosting,
    thread: &Thread,
    wanted: &Wanted<'_>,
) -> Result<(Prompt, Standing, Standing), Trouble> {
    let mut known = HashMap::new();
    for author in thread.comments.iter().take(MOST_COMMENTS).map(|comment| &comment.author).chain([&thread.author]) {
        if !known.contains_key(author.as_str()) {
            known.insert(author.as_str(), hosting.standing(author).await?);
        }
    }
    let asks = match known.get(wanted.by) {
        Some(asks) => *asks,
        None => hosting.standing(wanted.by).await?,
    };
    let ours = |comment: &&Comment| {
        known.get(comment.author.as_str()) == Some(&Standing::Writer) && !comment.body.starts_with("<!-- harvest:")
    };
    let comments = thread.comments.iter().filter(ours);
    let issue = Situation::Issue {
        title: thread.title.clone(),
        author: thread.author.clone(),
        body: thread.body.clone(),
        url: Some(wanted.place.url.clone()),
        comments: comments.map(|said| Remark { author: said.author.clone(), text: said.body.clone() }).collect(),
    };
    let said = wanted.said.filter(|said| !said.is_empty() && asks == Standing::Writer);
    let request = said.map_or_else(|| thread.title.clone(), |said| format!("{}\n\n{said}", thread.title));
    let prompt = told(app, wanted, &request, &issue)?;
    let trusted = known.get(thread.author.as_str()) == Some(&Standing::Writer) && asks == Standing::Writer;
    Ok((prompt, asks, if trusted { Standing::Writer } else { Standing::Stranger }))
}
