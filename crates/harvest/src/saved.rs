//! What was asked for, kept for later: the one form in which schedules and templates store their options. What was not said
//! stays open and is decided when a task is made of it, and so is the commit to start from.

use std::time::Duration;

use harvest_core::{Code, Cost, Priority, Prompt};
use harvest_engine::{Queueing, Request, check_name};
use serde::{Deserialize, Serialize};

use crate::ask;
use crate::cli::{AskOptions, Care, Standing};
use crate::config::Key;
use crate::failure::Failure;
use crate::installation::Installation;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SavedRequest {
    /// `None` where it is kept elsewhere, as with templates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    pub repo: Option<String>,
    pub base: Option<String>,
    pub agent: Option<String>,
    pub model: Option<String>,
    pub test: Option<String>,
    pub require_tests: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fallback_agents: Vec<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub plan: bool,
    #[serde(skip_serializing_if = "Care::is_default")]
    pub care: Care,
    pub timeout_ms: Option<u64>,
    pub budget_usd: Option<Cost>,
    pub priority: Option<Priority>,
    pub convoy: Option<String>,
    pub retries: Option<u32>,
}

impl SavedRequest {
    pub fn new(options: &AskOptions, standing: &Standing) -> Self {
        let AskOptions {
            repo,
            base,
            agent,
            model,
            test,
            require_tests,
            fallback_agent,
            plan,
            care,
            timeout,
            budget_usd,
        } = options.clone();
        Self {
            prompt: None,
            repo,
            base,
            agent,
            model,
            test,
            require_tests,
            fallback_agents: fallback_agent,
            plan,
            care,
            timeout_ms: timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            budget_usd,
            priority: standing.priority,
            convoy: standing.convoy.clone(),
            retries: standing.retries,
        }
    }

    pub fn read(stored: &serde_json::Value) -> Result<Self, Failure> {
        Self::deserialize(stored)
            .map_err(|error| Failure::failed(Code::Database, format!("a saved request cannot be read: {error}")))
    }

    pub fn to_json(&self) -> Result<serde_json::Value, Failure> {
        for (field, name) in [("base", &self.base), ("convoy", &self.convoy)] {
            name.as_deref().map_or(Ok(()), |name| check_name(field, name))?;
        }
        let value = serde_json::to_value(self).map_err(|error| Failure::failed(Code::Internal, error.to_string()));
        // Prompts are cleaned by themselves; every other text may hold a key as well.
        value.map(|mut value| {
            redact_values(&mut value);
            value
        })
    }

    pub fn options(&self) -> AskOptions {
        AskOptions {
            repo: self.repo.clone(),
            base: self.base.clone(),
            agent: self.agent.clone(),
            model: self.model.clone(),
            test: self.test.clone(),
            require_tests: self.require_tests,
            fallback_agent: self.fallback_agents.clone(),
            plan: self.plan,
            care: self.care.clone(),
            timeout: self.timeout_ms.map(Duration::from_millis),
            budget_usd: self.budget_usd,
        }
    }

    pub fn standing(&self) -> Standing {
        Standing { priority: self.priority, convoy: self.convoy.clone(), retries: self.retries }
    }

    /// With whatever `stronger` says instead.
    pub fn overridden_by(self, stronger: Self) -> Self {
        Self {
            prompt: stronger.prompt.or(self.prompt),
            repo: stronger.repo.or(self.repo),
            base: stronger.base.or(self.base),
            agent: stronger.agent.or(self.agent),
            model: stronger.model.or(self.model),
            test: stronger.test.or(self.test),
            require_tests: stronger.require_tests || self.require_tests,
            fallback_agents: if stronger.fallback_agents.is_empty() {
                self.fallback_agents
            } else {
                stronger.fallback_agents
            },
            plan: stronger.plan || self.plan,
            care: self.care.overridden_by(stronger.care),
            timeout_ms: stronger.timeout_ms.or(self.timeout_ms),
            budget_usd: stronger.budget_usd.or(self.budget_usd),
            priority: stronger.priority.or(self.priority),
            convoy: stronger.convoy.or(self.convoy),
            retries: stronger.retries.or(self.retries),
        }
    }

    /// The request as it is to be made now, for someone who need not be the one that runs this process.
    pub async fn request_of(
        &self,
        installation: &Installation,
        user: String,
        prompt: Prompt,
    ) -> Result<Request, Failure> {
        if let Some(Err(reason)) = self.budget_usd.map(harvest_core::budget::checked) {
            let help = "create it again with another budget, or without one";
            return Err(Failure::refused(Code::BadOption, format!("budget_usd: {reason}"), help));
        }
        let mut request = ask::request_of(installation, user, prompt, &self.options()).await?;
        request.queue = Queueing {
            priority: self.priority.unwrap_or_default(),
            convoy: self.convoy.clone(),
            retries: match self.retries {
                Some(retries) => retries,
                None => installation.settings()?.count(Key::Retries).unwrap_or(0),
            },
            ..Queueing::default()
        };
        Ok(request)
    }
}

/// The names of fields are ours, and stay.
fn redact_values(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::String(text) => *text = harvest_engine::redact(text).into_owned(),
        serde_json::Value::Array(items) => items.iter_mut().for_each(redact_values),
        serde_json::Value::Object(fields) => fields.values_mut().for_each(redact_values),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> SavedRequest {
        SavedRequest {
            prompt: Some("Update".into()),
            repo: Some("/srv/shop".into()),
            base: Some("main".into()),
            agent: Some("builtin".into()),
            model: Some("claude-x".into()),
            test: Some("make check".into()),
            require_tests: true,
            fallback_agents: Vec::new(),
            plan: false,
            care: Care { gate: true, ..Care::default() },
            timeout_ms: Some(90_000),
            budget_usd: Some(Cost::from_nanos(2_500_000_000)),
            priority: Some(Priority::High),
            convoy: Some("spring".into()),
            retries: Some(2),
        }
    }

    #[test]
    fn everything_survives_being_stored() {
        for request in [full(), SavedRequest::default()] {
            assert_eq!(SavedRequest::read(&request.to_json().unwrap()).unwrap(), request);
        }
        let again = SavedRequest { prompt: full().prompt, ..SavedRequest::new(&full().options(), &full().standing()) };
        assert_eq!(again, full());
        // One that a later version has added to, and one from before there was much to say.
        let odd = serde_json::json!({ "repo": "/srv/shop", "colour": "red" });
        assert_eq!(SavedRequest::read(&odd).unwrap().repo.as_deref(), Some("/srv/shop"));
    }

    #[test]
    fn what_is_said_now_wins_over_what_was_saved() {
        let now =
            SavedRequest { repo: Some("/srv/other".into()), priority: Some(Priority::Low), ..SavedRequest::default() };
        let both = full().overridden_by(now);
        assert_eq!(both, SavedRequest { repo: Some("/srv/other".into()), priority: Some(Priority::Low), ..full() });
    }
}
