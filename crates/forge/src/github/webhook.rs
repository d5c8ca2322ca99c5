//! Webhooks: whether GitHub sent one, and what it tells.

use harvest_core::Timestamp;
use ring::hmac;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use super::address::{Host, Repository};
use crate::happening::{Checked, Happening, Place, Verdict, What};

/// The header with the signature, and those that say what comes and under which number.
pub const SIGNATURE: &str = "x-hub-signature-256";
pub const EVENT: &str = "x-github-event";
pub const DELIVERY: &str = "x-github-delivery";

const SHA256_BYTES: usize = 32;

/// Signs what is sent to it, and whom its texts are meant for.
pub struct Listener {
    key: hmac::Key,
    host: Host,
    /// The login of the account: who is assigned, asked for a review and spoken to.
    login: String,
    label: String,
}

/// A body that is no JSON document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the body is not a JSON document")]
pub struct Malformed;

impl Listener {
    /// The label of the issues that are meant for Harvest.
    pub fn label(&self) -> &str {
        &self.label
    }

    pub fn new(host: Host, secret: &SecretString, login: &str, label: &str) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose_secret().as_bytes());
        Self { key, host, login: login.trim_start_matches('@').to_owned(), label: label.to_owned() }
    }

    pub fn login(&self) -> &str {
        &self.login
    }

    /// Whether `signature` was made over exactly these bytes with our secret. Takes the same time for every wrong one.
    pub fn is_genuine(&self, signature: &str, body: &[u8]) -> bool {
        tag_of(signature).is_some_and(|tag| hmac::verify(&self.key, body, &tag).is_ok())
    }

    /// What a webhook tells; `None` when that is nothing to Harvest.
    pub fn translate(&self, event: &str, body: &[u8]) -> Result<Option<Happening>, Malformed> {
        let payload: Value = serde_json::from_slice(body).map_err(|_| Malformed)?;
        Ok(self.understand(event, &payload))
    }

    fn understand(&self, event: &str, payload: &Value) -> Option<Happening> {
        let repository = Repository::parse(payload["repository"]["full_name"].as_str()?)?;
        let sender = &payload["sender"];
        let by = sender["login"].as_str()?.to_owned();
        let action = payload["action"].as_str().unwrap_or_default();
        // What programs say, ours among them, would be answered for ever.
        let by_person = sender["type"] != "Bot" && !by.eq_ignore_ascii_case(&self.login);
        let what = match (event, action) {
            ("issues", "labeled") if by_person && self.is_label(&payload["label"]) => {
                What::Asked { issue: issue(&payload["issue"])? }
            }
            ("issues", "assigned") if by_person && self.is_us(&payload["assignee"]) => {
                What::Asked { issue: issue(&payload["issue"])? }
            }
            ("issue_comment", "created") if by_person => {
                let text = payload["comment"]["body"].as_str()?;
                let text = self.spoken_to(text)?;
                What::Mentioned { place: issue(&payload["issue"])?, comment: payload["comment"]["id"].as_u64()?, text }
            }
            ("pull_request", "review_requested") if by_person && self.is_us(&payload["requested_reviewer"]) => {
                What::ReviewAsked { pull: pull(&payload["pull_request"])? }
            }
            ("pull_request", "closed") => What::Closed {
                pull: pull(&payload["pull_request"])?,
                merged: payload["pull_request"]["merged"].as_bool().unwrap_or(false),
            },
            ("pull_request_review", "submitted") if by_person => {
                let review = &payload["review"];
                let verdict = match review["state"].as_str()?.to_ascii_lowercase().as_str() {
                    "approved" => Verdict::Approved,
                    "changes_requested" => Verdict::ChangesRequested,
                    "commented" => Verdict::Commented,
                    _ => return None,
                };
                What::Reviewed {
                    pull: pull(&payload["pull_request"])?,
                    review: review["id"].as_u64()?,
                    verdict,
                    text: review["body"].as_str().unwrap_or_default().to_owned(),
                }
            }
            ("check_run", "completed") => {
                let run = &payload["check_run"];
                if !matches!(run["conclusion"].as_str(), Some("failure" | "timed_out")) {
                    return None;
                }
                let checked = |number| Checked { number, url: self.host.pull_request(&repository, number) };
                let pulls =
                    run["pull_requests"].as_array()?.iter().filter_map(|pull| pull["number"].as_u64().map(checked));
                What::CheckFailed {
                    commit: run["head_sha"].as_str()?.to_owned(),
                    name: run["name"].as_str()?.to_owned(),
                    pulls: pulls.collect(),
                }
            }
            // One that was deleted has gone nowhere.
            ("push", _) if payload["deleted"] != true => {
                let branch = payload["ref"].as_str()?.strip_prefix("refs/heads/")?.to_owned();
                let is_default = payload["repository"]["default_branch"].as_str() == Some(&branch);
                let commit = payload["after"].as_str().filter(|after| is_hash(after))?.to_owned();
                What::Pushed { branch, commit, is_default }
            }
            _ => return None,
        };
        Some(Happening { repository: self.host.page(&repository), by, at: moment(event, payload), what })
    }

    /// Whether an issue carries the label or is assigned to the account. A webhook of its own tells of each.
    pub fn is_meant_for_us(&self, issue: &Value) -> bool {
        let any = |list: &Value, is: &dyn Fn(&Value) -> bool| list.as_array().is_some_and(|list| list.iter().any(is));
        any(&issue["labels"], &|label| self.is_label(label)) || any(&issue["assignees"], &|user| self.is_us(user))
    }

    fn is_us(&self, user: &Value) -> bool {
        user["login"].as_str().is_some_and(|login| login.eq_ignore_ascii_case(&self.login))
    }

    fn is_label(&self, label: &Value) -> bool {
        label["name"].as_str().is_some_and(|name| name.eq_ignore_ascii_case(&self.label))
    }

    /// What follows `@login`, where a text speaks to us: at the beginning of a line that is no quotation.
    fn spoken_to(&self, text: &str) -> Option<String> {
        let name = name_of(&self.login);
        let mut offset = 0;
        for line in text.split_inclusive('\n') {
            let trimmed = line.trim_start();
            if let Some(rest) = trimmed.strip_prefix('@')
                && let Some(said) = rest.get(..name.len()).filter(|said| said.eq_ignore_ascii_case(name))
            {
                let after = &rest[said.len()..];
                if !after.starts_with(|c: char| c.is_alphanumeric() || c == '-' || c == '_') {
                    let begin = offset + line.len() - after.len();
                    let asked = text[begin..].trim_start_matches([',', ':']).trim();
                    return Some(asked.to_owned());
                }
            }
            offset += line.len();
        }
        None
    }
}

/// How people address the account with this login in a comment.
pub fn mention(login: &str) -> String {
    format!("@{}", name_of(login.trim_start_matches('@')))
}

/// Apps are spoken to without the end of their login.
fn name_of(login: &str) -> &str {
    login.strip_suffix("[bot]").unwrap_or(login)
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").field("host", &self.host).field("login", &self.login).finish_non_exhaustive()
    }
}

/// When an event happened. It is part of what is signed, so a delivery that is sent again later still says so.
fn moment(event: &str, payload: &Value) -> Option<Timestamp> {
    let told = match event {
        "issues" => &payload["issue"]["updated_at"],
        "issue_comment" => &payload["comment"]["created_at"],
        "pull_request" => &payload["pull_request"]["updated_at"],
        "pull_request_review" => &payload["review"]["submitted_at"],
        "check_run" => &payload["check_run"]["completed_at"],
        "push" => &payload["repository"]["pushed_at"],
        _ => return None,
    };
    match told {
        Value::String(text) => text.parse().ok(),
        told => Timestamp::from_second(told.as_i64()?).ok(),
    }
}

fn issue(value: &Value) -> Option<Place> {
    place(value, !value["pull_request"].is_null())
}

fn pull(value: &Value) -> Option<Place> {
    place(value, true)
}

fn place(value: &Value, is_pull_request: bool) -> Option<Place> {
    Some(Place {
        number: value["number"].as_u64()?,
        url: value["html_url"].as_str()?.to_owned(),
        title: value["title"].as_str()?.to_owned(),
        text: value["body"].as_str().unwrap_or_default().to_owned(),
        author: value["user"]["login"].as_str()?.to_owned(),
        is_pull_request,
    })
}

/// Whether this can be a signature at all: told without the body that it is for.
pub fn is_signature(text: &str) -> bool {
    tag_of(text).is_some_and(|tag| tag.len() == SHA256_BYTES)
}

fn tag_of(signature: &str) -> Option<Vec<u8>> {
    unhex(signature.strip_prefix("sha256=")?)
}

fn is_hash(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Small letters only: there is one spelling of a signature.
fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| if let [high, low] = pair { Some(digit(*high)? << 4 | digit(*low)?) } else { None }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn listener() -> Listener {
        let secret = SecretString::from("It's a Secret to Everybody".to_owned());
        Listener::new(Host::new(None).unwrap(), &secret, "harvest", "harvest")
    }

    #[test]
    fn the_signature_that_github_publishes_as_an_example() {
        let good = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        assert!(is_signature(good) && listener().is_genuine(good, b"Hello, World!"));
        let digits = &good["sha256=".len()..];
        for wrong in [
            "",
            "sha256=",
            digits,
            &good.to_ascii_uppercase(),
            &format!("sha256={}", digits.to_ascii_uppercase()),
            &format!("sha1={digits}"),
            &format!("sha256= {digits}"),
            &format!("{good} "),
            &format!("{good}00"),
            &good[..good.len() - 1],
            &good[..good.len() - 2],
        ] {
            assert!(!listener().is_genuine(wrong, b"Hello, World!"), "{wrong}");
            assert!(!is_signature(wrong), "{wrong}");
        }
        assert!(!listener().is_genuine(good, b"Hello, World! "));
    }

    #[test]
    fn only_who_is_spoken_to_listens() {
        let listener = listener();
        let said = |text: &str| listener.spoken_to(text);
        assert_eq!(said("@harvest fix the test"), Some("fix the test".to_owned()));
        assert_eq!(said("@Harvest: fix\nthe test"), Some("fix\nthe test".to_owned()));
        assert_eq!(said("Look.\n  @harvest, again"), Some("again".to_owned()));
        for login in ["harvest", "@harvest", "harvest[bot]", "Harvest-App[bot]"] {
            let secret = SecretString::from("s".to_owned());
            let listener = Listener::new(Host::new(None).unwrap(), &secret, login, "harvest");
            let comment = format!("{} approve", mention(login));
            assert_eq!(listener.spoken_to(&comment), Some("approve".to_owned()), "{comment}");
        }
        for not in [
            "",
            "harvest fix",
            "> @harvest fix",
            "ask @harvest to fix",
            "@harvester fix",
            "@harvest-bot fix",
            "mail@harvest",
        ] {
            assert_eq!(said(not), None, "{not}");
        }
    }

    fn event(action: &str, sender: &Value, more: &Value) -> Value {
        let mut payload = json!({ "action": action, "repository": { "full_name": "ada/shop" }, "sender": sender });
        payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        payload
    }

    #[test]
    fn a_failed_check_names_its_pull_request_as_github_spells_it() {
        let run = json!({ "conclusion": "failure", "head_sha": "a", "name": "ci", "pull_requests": [{ "number": 7 }] });
        let mut payload = event("completed", &json!({ "login": "ci", "type": "Bot" }), &json!({ "check_run": run }));
        payload["repository"]["full_name"] = json!("Ada/Shop");
        let told = listener().translate("check_run", payload.to_string().as_bytes()).unwrap().unwrap();
        let What::CheckFailed { pulls, .. } = told.what else { panic!("{told:?}") };
        assert_eq!(pulls, [Checked { number: 7, url: "https://github.com/Ada/Shop/pull/7".to_owned() }]);
        assert_eq!(told.repository, "https://github.com/ada/shop");
    }

    #[test]
    fn programs_are_not_answered() {
        let (ada, bot) =
            (json!({ "login": "ada", "type": "User" }), json!({ "login": "dependabot[bot]", "type": "Bot" }));
        let us = json!({ "login": "harvest", "type": "User" });
        let issue = json!({ "number": 7, "html_url": "https://github.com/ada/shop/issues/7", "title": "T", "body": null,
            "user": { "login": "ada" } });
        let labelled = json!({ "issue": issue, "label": { "name": "Harvest" } });
        let told = |sender| listener().understand("issues", &event("labeled", sender, &labelled));
        assert!(matches!(told(&ada), Some(Happening { at: None, what: What::Asked { .. }, .. })));
        assert_eq!((told(&bot), told(&us)), (None, None));
        let other = json!({ "issue": issue, "label": { "name": "bug" } });
        assert_eq!(listener().understand("issues", &event("labeled", &ada, &other)), None);
    }

    #[test]
    fn the_moment_of_an_event_is_what_github_says_of_it() {
        let second = |second| Some(Timestamp::from_second(second).unwrap());
        let text = "2026-01-02T03:04:05Z";
        for (event, payload, expected) in [
            ("issues", json!({ "issue": { "updated_at": text } }), second(1_767_323_045)),
            ("issue_comment", json!({ "comment": { "created_at": text } }), second(1_767_323_045)),
            ("pull_request", json!({ "pull_request": { "updated_at": text } }), second(1_767_323_045)),
            ("pull_request_review", json!({ "review": { "submitted_at": text } }), second(1_767_323_045)),
            ("check_run", json!({ "check_run": { "completed_at": text } }), second(1_767_323_045)),
            ("push", json!({ "repository": { "pushed_at": 1_767_323_045 } }), second(1_767_323_045)),
            ("issues", json!({ "issue": { "updated_at": "yesterday" } }), None),
            ("issues", json!({}), None),
        ] {
            assert_eq!(moment(event, &payload), expected, "{event}: {payload}");
        }
    }
}
