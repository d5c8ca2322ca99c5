//! The names of caps: what people call a repository, a user or a vendor, and the name that turns count against.

use harvest_core::Credential;
use harvest_core::repository::Place;
use harvest_forge::github::Host;
use harvest_forge::spelled;
use harvest_store::{Repository, Store};

/// The vendors of models, as turns count against them.
const VENDORS: [&str; 4] = ["anthropic", "openai", "gemini", "ollama"];
/// The provider of the account that repositories on GitHub are reached with.
const GITHUB: &str = "github";

/// A name that no turn would count against.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownCap {
    #[error("it must begin with `repository:`, `user:` or `credential:`, followed by a name")]
    Kind,
    #[error("`{0}` is neither the name of a repository nor an absolute path or a URL")]
    Repository(String),
    #[error("`{0}` is not a model vendor; the vendors are anthropic, openai, gemini and ollama")]
    Vendor(String),
}

impl UnknownCap {
    pub fn help(&self) -> &'static str {
        match self {
            Self::Kind => "for example `repository:/srv/shop`, `user:ada` or `credential:anthropic`",
            Self::Repository(_) => "`harvest repo list` shows names, paths and URLs",
            Self::Vendor(_) => "a cap counts the tasks of a vendor, whichever of its credentials they use",
        }
    }
}

/// The cap that turns count against, for a name as a person knows it: a repository by its name, path or URL, a user, and a vendor
/// by its name or by the ID of one of its credentials.
async fn find_cap(store: &dyn Store, name: &str) -> Result<Result<String, UnknownCap>, harvest_store::Error> {
    let credentials = store.credentials().await?.into_iter().map(|record| record.credential).collect::<Vec<_>>();
    Ok(counted_as(name, &store.repositories().await?, &credentials))
}

/// The name under which a cap is kept that a person means by `name`: exactly this one, also where nothing counts against it any
/// more, or the one that turns count against.
pub(crate) async fn find_kept_cap(store: &dyn Store, name: &str) -> Result<Option<String>, harvest_store::Error> {
    let counted = find_cap(store, name).await?.ok();
    let caps = store.queue().await?.caps;
    let is_kept = |name: &String| caps.iter().any(|cap| cap.name == *name);
    Ok([name.to_owned()].into_iter().chain(counted).find(is_kept))
}

/// Sets or removes a cap. One whose name nothing counts against can be removed, too.
pub async fn set_cap(
    store: &dyn Store,
    name: &str,
    size: Option<u32>,
) -> Result<Result<(), UnknownCap>, harvest_store::Error> {
    let Some(size) = size else {
        let kept = find_kept_cap(store, name).await?;
        return store.set_cap(kept.as_deref().unwrap_or(name), None).await.map(Ok);
    };
    match find_cap(store, name).await? {
        Ok(counted) => store.set_cap(&counted, Some(size)).await.map(Ok),
        Err(unknown) => Ok(Err(unknown)),
    }
}

/// The address of a cap's repository, if no known repository has it and, as far as can be seen from here, none lies there.
pub async fn unknown_repository(store: &dyn Store, name: &str) -> Result<Option<String>, harvest_store::Error> {
    let Ok(counted) = find_cap(store, name).await? else { return Ok(None) };
    let Some(address) = counted.strip_prefix("repository:") else { return Ok(None) };
    let place = Place::of(address);
    let is_known = store.repositories().await?.iter().any(|known| Place::of(&known.source) == place);
    let is_there = address.starts_with('/') && std::path::Path::new(address).exists();
    Ok((!is_known && !is_there).then(|| address.to_owned()))
}

fn counted_as(name: &str, repositories: &[Repository], credentials: &[Credential]) -> Result<String, UnknownCap> {
    let (kind, of) = name.split_once(':').filter(|(_, of)| !of.is_empty()).ok_or(UnknownCap::Kind)?;
    let account = credentials.iter().find(|credential| credential.provider == GITHUB);
    let account = account.and_then(|account| Host::new(account.base_url.as_deref()).ok());
    match kind {
        "repository" => match address(of, repositories, account.as_ref()) {
            Some(address) => Ok(format!("repository:{address}")),
            None => Err(UnknownCap::Repository(of.to_owned())),
        },
        // Logins on GitHub are written in lower case.
        "user" if of.starts_with("github:") || signs_in_with_github(of, account) => Ok(name.to_ascii_lowercase()),
        "user" => Ok(name.to_owned()),
        "credential" => {
            let by_id = credentials.iter().find(|credential| credential.id.as_str() == of);
            let vendor = by_id.map_or(of, |credential| credential.provider.as_str()).to_ascii_lowercase();
            let is_vendor = VENDORS.contains(&vendor.as_str());
            if is_vendor { Ok(format!("credential:{vendor}")) } else { Err(UnknownCap::Vendor(vendor)) }
        }
        _ => Err(UnknownCap::Kind),
    }
}

/// People who signed in are named `login@host`.
fn signs_in_with_github(user: &str, account: Option<Host>) -> bool {
    let Some((_, at)) = user.split_once('@') else { return false };
    let hosts = account.into_iter().chain(Host::new(None));
    hosts.into_iter().any(|host| host.web().split_once("://").is_some_and(|(_, name)| name.eq_ignore_ascii_case(at)))
}

/// The repository that a person means: a known one by its name, or the one that an address leads to.
fn address(of: &str, repositories: &[Repository], account: Option<&Host>) -> Option<String> {
    if let Some(known) = repositories.iter().find(|known| known.name == of) {
        return Some(Place::of(&known.source).into_string());
    }
    let hosted = account.and_then(|host| Some(host.page(&host.repository(of)?)));
    let is_host = |before: &str| !before.is_empty() && !before.contains('/') && !before.starts_with('.');
    let is_url = of.split_once(':').is_some_and(|(before, _)| is_host(before));
    let address = match hosted {
        Some(page) => page,
        None if of.starts_with('/') || is_url => spelled(of),
        None => return None,
    };
    let place = Place::of(&address);
    // What is left of it as it is names no repository that anything here could open.
    let is_none = place.as_str() == "/" || place.as_str().starts_with("github:");
    (!is_none).then(|| place.into_string())
}

#[cfg(test)]
mod tests {
    use harvest_agents::Provider;

    use super::*;

    #[test]
    fn a_name_that_people_know_becomes_the_one_that_turns_count_against() {
        let shop = Repository {
            name: "shop".into(),
            source: "/srv/shop".into(),
            settings: serde_json::Value::Null,
            created_at: harvest_core::Timestamp::UNIX_EPOCH,
            pushed_at: None,
        };
        let counted = |name: &str| counted_as(name, std::slice::from_ref(&shop), &[]);
        for (name, expected) in [
            ("repository:shop", "repository:/srv/shop"),
            ("repository:/srv/shop", "repository:/srv/shop"),
            ("repository:https://github.com/ada/shop", "repository:https://github.com/ada/shop"),
            ("user:ada", "user:ada"),
            ("user:github:Ada", "user:github:ada"),
            ("user:Ada@GitHub.com", "user:ada@github.com"),
            ("user:Ada@example.com", "user:Ada@example.com"),
            ("credential:Anthropic", "credential:anthropic"),
        ] {
            assert_eq!(counted(name), Ok(expected.to_owned()), "{name}");
        }
        assert_eq!(counted("repository:shed"), Err(UnknownCap::Repository("shed".into())));
        assert_eq!(counted("credential:github"), Err(UnknownCap::Vendor("github".into())));
        for name in ["", "ada", "user:", "team:x"] {
            assert_eq!(counted(name), Err(UnknownCap::Kind), "{name}");
        }
    }

    #[test]
    fn a_repository_has_one_cap_however_its_address_is_written() {
        let known = ["/srv/shop", "/srv/till.git", "https://github.com/ada/shop", "https://git.test/ada/shop"];
        let repositories = known.map(|source| Repository {
            name: source.replace('/', "-"),
            source: source.into(),
            settings: serde_json::Value::Null,
            created_at: harvest_core::Timestamp::UNIX_EPOCH,
            pushed_at: None,
        });
        let counted = |of: &str, account: Option<&Host>| address(of, &repositories, account);
        let public = Host::new(None).unwrap();
        for account in [None, Some(&public)] {
            for (of, expected) in [
                ("/srv/shop/", "/srv/shop"),
                ("/srv/shop.git", "/srv/shop.git"),
                ("/srv/till", "/srv/till"),
                ("file:///srv/shop", "/srv/shop"),
                ("https://git.test/ada/shop.git/", "https://git.test/ada/shop"),
                ("ssh://git@GIT.test/ada/shop", "https://git.test/ada/shop"),
                ("https://github.com/Ada/Shop.git", "https://github.com/ada/shop"),
                ("https://github.com/ada/shop/", "https://github.com/ada/shop"),
                ("git@github.com:ada/shop.git", "https://github.com/ada/shop"),
                ("github:ada/shop", "https://github.com/ada/shop"),
                ("github:ada/other", "https://github.com/ada/other"),
                ("git@git.test:ada/other", "https://git.test/ada/other"),
                ("ada@git.test:ada/other.git", "ssh://ada@git.test/ada/other"),
            ] {
                assert_eq!(counted(of, account), Some(expected.to_owned()), "{of}");
            }
            for of in ["./shop", "../shop", "shop/till", "./a:b", "shop", ":x", "/", "github:shop"] {
                assert_eq!(counted(of, account), None, "{of}");
            }
        }
        let own = Host::new(Some("https://github.example.com")).unwrap();
        assert_eq!(counted("github:ada/x", Some(&own)), Some("https://github.example.com/ada/x".to_owned()));
        assert_eq!(counted_as("repository:../shop", &repositories, &[]), Err(UnknownCap::Repository("../shop".into())));
    }

    #[tokio::test]
    async fn a_cap_that_nothing_counts_against_is_removed_and_not_the_one_that_it_could_mean() {
        let folder = tempfile::tempdir().unwrap();
        let store = harvest_store::Sqlite::open(&folder.path().join("harvest.db")).unwrap();
        let [kept, meant] = ["user:Ada@github.com", "user:ada@github.com"];
        for name in [kept, meant] {
            store.set_cap(name, Some(1)).await.unwrap();
        }
        set_cap(&store, kept, None).await.unwrap().unwrap();
        let left = || async { store.queue().await.unwrap().caps.into_iter().map(|cap| cap.name).collect::<Vec<_>>() };
        assert_eq!(left().await, [meant]);
        set_cap(&store, kept, None).await.unwrap().unwrap();
        assert_eq!(left().await, Vec::<String>::new());
    }

    #[test]
    fn each_vendor_of_an_agent_can_have_a_cap() {
        let all = [Provider::Anthropic, Provider::Openai, Provider::Gemini, Provider::Ollama];
        assert_eq!(all.map(Provider::as_str), VENDORS);
    }
}
