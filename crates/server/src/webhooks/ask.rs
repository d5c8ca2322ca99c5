//! An issue becomes a task, with no more trust than its author has earned.

use std::collections::HashMap;

use harvest_core::{Prompt, Source, TaskKind};
use harvest_engine::{Remark, Situation};
use harvest_forge::{Comment, Hosting, Place, Standing, Thread};
use harvest_store::{IdempotencyKey, Link, LinkKind, Submitted};

use super::act::Trouble;
use crate::Ask;
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
    let Wanted { repository, place, by, .. } = wanted;
    let thread = hosting.thread(place.number).await?;
    let (text, standing) = prompt(app, hosting, &thread, wanted).await?;
    // A stranger's words may make a plan, without a way out. A person who may write decides on it.
    let stranger = standing == Standing::Stranger;
    let ask = Ask {
        prompt: text.as_str().to_owned(),
        repository: (*repository).to_owned(),
        plan: stranger,
        source_url: Some(place.url.clone()),
        ..Ask::default()
    };
    let person = format!("github:{by}");
    let mut request = app.desk.request(&ask, &person).await.map_err(|refusal| Trouble::lasting(refusal.message))?;
    request.source = Source::GithubIssue;
    request.requested_by = person;
    request.base.author = Some(((*by).to_owned(), format!("{by}@users.noreply.github.com")));
    if stranger {
        (request.plan, request.egress) = (true, Some(Vec::new()));
    }
    request.queue.kind = Some(TaskKind::Issue);
    request.queue.source_url = Some(place.url.clone());
    // However often it is asked for, an issue has one task.
    request.queue.key = Some(IdempotencyKey { key: format!("github:{}", place.url), digest: place.url.clone() });
    let submitted = app.engine.submit(request).await?;
    let link = Link {
        url: place.url.clone(),
        kind: LinkKind::Issue,
        session: submitted.session.clone(),
        repository: (*repository).to_owned(),
        opened_at: app.clock.now(),
        end: None,
    };
    app.store.link(link).await?;
    Ok(submitted)
}

/// What the agent is told, and how far its authors are trusted. Comments of strangers are left out: nobody asked for them.
async fn prompt(
    app: &App,
    hosting: &dyn Hosting,
    thread: &Thread,
    wanted: &Wanted<'_>,
) -> Result<(Prompt, Standing), Trouble> {
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
    let text = app.engine.tell(&format!("github:{}", wanted.by), wanted.repository, &request, &issue);
    let text = text.map_err(|error| Trouble::lasting(error.to_string()))?;
    let prompt = Prompt::new(text).map_err(|error| Trouble::lasting(error.to_string()))?;
    let trusted = known.get(thread.author.as_str()) == Some(&Standing::Writer) && asks == Standing::Writer;
    Ok((prompt, if trusted { Standing::Writer } else { Standing::Stranger }))
}
