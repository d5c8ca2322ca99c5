//! An issue becomes a task, with no more trust than its author has earned.

use harvest_core::{Prompt, PromptError, Source, TaskKind};
use harvest_forge::{Hosting, Place, Standing, Thread};
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
    let Wanted { repository, place, by, said } = wanted;
    let thread = hosting.thread(place.number).await?;
    let (text, standing) = prompt(hosting, &thread, place, by, *said).await?;
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
    hosting: &dyn Hosting,
    thread: &Thread,
    place: &Place,
    by: &str,
    said: Option<&str>,
) -> Result<(Prompt, Standing), Trouble> {
    let mut standings = std::collections::HashMap::new();
    let standing = hosting.standing(&thread.author).await?;
    standings.insert(thread.author.clone(), standing);
    let mut text =
        format!("{}\n\n{}\n\n(This is {}, by {}.)", thread.title, thread.body.trim(), place.url, thread.author);
    for comment in thread.comments.iter().take(MOST_COMMENTS) {
        let known = match standings.get(&comment.author) {
            Some(known) => *known,
            None => {
                let known = hosting.standing(&comment.author).await?;
                standings.insert(comment.author.clone(), known);
                known
            }
        };
        if known == Standing::Writer && !comment.body.starts_with("<!-- harvest:") {
            text.push_str(&format!("\n\n{} wrote:\n\n{}", comment.author, comment.body.trim()));
        }
    }
    let asks = match standings.get(by) {
        Some(known) => *known,
        None => hosting.standing(by).await?,
    };
    if let Some(said) = said.filter(|said| !said.is_empty() && asks == Standing::Writer) {
        text.push_str(&format!("\n\n{by} asks for this:\n\n{said}"));
    }
    let trusted = standing == Standing::Writer && asks == Standing::Writer;
    let prompt = Prompt::new(text).map_err(|error: PromptError| Trouble::lasting(error.to_string()))?;
    Ok((prompt, if trusted { Standing::Writer } else { Standing::Stranger }))
}
