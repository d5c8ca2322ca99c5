//! A webhook that led to nothing says why: a line where the server runs and, where a person asked for something, a comment there.

use harvest_core::{Code, is_automatic};
use harvest_forge::{Forge, Happening, Place, Standing, What};
use harvest_store::Delivery;

use crate::state::App;

/// The marker of the comment. A thread has one of them, which is edited: nobody can make Harvest fill a page.
const MARKER: &str = "why nothing was started";

/// `code` belongs to a delivery that failed.
pub async fn explain(app: &App, delivery: &Delivery, outcome: &str, code: Option<Code>) {
    let Some(reason) = outcome.strip_prefix("ignored: ").or_else(|| outcome.strip_prefix("failed: ")) else { return };
    let Some(webhooks) = app.desk.webhooks().await else { return };
    let told = webhooks.listener.translate(&delivery.event, delivery.payload.as_bytes());
    let Ok(Some(Happening { repository, by, what, .. })) = told else { return };
    let place = asked_in(&what);
    // What nobody asked for by hand, and had no trouble, is no news: every push to every repository would be a line.
    if place.is_none() && code.is_none() {
        return;
    }
    // An issue that is labelled and assigned is asked for twice, and has its task.
    if reason.starts_with("session ") {
        return;
    }
    let at = place.map_or(repository.as_str(), |place| place.url.as_str());
    let reason = &app.engine.clean(reason);
    app.desk.notice(&format!("the webhook `{}` of {at} by {by} started nothing: {reason}", delivery.event));
    let Some(place) = place else { return };
    if is_automatic(&by) {
        return;
    }
    let Some(forge) = app.engine.forges().open_hosted(&repository).await else { return };
    if let Err(error) = comment(app, forge.as_ref(), place, &by, reason, code).await {
        tracing::warn!(%error, "why a delivery led to nothing could not be said on GitHub");
    }
}

/// The issue or pull request where a person wants something.
fn asked_in(what: &What) -> Option<&Place> {
    match what {
        What::Asked { issue } => Some(issue),
        What::Mentioned { place, .. } => Some(place),
        What::ReviewAsked { pull } => Some(pull),
        _ => None,
    }
}

/// Strangers get no answer: what they write leads to as little as possible.
async fn comment(
    app: &App,
    forge: &dyn Forge,
    place: &Place,
    by: &str,
    reason: &str,
    code: Option<Code>,
) -> Result<(), harvest_forge::Error> {
    let Some(hosting) = forge.hosting() else { return Ok(()) };
    if hosting.standing(by).await? != Standing::Writer {
        return Ok(());
    }
    // The message of a failure may name files of the server's machine, and everyone reads this.
    let why = match code {
        Some(code) => format!("{} ({code}). The output of `harvest serve` says more", code.title()),
        None => app.engine.clean(reason),
    };
    hosting.tell(place.number, MARKER, &format!("⚠️ **Nothing was started**: {why}.")).await
}
