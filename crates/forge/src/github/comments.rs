//! Issues and what is said under them.

use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

use super::GitHub;
use super::pulls::encoded;
use super::tokens::Permissions;
use crate::Error;
use crate::hosting::{Comment, Standing, Thread};

pub(super) const PAGE: usize = 100;
/// A thread longer than this is read from its beginning to here.
pub(super) const MOST_PAGES: usize = 5;

#[derive(Debug, Clone, Deserialize)]
pub(super) struct User {
    pub(super) login: String,
}

#[derive(Debug, Clone, Deserialize)]
struct Said {
    id: u64,
    #[serde(default)]
    body: Option<String>,
    user: Option<User>,
}

impl GitHub {
    pub(super) async fn tell_once(&self, number: u64, marker: &str, text: &str) -> Result<(), Error> {
        let body = format!("{}\n{text}", hidden(marker));
        let comments = self.comments(number).await?;
        let ours =
            comments.into_iter().find(|said| said.body.as_deref().unwrap_or_default().starts_with(&hidden(marker)));
        match ours {
            // What GitHub keeps may end its lines otherwise.
            Some(said) if said.body.as_deref().map(|body| body.replace('\r', "")) == Some(body.clone()) => Ok(()),
            Some(said) => {
                let path = format!("/issues/comments/{}", said.id);
                self.send(Method::PATCH, &path, json!({ "body": body }), Permissions::Issues).await.map(drop)
            }
            None => {
                let path = format!("/issues/{number}/comments");
                self.send(Method::POST, &path, json!({ "body": body }), Permissions::Issues).await.map(drop)
            }
        }
    }

    pub(super) async fn read_thread(&self, number: u64) -> Result<Thread, Error> {
        #[derive(Deserialize)]
        struct Issue {
            title: String,
            #[serde(default)]
            body: Option<String>,
            user: Option<User>,
        }
        let issue: Issue = self.get(&format!("/issues/{number}"), Permissions::Issues).await?.read()?;
        let comments = self.comments(number).await?.into_iter().map(|said| Comment {
            author: said.user.map(|user| user.login).unwrap_or_default(),
            body: said.body.unwrap_or_default(),
        });
        Ok(Thread {
            title: issue.title,
            body: issue.body.unwrap_or_default(),
            author: issue.user.map(|user| user.login).unwrap_or_default(),
            comments: comments.collect(),
        })
    }

    async fn comments(&self, number: u64) -> Result<Vec<Said>, Error> {
        let mut all = Vec::new();
        for page in 1..=MOST_PAGES {
            let path = format!("/issues/{number}/comments?per_page={PAGE}&page={page}");
            let said: Vec<Said> = self.get(&path, Permissions::Issues).await?.read()?;
            let last = said.len() < PAGE;
            all.extend(said);
            if last {
                break;
            }
        }
        Ok(all)
    }

    pub(super) async fn read_standing(&self, login: &str) -> Result<Standing, Error> {
        #[derive(Deserialize)]
        struct Granted {
            permission: String,
        }
        let path = format!("/collaborators/{}/permission", encoded(login));
        let ask = self.ask(Method::GET, &path, None, Permissions::Look);
        let Some(answer) = self.client.ask(&ask).await? else { return Ok(Standing::Stranger) };
        let granted: Granted = answer.read()?;
        let writes = ["admin", "write", "maintain"].contains(&granted.permission.as_str());
        Ok(if writes { Standing::Writer } else { Standing::Stranger })
    }
}

/// Not shown to people. Nobody else's comment begins like this.
pub(super) fn hidden(marker: &str) -> String {
    format!("<!-- harvest: {marker} -->")
}
