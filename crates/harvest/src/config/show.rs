//! `harvest config show`: every setting, its value, and where it came from.

use serde_json::json;

use crate::cli::{Config, Global};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::view::{Style, clean};

use super::layers::Setting;
use super::value::Value;

pub async fn config(global: &Global, environment: Environment, command: Config) -> Result<Exit, Failure> {
    let Config::Show { repo, base } = command;
    let style = Style::detect(&environment);
    let layers = match repo {
        None => super::load(&super::source(global, &environment))?,
        Some(repo) => {
            let installation = Installation::open(global, environment).await?;
            let forge = installation.forges.open(&repo).await?;
            let base = forge.resolve(base.as_deref()).await?;
            installation.settings_for(forge.as_ref(), &base).await?
        }
    };
    let settings = layers.all();
    let _ = if global.json {
        let items: Vec<_> = settings.iter().map(Setting::json).collect();
        output::json(&json!({ "items": items, "next_cursor": null }))
    } else {
        output::line(&page(style, &settings))
    };
    Ok(Exit::Done)
}

fn page(style: Style, settings: &[Setting]) -> String {
    let shown =
        |setting: &Setting| setting.value.as_ref().map_or(setting.key.definition().without.to_owned(), Value::text);
    let names = settings.iter().map(|setting| setting.key.name().len()).max().unwrap_or(0) + 2;
    let width = settings.iter().map(|setting| shown(setting).chars().count()).max().unwrap_or(0);
    let line = |setting: &Setting| {
        let note = setting.note.as_deref().map(|note| format!(" ({})", clean(note))).unwrap_or_default();
        let origin = style.dim(&format!("{}{note}", clean(&setting.origin.describe())));
        format!("{:<names$}{:<width$}  {origin}", setting.key.name(), clean(&shown(setting)))
    };
    settings.iter().map(line).collect::<Vec<_>>().join("\n")
}
