//! The same task for several, side by side: how it is asked for, and what has become of everyone.

use axum::Extension;
use axum::Json;
use axum::extract::State;
use harvest_api_types::{Ask, AskRace};
use harvest_core::{Code, MOST_ENTRANTS, RaceTable};
use harvest_engine::{race_table, racing};

use super::ask;
use crate::auth::Principal;
use crate::extract::Id;
use crate::problem::Problem;
use crate::state::App;

/// What each of those who race is asked.
pub fn entrants(race: &AskRace, ask: &Ask) -> Result<Vec<Ask>, Problem> {
    let alone = Ask { race: None, ..ask.clone() };
    let range = 2..=MOST_ENTRANTS;
    let bad = |detail: String| Problem::bad("race", detail);
    match (race.agents.as_slice(), race.number) {
        ([], None) => Err(bad("it names neither agents nor a number".to_owned())),
        ([], Some(number)) if range.contains(&usize::from(number)) => Ok(vec![alone; usize::from(number)]),
        (agents, None) if range.contains(&agents.len()) && ask.agent.is_none() => {
            agents.iter().map(|named| entrant(&alone, named)).collect()
        }
        (_, None) if ask.agent.is_some() => Err(bad("it names agents, and so does `agent`".to_owned())),
        (_, Some(_)) if !race.agents.is_empty() => {
            Err(bad("it names agents and a number; give only one of them".to_owned()))
        }
        _ => Err(bad(format!("a race needs 2 to {MOST_ENTRANTS} entrants"))),
    }
}

fn entrant(ask: &Ask, named: &str) -> Result<Ask, Problem> {
    let (agent, model) = match named.split_once(':') {
        Some((agent, model)) => (agent, Some(model.to_owned())),
        None => (named, None),
    };
    if agent.is_empty() || model.as_deref() == Some("") {
        let detail = format!("`{}` is neither `agent` nor `agent:model`", named.escape_debug());
        return Err(Problem::bad("race", detail));
    }
    let one = Ask { agent: Some(agent.to_owned()), model, ..ask.clone() };
    ask::check(&one)?;
    Ok(one)
}

/// Show a race: every entrant with its cost, its changes and the verdict
#[utoipa::path(
    get, path = "/api/races/{id}", tag = "tasks", operation_id = "race.get", params(("id" = String, Path, description = "The id of the race")),
    security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses((status = 200, body = RaceTable), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn get(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(id): Id<String>,
) -> Result<Json<RaceTable>, Problem> {
    let mut tasks = racing(app.store.as_ref(), &id).await?;
    tasks.retain(|task| principal.sees_repository(&task.repository));
    if tasks.is_empty() {
        let help = "`settings.race.id` of a task names the race that it is part of";
        return Err(Problem::new(Code::UnknownTask, "there is no such race").help(help));
    }
    Ok(Json(race_table(app.store.as_ref(), &id, tasks).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Entrant = (Option<String>, Option<String>);

    fn asked(race: &AskRace) -> Result<Vec<Entrant>, Problem> {
        let ask = Ask { prompt: "x".into(), repository: "shop".into(), model: Some("m".into()), ..Ask::default() };
        let entrants = entrants(race, &ask)?;
        Ok(entrants.into_iter().map(|one| (one.agent, one.model)).collect())
    }

    fn named(agents: &[&str]) -> AskRace {
        AskRace { agents: agents.iter().map(|&agent| agent.to_owned()).collect(), ..AskRace::default() }
    }

    #[test]
    fn agents_bring_their_models_and_a_number_means_the_same_again() {
        let some = |text: &str| Some(text.to_owned());
        let two = asked(&named(&["codex:gpt-5", "builtin"])).unwrap();
        assert_eq!(two, [(some("codex"), some("gpt-5")), (some("builtin"), None)]);
        let three = asked(&AskRace { number: Some(3), ..AskRace::default() }).unwrap();
        assert_eq!(three, vec![(None, some("m")); 3]);
    }

    #[test]
    fn no_race_of_one_and_none_of_a_crowd() {
        assert!(asked(&AskRace::default()).is_err());
        assert!(asked(&named(&["builtin"])).is_err());
        assert!(asked(&named(&["builtin", ""])).is_err());
        assert!(asked(&named(&["builtin:", "codex"])).is_err());
        assert!(asked(&named(&["builtin"; 17])).is_err());
        assert!(asked(&AskRace { number: Some(1), ..AskRace::default() }).is_err());
        assert!(asked(&AskRace { number: Some(17), ..AskRace::default() }).is_err());
        assert!(asked(&AskRace { number: Some(2), ..named(&["builtin", "codex"]) }).is_err());
    }
}
