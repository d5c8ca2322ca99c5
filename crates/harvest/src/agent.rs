//! `harvest agent list`.

use harvest_agents::{Provider, Registry};
use harvest_core::Code;
use serde_json::json;

use crate::cli::Global;
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::view::Style;

pub fn list(global: &Global, environment: &Environment) -> Result<Exit, Failure> {
    let registry = Registry::bundled().map_err(|error| Failure::failed(Code::Internal, error.to_string()))?;
    let keys = environment.model_keys()?;
    let has_key = |provider: &Provider| keys.has_any(provider.as_str());
    if global.json {
        let items: Vec<_> = registry
            .iter()
            .map(|agent| {
                json!({
                    "id": agent.id, "name": agent.name, "providers": agent.providers, "features": agent.features,
                    "usable_providers": agent.providers.iter().filter(|provider| has_key(provider)).collect::<Vec<_>>(),
                    "install_hint": agent.install_hint,
                })
            })
            .collect();
        let _ = output::json(&json!({ "items": items, "next_cursor": null }));
        return Ok(Exit::Done);
    }
    let style = Style::detect(environment);
    for agent in registry.iter() {
        let usable: Vec<&str> =
            agent.providers.iter().filter(|provider| has_key(provider)).map(|p| p.as_str()).collect();
        let all: Vec<&str> = agent.providers.iter().map(|provider| provider.as_str()).collect();
        let state = if usable.is_empty() {
            style.warn("no key: set ANTHROPIC_API_KEY or OPENAI_API_KEY, or use --model-script")
        } else {
            style.good(&format!("key for {}", usable.join(", ")))
        };
        let text =
            format!("{}  {}  speaks {}  {state}", style.bold(&format!("{:<12}", agent.id)), agent.name, all.join(", "));
        if output::line(&text).is_err() {
            break;
        }
    }
    Ok(Exit::Done)
}
