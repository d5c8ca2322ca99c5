//! The one branch a session may write: `harvest/<slug>-<short id>`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::SessionId;

const MAX_SLUG: usize = 40;

/// The session's own branch, without `refs/heads/`; always a valid ref name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct BranchName(String);

impl BranchName {
    pub fn for_session(prompt: &str, session: &SessionId) -> Self {
        Self(format!("harvest/{}-{}", slug(prompt), session.short()))
    }

    /// Where the plan of a session is shown before it is carried out.
    pub fn for_plan(prompt: &str, session: &SessionId) -> Self {
        Self(format!("harvest/plan-{}-{}", slug(prompt), session.short()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn as_ref_name(&self) -> String {
        format!("refs/heads/{}", self.0)
    }
}

impl fmt::Display for BranchName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A few plain words of `text`, fit for a ref name: lower-case ASCII letters, digits and single dashes; never empty.
pub fn slug(text: &str) -> String {
    let mut slug = String::new();
    for word in text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        if slug.len() + 1 + word.len() > MAX_SLUG {
            break;
        }
        if !slug.is_empty() {
            slug.push('-');
        }
        slug.push_str(&word.to_ascii_lowercase());
    }
    if slug.is_empty() { "task".to_owned() } else { slug }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn slugs_read_like_the_prompt() {
        assert_eq!(slug("Make the failing test pass!"), "make-the-failing-test-pass");
        assert_eq!(slug("../..//.lock\n--upload-pack=x"), "lock-upload-pack-x");
        assert_eq!(slug("日本語"), "task");
    }

    proptest! {
        #[test]
        fn slugs_are_always_safe_ref_components(text: String) {
            let slug = slug(&text);
            prop_assert!(!slug.is_empty() && slug.len() <= MAX_SLUG);
            prop_assert!(slug.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
            prop_assert!(!slug.starts_with('-') && !slug.ends_with('-') && !slug.contains("--"));
        }
    }
}
