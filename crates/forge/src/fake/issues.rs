//! Issues, comments, labels, and who may do what.

use std::collections::BTreeMap;
use std::time::Duration;

use harvest_core::Timestamp;
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Value, json};

use super::access::Caller;
use super::api::{Asked, Reply};
use super::world::{Comment, Grant, Thread};
use super::{APP_ID, APP_KEY, Shared, shapes};

const INSTALLATION: u64 = 815;
const TOKEN_HOLDS: Duration = Duration::from_secs(3600);

impl Shared {
    pub(super) fn make_token(&self, caller: &Caller, installation: u64, body: &Value) -> Reply {
        if !matches!(caller, Caller::App) {
            return Reply::refused(401, "A JSON web token could not be decoded");
        }
        if installation != INSTALLATION {
            return Reply::not_found();
        }
        let names = body["repositories"].as_array().into_iter().flatten();
        let repositories: Vec<String> = names.filter_map(|name| name.as_str().map(str::to_owned)).collect();
        let permissions: BTreeMap<String, String> =
            serde_json::from_value(body["permissions"].clone()).unwrap_or_default();
        let mut bytes = [0; 18];
        if SystemRandom::new().fill(&mut bytes).is_err() {
            return Reply::refused(500, "no random bytes");
        }
        let token = format!("ghs_{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        let expires = self.clock.now().saturating_add(TOKEN_HOLDS).unwrap_or(Timestamp::MAX);
        let answer = json!({
            "token": token,
            "expires_at": expires.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            "permissions": permissions,
            "repository_selection": "selected",
        });
        self.world().tokens.insert(token, Grant { repositories, permissions, expires });
        Reply::created(answer)
    }

    /// The one App there is, whoever asks with any code.
    pub(super) fn convert(&self, code: &str) -> Reply {
        let now = self.now();
        Reply::created(json!({
            "id": APP_ID, "slug": "harvest", "node_id": "MDM6QXBwMQ==", "owner": shapes::user(&self.web, "ada"),
            "name": "Harvest", "description": null, "external_url": self.web, "html_url": format!("{}/apps/harvest", self.web),
            "created_at": now, "updated_at": now, "permissions": { "contents": "write" }, "events": ["issues"],
            "client_id": "Iv1.fake", "client_secret": format!("fake-{code}"), "webhook_secret": "harvest", "pem": APP_KEY,
        }))
    }

    pub(super) fn user(&self, caller: &Caller) -> Reply {
        match caller {
            Caller::Person(login) => Reply::ok(shapes::private_user(&self.web, login)),
            _ => Reply::refused(403, "Resource not accessible by integration"),
        }
    }
}

impl Asked<'_> {
    pub(super) fn installation(&self) -> Reply {
        let world = self.shared.world();
        let Some(repository) = world.repositories.get(&self.repository) else { return Reply::not_found() };
        Reply::ok(shapes::installation(&self.shared.web, repository, INSTALLATION, APP_ID))
    }

    pub(super) fn about(&self) -> Reply {
        let world = self.shared.world();
        let Some(repository) = world.repositories.get(&self.repository) else { return Reply::not_found() };
        Reply::ok(shapes::full_repository(&self.shared.web, repository))
    }

    pub(super) fn add_writer(&self, login: &str) -> Reply {
        let mut world = self.shared.world();
        if let Some(repository) = world.repositories.get_mut(&self.repository) {
            repository.writers.insert(login.to_owned());
        }
        Reply::nothing(204)
    }

    pub(super) fn permission(&self, login: &str) -> Reply {
        let world = self.shared.world();
        let Some(repository) = world.repositories.get(&self.repository) else { return Reply::not_found() };
        let permission = match login {
            login if login == repository.owner => "admin",
            login if repository.may_write(login) => "write",
            _ => "read",
        };
        Reply::ok(shapes::permission(&self.shared.web, login, permission))
    }

    pub(super) fn open_issue(&self) -> Reply {
        let Some(title) = self.text("title") else { return Reply::invalid("title is missing") };
        let now = self.shared.now();
        let answer = {
            let mut world = self.shared.world();
            let id = world.next_id();
            let Some(repository) = world.repositories.get_mut(&self.repository) else { return Reply::not_found() };
            let number = repository.next_number();
            let thread = Thread {
                id,
                number,
                title,
                body: self.text("body").unwrap_or_default(),
                author: self.caller.login().to_owned(),
                open: true,
                labels: self.names("labels"),
                assignees: self.names("assignees"),
                created: now.clone(),
                updated: now,
                closed: None,
                pull: None,
            };
            repository.threads.insert(number, thread.clone());
            shapes::issue(&self.shared.web, repository, &thread)
        };
        self.tell_issue("opened", &answer, Value::Null);
        for label in answer["labels"].as_array().into_iter().flatten() {
            self.tell_issue("labeled", &answer, json!({ "label": label }));
        }
        for assignee in answer["assignees"].as_array().into_iter().flatten() {
            self.tell_issue("assigned", &answer, json!({ "assignee": assignee }));
        }
        Reply::created(answer)
    }

    pub(super) fn issue(&self, number: u64) -> Reply {
        let world = self.shared.world();
        let Some(repository) = world.repositories.get(&self.repository) else { return Reply::not_found() };
        match repository.threads.get(&number) {
            Some(thread) => Reply::ok(shapes::issue(&self.shared.web, repository, thread)),
            None => Reply::not_found(),
        }
    }

    /// Changes the fields that the body names. Webhooks follow for what is different afterwards, as GitHub sends them.
    pub(super) fn edit_issue(&self, number: u64) -> Reply {
        let open = match self.text("state").as_deref() {
            None => None,
            Some("open") => Some(true),
            Some("closed") => Some(false),
            Some(_) => return Reply::invalid("state is neither open nor closed"),
        };
        let named = |field: &str| self.body[field].is_array().then(|| self.names(field));
        let (now, labels, assignees) = (self.shared.now(), named("labels"), named("assignees"));
        let mut before = None;
        let Some(issue) = self.change(number, |thread| {
            before = Some(thread.clone());
            thread.title = self.text("title").unwrap_or_else(|| thread.title.clone());
            thread.body = self.text("body").unwrap_or_else(|| thread.body.clone());
            thread.labels = labels.unwrap_or_else(|| thread.labels.clone());
            thread.assignees = assignees.unwrap_or_else(|| thread.assignees.clone());
            if let Some(open) = open.filter(|open| *open != thread.open) {
                (thread.open, thread.closed) = (open, (!open).then_some(now));
            }
        }) else {
            return Reply::not_found();
        };
        let Some(before) = before else { return Reply::not_found() };
        if issue["title"] != before.title || issue["body"] != before.body {
            self.tell_issue("edited", &issue, json!({ "changes": {} }));
        }
        match open.filter(|open| *open != before.open) {
            Some(true) => self.tell_issue("reopened", &issue, Value::Null),
            Some(false) => self.tell_issue("closed", &issue, Value::Null),
            None => {}
        }
        for label in issue["labels"].as_array().into_iter().flatten() {
            if !before.labels.iter().any(|known| label["name"] == *known) {
                self.tell_issue("labeled", &issue, json!({ "label": label }));
            }
        }
        for assignee in issue["assignees"].as_array().into_iter().flatten() {
            if !before.assignees.iter().any(|known| assignee["login"] == *known) {
                self.tell_issue("assigned", &issue, json!({ "assignee": assignee }));
            }
        }
        Reply::ok(issue)
    }

    pub(super) fn label(&self, number: u64) -> Reply {
        let labels = self.names("labels");
        let Some(issue) = self.change(number, |thread| {
            for label in &labels {
                if !thread.labels.contains(label) {
                    thread.labels.push(label.clone());
                }
            }
        }) else {
            return Reply::not_found();
        };
        for label in issue["labels"].as_array().into_iter().flatten() {
            if labels.iter().any(|added| label["name"] == *added) {
                self.tell_issue("labeled", &issue, json!({ "label": label }));
            }
        }
        Reply::ok(issue["labels"].clone())
    }

    pub(super) fn assign(&self, number: u64) -> Reply {
        let assignees = self.names("assignees");
        let Some(issue) = self.change(number, |thread| {
            for login in &assignees {
                if !thread.assignees.contains(login) {
                    thread.assignees.push(login.clone());
                }
            }
        }) else {
            return Reply::not_found();
        };
        for login in &assignees {
            self.tell_issue("assigned", &issue, json!({ "assignee": shapes::user(&self.shared.web, login) }));
        }
        Reply::created(issue)
    }

    fn change(&self, number: u64, change: impl FnOnce(&mut Thread)) -> Option<Value> {
        let now = self.shared.now();
        let mut world = self.shared.world();
        let repository = world.repositories.get_mut(&self.repository)?;
        let thread = repository.threads.get_mut(&number)?;
        change(thread);
        thread.updated = now;
        let thread = thread.clone();
        Some(shapes::issue(&self.shared.web, repository, &thread))
    }

    pub(super) fn comments(&self, number: u64) -> Reply {
        let world = self.shared.world();
        let Some(repository) = world.repositories.get(&self.repository) else { return Reply::not_found() };
        if !repository.threads.contains_key(&number) {
            return Reply::not_found();
        }
        let size = self.parameter("per_page").and_then(|size| size.parse().ok()).unwrap_or(30);
        let page: usize = self.parameter("page").and_then(|page| page.parse().ok()).unwrap_or(1);
        let said = repository.comments.iter().filter(|comment| comment.thread == number);
        let said = said.skip((page - 1) * size).take(size);
        Reply::ok(said.map(|comment| shapes::comment(&self.shared.web, repository, comment)).collect())
    }

    pub(super) fn comment(&self, number: u64) -> Reply {
        let Some(body) = self.text("body") else { return Reply::invalid("body is missing") };
        let now = self.shared.now();
        let (issue, comment) = {
            let mut world = self.shared.world();
            let id = world.next_id();
            let Some(repository) = world.repositories.get_mut(&self.repository) else { return Reply::not_found() };
            let Some(thread) = repository.threads.get(&number).cloned() else { return Reply::not_found() };
            let author = self.caller.login().to_owned();
            let comment = Comment { id, thread: number, author, body, created: now.clone(), updated: now };
            repository.comments.push(comment.clone());
            let shown = shapes::comment(&self.shared.web, repository, &comment);
            (shapes::issue(&self.shared.web, repository, &thread), shown)
        };
        let payload = self.payload("created", json!({ "issue": issue, "comment": comment }));
        self.shared.tell("issue_comment", payload);
        Reply::created(comment)
    }

    pub(super) fn edit_comment(&self, id: u64) -> Reply {
        let Some(body) = self.text("body") else { return Reply::invalid("body is missing") };
        let now = self.shared.now();
        let mut world = self.shared.world();
        let Some(repository) = world.repositories.get_mut(&self.repository) else { return Reply::not_found() };
        let Some(comment) = repository.comments.iter_mut().find(|comment| comment.id == id) else {
            return Reply::not_found();
        };
        (comment.body, comment.updated) = (body, now);
        let comment = comment.clone();
        Reply::ok(shapes::comment(&self.shared.web, repository, &comment))
    }

    fn tell_issue(&self, action: &str, issue: &Value, more: Value) {
        let mut payload = self.payload(action, json!({ "issue": issue }));
        if let (Some(payload), Value::Object(more)) = (payload.as_object_mut(), more) {
            payload.extend(more);
        }
        self.shared.tell("issues", payload);
    }

    /// What every webhook says.
    pub(super) fn payload(&self, action: &str, more: Value) -> Value {
        let sender = shapes::user(&self.shared.web, self.caller.login());
        let world = self.shared.world();
        let repository = world.repositories.get(&self.repository);
        let repository = repository.map(|repository| shapes::full_repository(&self.shared.web, repository));
        let mut payload = json!({ "action": action, "repository": repository, "sender": sender,
            "installation": { "id": INSTALLATION, "node_id": "MDQ6" } });
        if let (Some(payload), Value::Object(more)) = (payload.as_object_mut(), more) {
            payload.extend(more);
        }
        payload
    }
}
