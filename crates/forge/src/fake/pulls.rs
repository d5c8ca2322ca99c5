//! Pull requests, merging and reviews.

use serde_json::{Value, json};

use super::api::{Asked, Reply};
use super::shapes;
use super::world::{Pull, Remark, Review, Thread};

impl Asked<'_> {
    /// Branches move by git alone; what is known of pull requests follows.
    async fn refresh(&self) {
        let open: Vec<(u64, String)> = {
            let world = self.shared.world();
            let threads = world.repositories.get(&self.repository).into_iter().flat_map(|one| one.threads.values());
            let pulls = threads.filter(|thread| thread.open);
            pulls.filter_map(|thread| Some((thread.number, thread.pull.as_ref()?.head.clone()))).collect()
        };
        for (number, head) in open {
            let Some(tip) = self.shared.tip(&self.repository, &head).await else { continue };
            let mut world = self.shared.world();
            let thread = world.repositories.get_mut(&self.repository).and_then(|one| one.threads.get_mut(&number));
            if let Some(pull) = thread.and_then(|thread| thread.pull.as_mut()) {
                pull.head_sha = tip;
            }
        }
    }

    fn shown(&self, number: u64) -> Option<Value> {
        let world = self.shared.world();
        let repository = world.repositories.get(&self.repository)?;
        shapes::pull(&self.shared.web, repository, repository.threads.get(&number)?)
    }

    pub(super) async fn pulls(&self) -> Reply {
        self.refresh().await;
        let state = self.parameter("state").unwrap_or_else(|| "open".to_owned());
        let head = self.parameter("head");
        let world = self.shared.world();
        let Some(repository) = world.repositories.get(&self.repository) else { return Reply::not_found() };
        let fits = |thread: &&Thread| {
            let Some(pull) = &thread.pull else { return false };
            let named = format!("{}:{}", repository.owner, pull.head);
            (state == "all" || (state == "open") == thread.open) && head.as_ref().is_none_or(|head| *head == named)
        };
        let found = repository.threads.values().rev().filter(fits);
        Reply::ok(found.filter_map(|thread| shapes::simple_pull(&self.shared.web, repository, thread)).collect())
    }

    pub(super) async fn pull(&self, number: u64) -> Reply {
        self.refresh().await;
        self.shown(number).map_or_else(Reply::not_found, Reply::ok)
    }

    pub(super) async fn open_pull(&self) -> Reply {
        let (Some(head), Some(base)) = (self.text("head"), self.text("base")) else {
            return Reply::invalid("head and base are needed");
        };
        let head = head.split_once(':').map_or(head.clone(), |(_, branch)| branch.to_owned());
        let tips = (self.shared.tip(&self.repository, &head).await, self.shared.tip(&self.repository, &base).await);
        let (Some(head_sha), Some(base_sha)) = tips else { return Reply::invalid("head or base is not a branch") };
        if head_sha == base_sha {
            return Reply::invalid(&format!("No commits between {base} and {head}"));
        }
        let now = self.shared.now();
        let number = {
            let mut world = self.shared.world();
            let id = world.next_id();
            let Some(repository) = world.repositories.get_mut(&self.repository) else { return Reply::not_found() };
            let same = |thread: &Thread| thread.open && thread.pull.as_ref().is_some_and(|pull| pull.head == head);
            if repository.threads.values().any(same) {
                let message = format!("A pull request already exists for {}:{head}.", repository.owner);
                return Reply::invalid(&message);
            }
            let number = repository.next_number();
            let pull = Pull {
                head,
                base,
                head_sha,
                base_sha,
                draft: self.body["draft"].as_bool().unwrap_or(false),
                merged: None,
                reviewers: Vec::new(),
            };
            let thread = Thread {
                id,
                number,
                title: self.text("title").unwrap_or_default(),
                body: self.text("body").unwrap_or_default(),
                author: self.caller.login().to_owned(),
                open: true,
                labels: Vec::new(),
                assignees: Vec::new(),
                created: now.clone(),
                updated: now,
                closed: None,
                pull: Some(pull),
            };
            repository.threads.insert(number, thread);
            number
        };
        let Some(shown) = self.shown(number) else { return Reply::not_found() };
        self.tell_pull("opened", number, &shown, Value::Null);
        Reply::created(shown)
    }

    pub(super) async fn edit_pull(&self, number: u64) -> Reply {
        self.refresh().await;
        let (now, closes) = (self.shared.now(), self.body["state"] == "closed");
        {
            let mut world = self.shared.world();
            let thread = world.repositories.get_mut(&self.repository).and_then(|one| one.threads.get_mut(&number));
            let Some(thread) = thread.filter(|thread| thread.pull.is_some()) else { return Reply::not_found() };
            thread.title = self.text("title").unwrap_or_else(|| thread.title.clone());
            thread.body = self.text("body").unwrap_or_else(|| thread.body.clone());
            thread.updated.clone_from(&now);
            if closes {
                (thread.open, thread.closed) = (false, Some(now));
            }
        }
        let Some(shown) = self.shown(number) else { return Reply::not_found() };
        self.tell_pull(if closes { "closed" } else { "edited" }, number, &shown, Value::Null);
        Reply::ok(shown)
    }

    pub(super) async fn merge(&self, number: u64) -> Reply {
        self.refresh().await;
        let pull = {
            let world = self.shared.world();
            let thread = world.repositories.get(&self.repository).and_then(|one| one.threads.get(&number));
            let Some(thread) = thread.filter(|thread| thread.open) else {
                return Reply::refused(405, "Pull Request is not mergeable");
            };
            let Some(pull) = thread.pull.clone() else { return Reply::not_found() };
            pull
        };
        let Some(merged) = self.merge_commit(number, &pull).await else {
            return Reply::refused(409, "Head branch cannot be merged");
        };
        let now = self.shared.now();
        {
            let mut world = self.shared.world();
            let thread = world.repositories.get_mut(&self.repository).and_then(|one| one.threads.get_mut(&number));
            let Some(thread) = thread else { return Reply::not_found() };
            (thread.open, thread.closed) = (false, Some(now.clone()));
            if let Some(pull) = &mut thread.pull {
                pull.merged = Some((merged.clone(), now, self.caller.login().to_owned()));
            }
        }
        if let Some(shown) = self.shown(number) {
            self.tell_pull("closed", number, &shown, Value::Null);
        }
        Reply::ok(json!({ "sha": merged, "merged": true, "message": "Pull Request successfully merged" }))
    }

    async fn merge_commit(&self, number: u64, pull: &Pull) -> Option<String> {
        let path = self.shared.folder.join(format!("{}.git", self.repository));
        let (git, base) = (&self.shared.git, self.shared.tip(&self.repository, &pull.base).await?);
        let tree = git.line(&path, &["merge-tree", "--write-tree", &base, &pull.head_sha]).await.ok()?;
        let message = format!("Merge pull request #{number}");
        let person = ["-c", "user.name=GitHub", "-c", "user.email=noreply@github.com"];
        let commit = ["commit-tree", "-p", &base, "-p", &pull.head_sha, "-m", &message, &tree];
        let merged = git.line(&path, &[&person[..], &commit[..]].concat()).await.ok()?;
        let name = format!("refs/heads/{}", pull.base);
        git.run(&path, &["update-ref", &name, &merged, &base]).await.ok()?;
        self.shared.tell_push(&self.repository, self.caller.login(), &name, Some(&base), &merged);
        Some(merged)
    }

    pub(super) fn ask_reviewers(&self, number: u64) -> Reply {
        let reviewers = self.names("reviewers");
        {
            let mut world = self.shared.world();
            let Some(repository) = world.repositories.get_mut(&self.repository) else { return Reply::not_found() };
            if reviewers.iter().any(|login| !repository.may_write(login) && login != "harvest") {
                return Reply::refused(422, "Reviews may only be requested from collaborators.");
            }
            let thread = repository.threads.get_mut(&number);
            let Some(pull) = thread.and_then(|thread| thread.pull.as_mut()) else { return Reply::not_found() };
            pull.reviewers.extend(reviewers.clone());
        }
        let Some(shown) = self.shown(number) else { return Reply::not_found() };
        for login in &reviewers {
            let asked = json!({ "requested_reviewer": shapes::user(&self.shared.web, login) });
            self.tell_pull("review_requested", number, &shown, asked);
        }
        let world = self.shared.world();
        let Some(repository) = world.repositories.get(&self.repository) else { return Reply::not_found() };
        let simple = repository.threads.get(&number);
        let simple = simple.and_then(|thread| shapes::simple_pull(&self.shared.web, repository, thread));
        simple.map_or_else(Reply::not_found, Reply::created)
    }

    pub(super) async fn review(&self, number: u64) -> Reply {
        self.refresh().await;
        let state = match self.body["event"].as_str() {
            Some("APPROVE") => "APPROVED",
            Some("REQUEST_CHANGES") => "CHANGES_REQUESTED",
            Some("COMMENT") => "COMMENTED",
            _ => "PENDING",
        };
        let now = self.shared.now();
        let comments = self.body["comments"].as_array().cloned().unwrap_or_default();
        let pull = {
            let world = self.shared.world();
            let thread = world.repositories.get(&self.repository).and_then(|one| one.threads.get(&number));
            thread.and_then(|thread| thread.pull.clone())
        };
        let Some(pull) = pull else { return Reply::not_found() };
        for comment in &comments {
            let (path, line) = (comment["path"].as_str().unwrap_or_default(), comment["line"].as_u64().unwrap_or(0));
            if !self.is_in_diff(&pull, path, line).await {
                return Reply::invalid("pull_request_review_thread.line must be part of the diff");
            }
        }
        let shown_review = {
            let mut world = self.shared.world();
            let id = world.next_id();
            let mut remarks = Vec::new();
            for comment in &comments {
                remarks.push(Remark {
                    id: world.next_id(),
                    path: comment["path"].as_str().unwrap_or_default().to_owned(),
                    line: comment["line"].as_u64().unwrap_or(1),
                    body: comment["body"].as_str().unwrap_or_default().to_owned(),
                });
            }
            let Some(repository) = world.repositories.get_mut(&self.repository) else { return Reply::not_found() };
            let review = Review {
                id,
                thread: number,
                author: self.caller.login().to_owned(),
                body: self.text("body").unwrap_or_default(),
                state: state.to_owned(),
                commit: self.text("commit_id").unwrap_or(pull.head_sha),
                submitted: now,
                remarks,
            };
            repository.reviews.push(review.clone());
            shapes::review(&self.shared.web, repository, &review)
        };
        if let Some(pull) = self.shown(number).filter(|_| state != "PENDING") {
            // In webhooks GitHub writes the state in small letters.
            let mut told = shown_review.clone();
            told["state"] = json!(state.to_ascii_lowercase());
            let payload = self.payload("submitted", json!({ "pull_request": pull, "review": told }));
            self.shared.tell("pull_request_review", payload);
        }
        Reply::ok(shown_review)
    }

    /// GitHub has remarks only on lines that its diff shows: changed ones, and three around them.
    async fn is_in_diff(&self, pull: &Pull, path: &str, line: u64) -> bool {
        let folder = self.shared.folder.join(format!("{}.git", self.repository));
        let range = format!("{}...{}", pull.base_sha, pull.head_sha);
        let diff = self
            .shared
            .git
            .line(&folder, &["diff", "--no-ext-diff", "--unified=3", &range, "--", path])
            .await
            .unwrap_or_default();
        // "@@ -1,2 +3,4 @@": lines 3 to 6 of the new file.
        let hunks = diff.lines().filter_map(|hunk| hunk.strip_prefix("@@ ")?.split(' ').nth(1)?.strip_prefix('+'));
        hunks.into_iter().any(|hunk| {
            let (first, count) = hunk.split_once(',').unwrap_or((hunk, "1"));
            let (first, count) = (first.parse::<u64>().unwrap_or(0), count.parse::<u64>().unwrap_or(0));
            (first..first + count).contains(&line)
        })
    }

    pub(super) fn reviews(&self, number: u64) -> Reply {
        let world = self.shared.world();
        let Some(repository) = world.repositories.get(&self.repository) else { return Reply::not_found() };
        let given = repository.reviews.iter().filter(|review| review.thread == number);
        Reply::ok(given.map(|review| shapes::review(&self.shared.web, repository, review)).collect())
    }

    pub(super) fn remarks(&self, number: u64, review: u64) -> Reply {
        let world = self.shared.world();
        let Some(repository) = world.repositories.get(&self.repository) else { return Reply::not_found() };
        let review = repository.reviews.iter().find(|known| known.id == review && known.thread == number);
        let Some(review) = review else { return Reply::not_found() };
        let remarks = review.remarks.iter();
        Reply::ok(remarks.map(|remark| shapes::remark(&self.shared.web, repository, review, remark)).collect())
    }

    fn tell_pull(&self, action: &str, number: u64, pull: &Value, more: Value) {
        let mut payload = self.payload(action, json!({ "number": number, "pull_request": pull }));
        if let (Some(payload), Value::Object(more)) = (payload.as_object_mut(), more) {
            payload.extend(more);
        }
        self.shared.tell("pull_request", payload);
    }
}
