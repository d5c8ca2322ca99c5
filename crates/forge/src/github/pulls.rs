//! Pull requests: found by their branch, opened once, brought up to date in place; and reviews of them.

use reqwest::Method;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;

use super::GitHub;
use super::client::{Ask, Authority};
use super::comments::{MOST_PAGES, PAGE, hidden};
use super::tokens::Permissions;
use crate::Error;
use crate::hosting::{Proposal, PullRequest, PullRequestState, Remark, Review};

const MOST_REMARKS: usize = 100;

#[derive(Debug, Clone, Deserialize)]
struct Pull {
    number: u64,
    html_url: String,
    state: String,
    #[serde(default)]
    draft: bool,
    #[serde(default)]
    merged_at: Option<String>,
    title: String,
    #[serde(default)]
    body: Option<String>,
    head: End,
    base: End,
    #[serde(default)]
    labels: Vec<Named>,
}

#[derive(Debug, Clone, Deserialize)]
struct End {
    #[serde(rename = "ref")]
    name: String,
    sha: String,
}

#[derive(Debug, Clone, Deserialize)]
struct Named {
    name: String,
}

impl From<Pull> for PullRequest {
    fn from(pull: Pull) -> Self {
        let state = match (pull.state.as_str(), &pull.merged_at) {
            ("open", _) => PullRequestState::Open,
            (_, Some(_)) => PullRequestState::Merged,
            _ => PullRequestState::Closed,
        };
        Self {
            number: pull.number,
            url: pull.html_url,
            branch: pull.head.name,
            head: pull.head.sha,
            into: pull.base.name,
            state,
            draft: pull.draft,
        }
    }
}

impl GitHub {
    pub(super) async fn propose_pull_request(
        &self,
        proposal: &Proposal,
        person: Option<&SecretString>,
    ) -> Result<PullRequest, Error> {
        let pull = match self.of_branch(proposal).await? {
            Some(pull) => self.bring_up_to_date(pull, proposal).await?,
            None => self.open(proposal, person).await?,
        };
        let missing: Vec<&String> = proposal
            .labels
            .iter()
            .filter(|label| !pull.labels.iter().any(|known| known.name.eq_ignore_ascii_case(label)))
            .collect();
        if !missing.is_empty() {
            let path = format!("/issues/{}/labels", pull.number);
            self.send(Method::POST, &path, json!({ "labels": missing }), Permissions::Issues).await?;
        }
        Ok(pull.into())
    }

    pub(super) async fn read_pull_request(&self, number: u64) -> Result<PullRequest, Error> {
        let pull: Pull = self.get(&format!("/pulls/{number}"), Permissions::PullRequests).await?.read()?;
        Ok(pull.into())
    }

    /// The open one of a branch, or the one that was merged or closed last.
    async fn of_branch(&self, proposal: &Proposal) -> Result<Option<Pull>, Error> {
        let head = format!("{}:{}", self.repository.owner, proposal.branch);
        let path = format!("/pulls?state=all&sort=created&direction=desc&per_page=20&head={}", encoded(&head));
        let pulls: Vec<Pull> = self.get(&path, Permissions::PullRequests).await?.read()?;
        let mut ours = pulls.into_iter().filter(|pull| pull.head.name == proposal.branch.as_str());
        let newest = ours.next();
        Ok(match newest {
            Some(newest) if newest.state != "open" => ours.find(|pull| pull.state == "open").or(Some(newest)),
            newest => newest,
        })
    }

    async fn open(&self, proposal: &Proposal, person: Option<&SecretString>) -> Result<Pull, Error> {
        let into = match &proposal.into {
            Some(into) => into.clone(),
            None => self.default_branch().await?,
        };
        let body = json!({
            "title": proposal.title,
            "body": proposal.body,
            "head": proposal.branch.as_str(),
            "base": into,
            "draft": proposal.draft,
            "maintainer_can_modify": true,
        });
        let ours = self.ask(Method::POST, "/pulls", Some(body), Permissions::PullRequests);
        let as_person = person.map(|token| Ask {
            method: Method::POST,
            path: ours.path.clone(),
            body: ours.body.clone(),
            authority: Authority::Person(token),
        });
        let pull = match as_person {
            Some(asked) => match self.opened(proposal, &asked).await {
                Ok(pull) => pull,
                // Their token was taken back, or they may not here.
                Err(error) => {
                    tracing::info!(%error, "a pull request cannot be opened as the person who asked for it");
                    self.opened(proposal, &ours).await?
                }
            },
            None => self.opened(proposal, &ours).await?,
        };
        self.ask_reviewers(pull.number, &proposal.reviewers).await;
        Ok(pull)
    }

    async fn opened(&self, proposal: &Proposal, asked: &Ask<'_>) -> Result<Pull, Error> {
        match self.client.must(asked).await {
            Ok(answer) => answer.read(),
            // Someone else was faster, or our own request before this one arrived after all.
            Err(error) => match self.of_branch(proposal).await? {
                Some(pull) if pull.state == "open" => Ok(pull),
                _ => Err(error),
            },
        }
    }

    async fn bring_up_to_date(&self, pull: Pull, proposal: &Proposal) -> Result<Pull, Error> {
        let same = pull.title == proposal.title && pull.body.as_deref().unwrap_or_default() == proposal.body;
        if same || pull.state != "open" {
            return Ok(pull);
        }
        let path = format!("/pulls/{}", pull.number);
        let body = json!({ "title": proposal.title, "body": proposal.body });
        self.send(Method::PATCH, &path, body, Permissions::PullRequests).await?.read()
    }

    /// Whom GitHub does not accept, say the author or someone who has left, is no reason to go without the others.
    async fn ask_reviewers(&self, number: u64, reviewers: &[String]) {
        let path = format!("/pulls/{number}/requested_reviewers");
        for reviewer in reviewers {
            let body = match reviewer.split_once('/') {
                Some((_, team)) => json!({ "team_reviewers": [team] }),
                None => json!({ "reviewers": [reviewer] }),
            };
            if let Err(error) = self.send(Method::POST, &path, body, Permissions::PullRequests).await {
                tracing::warn!(%error, reviewer, "a reviewer could not be asked");
            }
        }
    }

    /// Refuses a repository that nothing can be pushed to.
    pub(super) async fn refuse_read_only(&self) -> Result<(), Error> {
        #[derive(Deserialize)]
        struct About {
            #[serde(default)]
            archived: bool,
            permissions: Option<Granted>,
        }
        #[derive(Deserialize)]
        struct Granted {
            push: bool,
        }
        let about: About = self.get("", Permissions::Look).await?.read()?;
        let refuse = |reason: &str| {
            let (name, reason) = (self.name.clone(), reason.to_owned());
            Err(Error::ReadOnly { name, reason, is_local: false })
        };
        if about.archived {
            return refuse("it is archived");
        }
        // What GitHub says here of an App is about this one token. Whether it may push shows when it asks for a token that may.
        if !self.client.account.is_app() {
            let may_push = about.permissions.is_none_or(|granted| granted.push);
            return if may_push { Ok(()) } else { refuse("the token may not push to it") };
        }
        match self.client.tokens.for_repository(&self.client, &self.repository, Permissions::Push).await {
            Err(Error::Refused { status: 422, .. }) => refuse("the App has no write access to its contents"),
            asked => asked.map(drop),
        }
    }

    async fn default_branch(&self) -> Result<String, Error> {
        #[derive(Deserialize)]
        struct About {
            default_branch: String,
        }
        let about: About = self.get("", Permissions::Look).await?.read()?;
        Ok(about.default_branch)
    }

    pub(super) async fn give_review(&self, number: u64, review: &Review) -> Result<(), Error> {
        let marker = hidden(&review.marker);
        if self.has_review(number, &marker).await? {
            return Ok(());
        }
        let remarks = review.remarks.iter().take(MOST_REMARKS).filter_map(|remark| {
            let line = remark.line?;
            Some(json!({ "path": remark.path, "line": line, "side": "RIGHT", "body": remark.body }))
        });
        let body = json!({
            "commit_id": review.commit,
            "body": format!("{marker}\n{}", review.body),
            "event": "COMMENT",
            "comments": remarks.collect::<Vec<_>>(),
        });
        let path = format!("/pulls/{number}/reviews");
        self.send(Method::POST, &path, body, Permissions::PullRequests).await.map(drop)
    }

    async fn has_review(&self, number: u64, marker: &str) -> Result<bool, Error> {
        #[derive(Deserialize)]
        struct Given {
            #[serde(default)]
            body: Option<String>,
        }
        for page in 1..=MOST_PAGES {
            let path = format!("/pulls/{number}/reviews?per_page={PAGE}&page={page}");
            let given: Vec<Given> = self.get(&path, Permissions::PullRequests).await?.read()?;
            let last = given.len() < PAGE;
            if given.iter().any(|given| given.body.as_deref().unwrap_or_default().starts_with(marker)) {
                return Ok(true);
            }
            if last {
                break;
            }
        }
        Ok(false)
    }

    pub(super) async fn read_remarks(&self, number: u64, review: u64) -> Result<Vec<Remark>, Error> {
        #[derive(Deserialize)]
        struct Said {
            path: String,
            #[serde(default)]
            line: Option<u64>,
            #[serde(default)]
            original_line: Option<u64>,
            body: String,
            user: Option<super::comments::User>,
        }
        let path = format!("/pulls/{number}/reviews/{review}/comments?per_page=100");
        let said: Vec<Said> = self.get(&path, Permissions::PullRequests).await?.read()?;
        let remark = |said: Said| Remark {
            path: said.path,
            line: said.line.or(said.original_line),
            author: said.user.map(|user| user.login).unwrap_or_default(),
            body: said.body,
        };
        Ok(said.into_iter().map(remark).collect())
    }
}

/// Fit for the value of a query.
pub(super) fn encoded(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    text.bytes().map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
