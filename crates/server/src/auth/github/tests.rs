//! Refreshes of people's tokens, and names that change hands, against an endpoint with GitHub's rules.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use harvest_api_types::{AgentCheck, AgentInfo, Ask, NewCredential, NewRepository, NewSchedule, NewTemplate};
use harvest_core::{Code, Cost, Credential, CredentialId, Scope, TaskId, Timestamp};
use harvest_engine::{Request, Tenancy};
use harvest_store::{Repository, Schedule, ScheduleOwner, Sqlite, Template};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::protocol::UserToken;
use super::*;
use crate::desk::{self, Reach, Refusal};

/// A desk that keeps the tokens of people, and nothing else.
#[derive(Debug, Default)]
struct Vault {
    kept: Mutex<HashMap<String, String>>,
    read: Notify,
}

fn nothing<T>() -> Result<T, Refusal> {
    Err(Refusal { code: Code::Internal, message: "not here".to_owned(), help: None })
}

#[async_trait]
impl desk::Desk for Vault {
    fn notice(&self, _text: &str) {}

    async fn request(&self, _: &Ask, _: &str) -> Result<Request, Refusal> {
        nothing()
    }
    fn budget_of(&self, _: &str) -> Result<Option<Cost>, Refusal> {
        nothing()
    }
    fn tenancy(&self) -> Tenancy {
        Tenancy::default()
    }
    fn memberships(&self, _: &str) -> BTreeMap<String, Role> {
        BTreeMap::new()
    }
    fn check_settings(&self, _: &str, _: &Value, _: &Value, _: Reach) -> Result<(), Refusal> {
        nothing()
    }
    fn settings_of(&self, _: &str) -> Option<Vec<Value>> {
        None
    }
    async fn webhooks(&self) -> Option<Arc<crate::webhooks::Webhooks>> {
        None
    }
    fn check_readable(&self) -> Result<(), Refusal> {
        Ok(())
    }
    async fn usable_credentials(&self) -> Result<BTreeSet<CredentialId>, Refusal> {
        nothing()
    }
    async fn projects_changed(&self) -> Result<(), Refusal> {
        nothing()
    }
    async fn agents(&self) -> Result<Vec<AgentInfo>, Refusal> {
        nothing()
    }
    async fn check_agent(&self, _: &str) -> Result<AgentCheck, Refusal> {
        nothing()
    }
    async fn add_repository(&self, _: &NewRepository) -> Result<Repository, Refusal> {
        nothing()
    }
    async fn add_schedule(&self, _: &NewSchedule, _: ScheduleOwner) -> Result<Schedule, Refusal> {
        nothing()
    }
    async fn add_template(&self, _: &NewTemplate, _: &str) -> Result<Template, Refusal> {
        nothing()
    }
    fn parameters(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
    fn fill(&self, _: &Template, _: BTreeMap<String, String>, _: &Ask) -> Result<Ask, Refusal> {
        nothing()
    }
    async fn add_credential(&self, _: NewCredential, _: Scope) -> Result<Credential, Refusal> {
        nothing()
    }
    async fn rotate_credential(&self, _: Credential, _: String) -> Result<Credential, Refusal> {
        nothing()
    }
    async fn keep_person_token(&self, person: &str, token: String) -> Result<(), Refusal> {
        self.kept.lock().unwrap().insert(person.to_owned(), token);
        Ok(())
    }
    async fn person_token(&self, person: &str) -> Result<Option<String>, Refusal> {
        self.read.notify_one();
        Ok(self.kept.lock().unwrap().get(person).cloned())
    }
    async fn apply(&self, _: &TaskId, _: bool) -> Result<harvest_api_types::Merge, Refusal> {
        nothing()
    }
    async fn signed_evidence(&self, _: &TaskId) -> Result<Value, Refusal> {
        nothing()
    }
    fn evidence_key(&self) -> Result<String, Refusal> {
        nothing()
    }
    async fn demo(&self) -> Result<Vec<Request>, Refusal> {
        nothing()
    }
    fn owner(&self) -> String {
        String::new()
    }
}

#[derive(Debug)]
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        now()
    }
}

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

/// GitHub's side: what it answers, and how often it was asked for a refresh.
#[derive(Default)]
struct Github {
    /// The answer to the next refresh, and what happens elsewhere while it is under way.
    grant: Mutex<Value>,
    meanwhile: Mutex<Option<UserToken>>,
    person: Mutex<Value>,
    refreshes: AtomicUsize,
    user: Mutex<String>,
    vault: Arc<Vault>,
}

async fn refresh(State(github): State<Arc<Github>>) -> Json<Value> {
    github.refreshes.fetch_add(1, Ordering::SeqCst);
    let meanwhile = github.meanwhile.lock().unwrap().take();
    if let Some(token) = meanwhile {
        let user = github.user.lock().unwrap().clone();
        kept::keep(github.vault.as_ref(), &user, &token).await.unwrap();
    }
    Json(github.grant.lock().unwrap().clone())
}

struct World {
    _folder: tempfile::TempDir,
    store: Arc<Sqlite>,
    github: Arc<Github>,
    sign_in: Arc<SignIn>,
    user: String,
}

impl World {
    async fn new() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let github = Arc::new(Github::default());
        *github.person.lock().unwrap() = json!({ "id": 7, "login": "Ada" });
        let app = Router::new()
            .route("/login/oauth/access_token", post(refresh))
            .route(
                "/api/v3/user",
                get(async |State(github): State<Arc<Github>>| Json(github.person.lock().unwrap().clone())),
            )
            .route("/api/v3/user/memberships/orgs/fruit", get(async || Json(json!({ "state": "active" }))))
            .with_state(github.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(Sqlite::open(&folder.path().join("harvest.db")).unwrap());
        let user = format!("ada@{host}");
        user.clone_into(&mut github.user.lock().unwrap());
        let options = Options {
            client_id: "Iv1.0".into(),
            client_secret: Secret::given("secret".into()),
            url: format!("http://{host}"),
            organizations: vec!["fruit".into()],
            teams: Vec::new(),
            admins: Vec::new(),
            role: None,
            believed: Duration::from_secs(60),
        };
        Self { _folder: folder, store, github, sign_in: Arc::new(SignIn::new(options).unwrap()), user }
    }

    fn keeping(&self) -> Keeping<'_> {
        Keeping { store: self.store.as_ref(), desk: self.github.vault.as_ref(), clock: &Stopped }
    }

    async fn keep(&self, token: &UserToken) {
        kept::keep(self.github.vault.as_ref(), &self.user, token).await.unwrap();
    }

    fn github_says(&self, grant: Value) {
        *self.github.grant.lock().unwrap() = grant;
    }

    fn refreshes(&self) -> usize {
        self.github.refreshes.load(Ordering::SeqCst)
    }
}

/// A token that is valid for so many more hours.
fn token(name: &str, hours: i32) -> UserToken {
    let life = Duration::from_secs(3600 * u64::from(hours.unsigned_abs()));
    let end = if hours < 0 { now().checked_sub(life) } else { now().checked_add(life) };
    UserToken {
        account: 7,
        access_token: format!("ghu_{name}"),
        expires_at: Some(end.unwrap()),
        refresh_token: Some(format!("ghr_{name}")),
    }
}

fn refused(error: &str) -> Value {
    json!({ "error": error, "error_description": "The reason." })
}

#[tokio::test]
async fn while_another_process_refreshes_a_token_nobody_else_does_and_all_get_what_it_keeps() {
    let world = World::new().await;
    world.github_says(refused("bad_refresh_token"));
    world.keep(&token("old", -1)).await;
    let until = now().checked_add(Duration::from_secs(60)).unwrap();
    assert!(world.store.begin_refresh(&world.user, "elsewhere", now(), until).await.unwrap());
    let asking = world.sign_in.token_of(world.keeping(), &world.user);
    let winning = async {
        // The other one has seen that the token has expired, and that it may not exchange it.
        for _ in 0..2 {
            let _ = tokio::time::timeout(Duration::from_secs(5), world.github.vault.read.notified()).await;
        }
        world.keep(&token("new", 8)).await;
    };
    let (found, ()) = tokio::join!(asking, winning);
    assert_eq!(found.unwrap().map(|token| token.access_token).as_deref(), Some("ghu_new"));
    assert_eq!(world.refreshes(), 0, "GitHub was asked by someone who had no right to");
    // Whoever died with it does not keep the right for ever.
    world.keep(&token("old", -1)).await;
    world.store.end_refresh(&world.user, "elsewhere").await.unwrap();
    world.github_says(json!({ "access_token": "ghu_next", "refresh_token": "ghr_next", "expires_in": 28_800 }));
    let found = world.sign_in.token_of(world.keeping(), &world.user).await.unwrap();
    assert_eq!((found.unwrap().access_token.as_str(), world.refreshes()), ("ghu_next", 1));
    let later = world.store.begin_refresh(&world.user, "elsewhere", now(), until).await.unwrap();
    assert!(later, "the right was given back");
}

#[tokio::test]
async fn an_unknown_refresh_token_means_that_someone_left_only_when_it_is_still_the_one_that_is_kept() {
    let world = World::new().await;
    let ask = async |error: &str, meanwhile: Option<UserToken>| {
        world.github_says(refused(error));
        world.keep(&token("old", -1)).await;
        *world.github.meanwhile.lock().unwrap() = meanwhile;
        world.sign_in.look_again(world.keeping(), &world.user).await
    };
    assert!(ask("bad_refresh_token", Some(token("new", 8))).await.unwrap().is_some());
    // It has expired again already, as far as this clock says: nobody knows.
    assert!(matches!(ask("bad_refresh_token", Some(token("new", -1))).await, Err(Trouble::Busy)));
    assert!(ask("bad_refresh_token", None).await.unwrap().is_none());
    // What GitHub holds against this installation is not held against its people.
    assert!(matches!(ask("incorrect_client_credentials", None).await, Err(Trouble::Refused(_))));
}

#[tokio::test]
async fn a_name_is_its_accounts_as_long_as_github_calls_that_account_so() {
    let world = World::new().await;
    for (person, belongs) in [
        (json!({ "id": 7, "login": "Ada" }), true),
        (json!({ "id": 7, "login": "ada-of-old" }), false),
        (json!({ "id": 8, "login": "Ada" }), false),
    ] {
        world.keep(&token("kept", 8)).await;
        *world.github.person.lock().unwrap() = person.clone();
        let standing = world.sign_in.look_again(world.keeping(), &world.user).await.unwrap();
        assert_eq!(standing.is_some(), belongs, "{person}");
        let kept = kept::read(world.github.vault.as_ref(), &world.user).await.unwrap().unwrap();
        let is_usable = kept.access_token == "ghu_kept";
        assert_eq!((is_usable, kept.account), (belongs, 7), "{person}");
    }
}
