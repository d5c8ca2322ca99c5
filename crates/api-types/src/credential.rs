//! Credentials. A secret is part of requests alone.

use std::fmt;

use harvest_core::{Credential, Scope};
use serde::{Deserialize, Serialize};

/// A credential to add. Members may add their own; those of teams and projects require an admin.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewCredential {
    /// The vendor that the credential is for.
    pub provider: ModelProvider,
    /// The owner; default: you.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// The name; default: `default`. Credentials with other names are fallbacks, used when that one is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 64))]
    pub name: Option<String>,
    /// Another host with the same wire format; only for admins of the installation. For a credential of a project, the
    /// host must have a public address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The secret itself. It cannot be read again.
    #[cfg_attr(feature = "schema", schema(max_length = 16384, write_only))]
    pub secret: String,
}

impl fmt::Debug for NewCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewCredential").field("provider", &self.provider).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ModelProvider {
    Anthropic,
    Openai,
    Gemini,
    Ollama,
    /// The account that repositories on GitHub are reached with; for admins of the whole installation.
    Github,
    /// For MCP servers whose settings name this credential.
    Mcp,
}

impl ModelProvider {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Openai => "openai",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
            Self::Github => "github",
            Self::Mcp => "mcp",
        }
    }
}

/// A new secret for a credential.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewSecret {
    /// The new secret. It cannot be read again.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 16384, write_only))]
    pub secret: String,
}

impl fmt::Debug for NewSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NewSecret(…)")
    }
}

/// A credential in a list.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ListedCredential {
    #[serde(flatten)]
    pub credential: Credential,
    /// Whether its secret can be read with the server's master key.
    pub usable: bool,
}
