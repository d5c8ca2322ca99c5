//! `harvest doctor --reach`: tries every host that the settings need, and says which cannot be reached and why.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use harvest_agents::mcp::Entry;
use harvest_core::{McpAddress, McpCredential};
use harvest_forge::github::Host;
use harvest_gateway::registry::{self, Ecosystem};
use harvest_gateway::{KeyCheck, Upstream, egress};
use harvest_outbound::{Ask, Client};
use harvest_sandbox::{Fact, State};
use harvest_vault::SecretString;

use super::fact;
use crate::config::Key;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::mcp;
use crate::package_managers;
use crate::view::clean;

/// For one host. All are tried at once, so that the whole check takes little longer.
const PATIENCE: Duration = Duration::from_secs(15);

pub async fn reach(installation: &Installation) -> Result<Vec<Fact>, Failure> {
    let (packages, models, forges, tools, others) = tokio::join!(
        registries(installation),
        models(installation),
        forges(installation),
        tools(installation),
        others(installation),
    );
    Ok([packages?, models?, forges?, tools?, others?].concat())
}

/// Public registries may be blocked on purpose; a mirror that someone named is needed.
async fn registries(installation: &Installation) -> Result<Vec<Fact>, Failure> {
    let options = installation.registries()?;
    let reached = registry::reach(&options, &egress::Network::default()).await;
    let own = package_managers::unused(&installation.environment, &options);
    let reached = match reached {
        Ok(reached) => reached,
        Err(error) => {
            return Ok(vec![fact("registries", State::Missing, error.to_string(), Some("correct [registries]"))]);
        }
    };
    let judge = |reach: registry::Reach| {
        let name = reach.ecosystem.map_or("file host", Ecosystem::name);
        let advice = own.iter().find(|own| own.key == name).map(package_managers::Setting::advice);
        let state = match (&reach.trouble, reach.is_own) {
            (None, _) => State::Ok,
            (Some(_), true) => State::Missing,
            (Some(_), false) => State::Degraded,
        };
        let fix = match reach.is_own {
            _ if reach.trouble.is_none() => None,
            true if reach.ecosystem.is_none() => {
                Some("correct `file_hosts` or `ca_file` under [registries] in harvest.toml".to_owned())
            }
            true => Some("correct its address, `proxy` or `ca_file` under [registries] in harvest.toml".to_owned()),
            false => Some(advice.unwrap_or_else(|| {
                format!(
                    "for projects that need it: `{name} = \"https://…\"` or `proxy` under [registries] in harvest.toml"
                )
            })),
        };
        let detail = reach.trouble.unwrap_or_else(|| format!("packages from {}", reach.host));
        fact(name, state, detail, fix.as_deref())
    };
    Ok(reached.into_iter().map(judge).collect())
}

/// Hosts of the models that there are keys for. A key that this process may use is tried, too.
async fn models(installation: &Installation) -> Result<Vec<Fact>, Failure> {
    let own = installation.keys.own.iter().filter_map(|(provider, own)| {
        Some((true, Upstream::new(provider, "environment", own.url.as_deref(), &own.key).ok()?))
    });
    let kept = installation.store.credentials().await?;
    let nothing = SecretString::from(String::new());
    let kept = kept.iter().map(|kept| &kept.credential).filter_map(|kept| {
        Some((false, Upstream::new(&kept.provider, kept.name.clone(), kept.base_url.as_deref(), &nothing).ok()?))
    });
    let mut seen = BTreeSet::new();
    let upstreams = own.chain(kept).filter(|(_, upstream)| seen.insert(upstream.address().to_owned()));
    let tries = upstreams.map(|(has_key, upstream)| async move {
        let name = upstream.provider();
        let address = upstream.address().to_owned();
        if !has_key {
            return answers(name, &address).await;
        }
        match upstream.check_key().await {
            KeyCheck::Accepted => fact(name, State::Ok, format!("models at {address}; the key is accepted"), None),
            KeyCheck::Refused => {
                let fix = format!("add a key that works: harvest credential add {}", upstream.provider());
                fact(name, State::Missing, format!("{address} refuses the key"), Some(&fix))
            }
            KeyCheck::Unclear(reason) => {
                let fix = "let this machine reach that host, or name another one";
                fact(name, State::Missing, format!("{address}: {reason}"), Some(fix))
            }
        }
    });
    Ok(join_all(tries.collect::<Vec<_>>()).await)
}

/// GitHub where an account is set up, and the remotes of all known repositories, as git reaches them.
async fn forges(installation: &Installation) -> Result<Vec<Fact>, Failure> {
    let github = installation.forges.github().await.map(|client| client.host().clone());
    let github = github.iter().flat_map(|host| github_hosts(host, ["GitHub", "GitHub API"]));
    let github = github.map(async |(name, url)| answers(name, &url).await);
    let repositories = installation.store.repositories().await?;
    let remote = repositories.iter().filter(|repository| !repository.source.starts_with('/'));
    let tries = remote.map(|repository| async {
        let resolve = async { installation.forges.open(&repository.source).await?.resolve(None).await };
        let (name, source) = ("repository", clean(&repository.source));
        match tokio::time::timeout(PATIENCE, resolve).await {
            Ok(Ok(_)) => fact(name, State::Ok, source, None),
            Ok(Err(error)) => {
                let detail = format!("{source}: {}", clean(&error.to_string()));
                fact(name, State::Missing, detail, Some(&format!("try it: git ls-remote {source}")))
            }
            Err(_) => {
                let detail = format!("{source} did not answer within {} s", PATIENCE.as_secs());
                fact(name, State::Missing, detail, Some("let this machine reach that host"))
            }
        }
    });
    let (github, repositories) = tokio::join!(join_all(github), join_all(tries));
    Ok([github, repositories].concat())
}

/// Where git and people go, and where the API is: at GitHub itself these are two hosts.
fn github_hosts(host: &Host, names: [&'static str; 2]) -> [(&'static str, String); 2] {
    let [web, api] = names;
    [(web, host.web().to_owned()), (api, host.api().to_owned())]
}

/// Hosts of MCP servers that the settings or a project name or enable, or that have a key. Presets that nobody uses are left
/// out.
async fn tools(installation: &Installation) -> Result<Vec<Fact>, Failure> {
    let kept = installation.store.credentials().await?;
    let keys: BTreeSet<&str> = kept
        .iter()
        .filter(|kept| kept.credential.provider == McpCredential::PROVIDER)
        .map(|kept| kept.credential.name.as_str())
        .collect();
    let mut servers = BTreeSet::new();
    for settings in installation.settings()?.within_each() {
        let catalogue = match mcp::catalogue(&installation.environment).and_then(|known| settings.catalogue(known)) {
            Ok(catalogue) => catalogue,
            Err(failure) => {
                return Ok(vec![fact("MCP servers", State::Missing, clean(&failure.message), failure.help.as_deref())]);
            }
        };
        let enabled = settings.names(Key::McpServers);
        let is_configured = |entry: &&Entry| {
            let has_key = entry.server.credential.as_ref().is_some_and(|key| keys.contains(key.name.as_str()));
            !entry.bundled || has_key || enabled.contains(&entry.server.name)
        };
        for entry in catalogue.iter().filter(is_configured) {
            let name = clean(&entry.server.name);
            match &entry.server.at {
                McpAddress::Url { url } => drop(servers.insert((name, url.clone(), true))),
                McpAddress::Program { .. } => {
                    let rules = entry.server.hosts.iter().filter(|rule| !rule.starts_with('*'));
                    servers.extend(rules.map(|rule| (name.clone(), rule.clone(), false)));
                }
            }
        }
    }
    let network = egress::Network::default();
    let tries = servers.iter().map(async |(name, host, is_url)| {
        let trouble = match is_url {
            true => Client::new(PATIENCE).ask(Ask::get(host)).await.err().and_then(|error| match error {
                harvest_outbound::Error::TooLarge { .. } => None,
                error => Some(error.to_string()),
            }),
            false => reach_rule(&network, host).await.err().map(|reason| format!("{host}: {reason}")),
        };
        match trouble {
            None => fact("MCP server", State::Ok, format!("{name} at {}", clean(host)), None),
            Some(trouble) => {
                let fix = format!("let this machine reach that host, or correct it: harvest mcp show {name}");
                fact("MCP server", State::Missing, format!("{name}: {}", clean(&trouble)), Some(&fix))
            }
        }
    });
    Ok(join_all(tries).await)
}

/// Tries a host as a rule of `allow` names it, with its port or with 443.
async fn reach_rule(network: &egress::Network, rule: &str) -> Result<(), String> {
    let (host, port) = rule.rsplit_once(':').unwrap_or((rule, "443"));
    let reaching = network.reach(host, port.parse().unwrap_or(443));
    let late = |_| Err(format!("it did not answer within {} s", PATIENCE.as_secs()));
    tokio::time::timeout(PATIENCE, reaching).await.unwrap_or_else(late)
}

/// Hosts that agents may reach, where traces go, and where people sign in.
async fn others(installation: &Installation) -> Result<Vec<Fact>, Failure> {
    let settings = installation.settings()?;
    let network = egress::Network::default();
    let allowed = settings.egress();
    let allowed: Vec<String> = allowed.lines().filter(|rule| !rule.starts_with('*')).collect();
    let tries = allowed.iter().map(async |rule| match reach_rule(&network, rule).await {
        Ok(()) => fact("allowed host", State::Ok, rule.clone(), None),
        Err(reason) => {
            let fix = "agents cannot reach it either; correct `allow` under [egress] in harvest.toml";
            fact("allowed host", State::Missing, format!("{rule}: {reason}"), Some(fix))
        }
    });
    let mut named: Vec<(&'static str, String)> = Vec::new();
    named.extend(settings.text(Key::TelemetryOtlp).map(|url| ("traces", url)));
    if settings.text(Key::SignInClientId).is_some()
        && let Some(url) = settings.text(Key::SignInUrl)
    {
        match Host::new(Some(&url)) {
            Ok(host) => named.extend(github_hosts(&host, ["sign-in", "sign-in API"])),
            Err(_) => named.push(("sign-in", url)),
        }
    }
    let named = named.into_iter().map(async |(name, url)| answers(name, &url).await);
    let (allowed, named) = tokio::join!(join_all(tries), join_all(named));
    Ok([allowed, named].concat())
}

/// Whether anything answers there, whatever it says.
async fn answers(name: &'static str, url: &str) -> Fact {
    match Client::new(PATIENCE).ask(Ask::get(url)).await {
        Ok(_) | Err(harvest_outbound::Error::TooLarge { .. }) => fact(name, State::Ok, url, None),
        Err(error) => fact(name, State::Missing, error.to_string(), Some("let this machine reach that host")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The rows of the operator guide's table of hosts: feature, and hosts in order.
    fn documented() -> BTreeMap<String, Vec<String>> {
        let guide = include_str!("../../../../docs/operator-guide.md");
        let rows = guide.lines().skip_while(|line| !line.starts_with("| feature | hosts |")).skip(2);
        let rows = rows.map_while(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "));
        rows.map(|(feature, hosts)| {
            let hosts = hosts.split('`').skip(1).step_by(2).map(str::to_owned).collect();
            (feature.to_owned(), hosts)
        })
        .collect()
    }

    fn host(url: &str) -> String {
        let (_, rest) = url.split_once("://").unwrap();
        rest.split('/').next().unwrap().to_owned()
    }

    #[test]
    fn the_operator_guide_names_the_hosts_of_every_feature() {
        let mut needed: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let key = SecretString::from("sk-ant-api03-made-up".to_owned());
        for (provider, name) in crate::doctor::MODEL_VENDORS {
            let upstream = Upstream::new(provider, "test", None, &key).unwrap();
            needed.insert(format!("models of {name}"), vec![host(upstream.address())]);
        }
        for ecosystem in Ecosystem::ALL {
            needed.insert(format!("packages: {ecosystem}"), ecosystem.hosts().map(str::to_owned).collect());
        }
        let github: Vec<String> = github_hosts(&Host::new(None).unwrap(), ["", ""]).map(|(_, url)| host(&url)).into();
        assert_eq!(github, ["github.com", "api.github.com"]);
        needed.insert("GitHub: issues, pull requests, webhooks".to_owned(), github.clone());
        needed.insert("sign-in with GitHub".to_owned(), github);
        for entry in harvest_agents::mcp::Catalogue::bundled().unwrap().iter() {
            let hosts = match &entry.server.at {
                McpAddress::Url { url } => vec![host(url)],
                McpAddress::Program { .. } => entry.server.hosts.clone(),
            };
            if !hosts.is_empty() {
                needed.insert(format!("MCP server {}", entry.server.name), hosts);
            }
        }
        let mut documented = documented();
        for (feature, hosts) in needed {
            assert_eq!(documented.remove(&feature), Some(hosts), "{feature}");
        }
        // Those whose hosts are in the settings have none of their own.
        for (feature, named) in documented {
            assert!(named.iter().all(|name| !name.contains(".com")), "{feature}: {named:?}");
        }
    }
}
