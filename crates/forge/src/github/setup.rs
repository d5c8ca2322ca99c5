//! Making an App for Harvest: GitHub is shown a manifest with just the permissions that are needed, and gives back the App's
//! secrets for a code.

use reqwest::Method;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Value, json};

use super::account::BadAccount;
use super::client::{Ask, Authority, Client};
use crate::Error;

/// What GitHub is asked for.
pub fn manifest(public_url: &str) -> Value {
    let url = public_url.trim_end_matches('/');
    json!({
        "name": "Harvest",
        "url": url,
        "hook_attributes": { "url": format!("{url}/webhooks/github"), "active": true },
        "redirect_url": format!("{url}/"),
        "public": false,
        "default_permissions": {
            "contents": "write", "pull_requests": "write", "issues": "write", "checks": "read", "actions": "read",
            "metadata": "read",
        },
        "default_events": ["issues", "issue_comment", "pull_request", "pull_request_review", "check_run", "push"],
    })
}

/// A page that sends the manifest to GitHub. GitHub takes it from a form and from nothing else.
pub fn page(web: &str, organisation: Option<&str>, public_url: &str) -> String {
    let path = organisation
        .map_or_else(|| "settings/apps/new".to_owned(), |name| format!("organizations/{name}/settings/apps/new"));
    let escaped =
        |text: &str| text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;");
    format!(
        "<!doctype html>\n<title>An App for Harvest</title>\n<form action=\"{}\" method=\"post\">\n\
         <input type=\"hidden\" name=\"manifest\" value=\"{}\">\n<button>Create the App on GitHub</button>\n</form>\n",
        escaped(&format!("{web}/{path}")),
        escaped(&manifest(public_url).to_string())
    )
}

/// An App that was just made.
#[derive(Debug)]
pub struct NewApp {
    /// Where it is installed from.
    pub url: String,
    /// Whom people speak to.
    pub login: String,
    /// As the vault keeps it.
    pub secret: SecretString,
}

impl Client {
    /// The App that was made under a code. GitHub gives it out once, and within an hour.
    pub async fn convert(&self, code: &str) -> Result<NewApp, Error> {
        #[derive(Deserialize)]
        struct Made {
            id: u64,
            slug: String,
            html_url: String,
            pem: String,
            webhook_secret: Option<String>,
        }
        let plain = !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        if !plain {
            return Err(BadAccount("the code is made of letters and digits").into());
        }
        let path = format!("/app-manifests/{code}/conversions");
        let ask = Ask { method: Method::POST, path, body: None, authority: Authority::Nobody };
        let made: Made = self.must(&ask).await?.read()?;
        let secret = json!({ "app_id": made.id, "private_key": made.pem, "webhook_secret": made.webhook_secret });
        Ok(NewApp { url: made.html_url, login: made.slug, secret: SecretString::from(secret.to_string()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_asks_for_just_what_is_needed_and_cannot_be_broken_out_of() {
        let page = page("https://github.com", Some("fruit"), "https://h.example/\"><script>");
        assert!(page.contains("https://github.com/organizations/fruit/settings/apps/new"), "{page}");
        assert!(!page.contains("<script>") && page.contains("&quot;contents&quot;:&quot;write&quot;"), "{page}");
        assert!(!page.contains("administration") && !page.contains("workflows"), "{page}");
    }
}
