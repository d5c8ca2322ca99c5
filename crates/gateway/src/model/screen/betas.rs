//! Headers that switch on features a vendor still tries out. Only known ones pass: a feature may be a way out.

use hyper::header::{HeaderMap, HeaderValue};

use super::ServerTools;

/// Betas of Anthropic's, without their dates, and what must be open for them.
const ANTHROPIC: &[(&str, Option<&str>)] = &[
    ("adaptive-thinking", None),
    ("advanced-tool-use", None),
    ("afk-mode", None),
    ("cache-diagnosis", None),
    ("claude-code", None),
    ("compact", None),
    ("computer-use", None),
    ("context-1m", None),
    ("context-management", None),
    ("dev-full-thinking", None),
    ("effort", None),
    ("extended-cache-ttl", None),
    // `speed`, which it allows, has to have a price.
    ("fast-mode", None),
    ("fine-grained-tool-streaming", None),
    ("interleaved-thinking", None),
    ("max-tokens-3-5-sonnet", None),
    ("model-context-window-exceeded", None),
    ("oauth", None),
    ("output-128k", None),
    ("output-300k", None),
    ("pdfs", None),
    ("prompt-caching", None),
    ("prompt-caching-scope", None),
    ("redact-thinking", None),
    ("search-results", None),
    ("structured-outputs", None),
    ("task-budgets", None),
    ("thinking-token-count", None),
    ("token-counting", None),
    ("token-efficient-tools", None),
    ("tool-examples", None),
    ("tool-search-tool", None),
    ("web-search", Some("web_search")),
    ("web-fetch", Some("web_fetch")),
    ("code-execution", Some("code_execution")),
    ("skills", Some("code_execution")),
    ("mcp-client", Some("mcp")),
    ("files-api", Some("stored_files")),
    ("advisor-tool", Some("advisor")),
];

/// Takes the unknown and the closed ones out of the headers.
pub(in super::super) fn keep_known_betas(headers: &mut HeaderMap, policy: &ServerTools) {
    keep(headers, "anthropic-beta", |beta| {
        let known = ANTHROPIC.iter().find(|(name, _)| *name == undated(beta));
        known.is_some_and(|(_, needed)| needed.is_none_or(|needed| policy.open(needed)))
    });
    keep(headers, "openai-beta", |beta| matches!(beta, "responses=experimental" | "responses=v1"));
}

fn keep(headers: &mut HeaderMap, name: &'static str, is_known: impl Fn(&str) -> bool) {
    if !headers.contains_key(name) {
        return;
    }
    let sent: Vec<String> =
        headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).map(str::to_owned).collect();
    let kept: Vec<&str> =
        sent.iter().flat_map(|value| value.split(',')).map(str::trim).filter(|beta| is_known(beta)).collect();
    headers.remove(name);
    if !kept.is_empty()
        && let Ok(value) = HeaderValue::try_from(kept.join(","))
    {
        headers.insert(name, value);
    }
}

/// `context-1m-2025-08-07` and `claude-code-20250219` without their dates.
fn undated(beta: &str) -> &str {
    let digits = |text: &str, count: usize| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = beta.rsplitn(4, '-');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(day), Some(month), Some(year), Some(name)) if digits(day, 2) && digits(month, 2) && digits(year, 4) => {
            name
        }
        (Some(date), _, _, _) if digits(date, 8) => {
            beta.strip_suffix(date).map_or(beta, |name| name.trim_end_matches('-'))
        }
        _ => beta,
    }
}
