//! Tokens for programs. The token itself is part of one answer, that to its creation.

use harvest_core::{Role, Timestamp, TokenId};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Token {
    pub id: TokenId,
    pub name: String,
    pub user: String,
    pub role: Role,
    /// The projects that it is limited to; absent: no limit.
    pub projects: Option<Vec<String>>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    pub last_used_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NewToken {
    #[serde(flatten)]
    pub token: Token,
    /// The token itself. It is shown only once.
    #[serde(rename = "token")]
    #[cfg_attr(feature = "schema", schema(example = "hv_0123456789abcdefghjkmnpqrstvwxyz0123456789abcdefghjk"))]
    pub secret: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AskToken {
    /// The purpose of the token.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 200))]
    pub name: String,
    pub role: Role,
    /// The user it acts for; default: you.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 200))]
    pub user: Option<String>,
    /// The projects that it is limited to; default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(max_items = 100))]
    pub projects: Option<Vec<String>>,
    /// Days until it expires; default: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 3650))]
    pub expires_in_days: Option<u64>,
}
