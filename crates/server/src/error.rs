use std::net::SocketAddr;

use harvest_core::Code;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{address} would be open to the network without TLS or sign-in")]
    UnsafeAddress { address: SocketAddr },
    #[error("{address} can be reached from outside, and people could not sign in")]
    NobodySignsIn { address: SocketAddr },
    #[error("the public address `{url}` cannot be used: {why}")]
    BadPublicUrl { url: String, why: &'static str },
    #[error("cannot listen on {address}")]
    CannotListen { address: SocketAddr, source: std::io::Error },
    #[error("anyone with an account at GitHub could sign in")]
    OpenToEveryone,
    #[error("`{team}` is not a team")]
    BadTeam { team: String },
    #[error("`{url}` is not the URL of a GitHub server")]
    BadGithubUrl { url: String },
    #[error("the system's random source is unavailable")]
    NoRandomness,
    #[error(transparent)]
    Store(#[from] harvest_store::Error),
}

impl Error {
    pub fn code(&self) -> Code {
        match self {
            Self::UnsafeAddress { .. } | Self::NobodySignsIn { .. } => Code::UnsafeAddress,
            Self::BadPublicUrl { .. } => Code::BadOption,
            Self::OpenToEveryone | Self::BadTeam { .. } | Self::BadGithubUrl { .. } => Code::BadConfig,
            Self::CannotListen { .. } => Code::CannotListen,
            Self::NoRandomness => Code::Internal,
            Self::Store(error) => error.code(),
        }
    }

    /// What a person can do about it.
    pub fn help(&self) -> Option<&'static str> {
        match self {
            Self::UnsafeAddress { .. } => {
                Some("listen on 127.0.0.1, or, behind a proxy with TLS, name its address: --public-url https://…")
            }
            Self::NobodySignsIn { .. } => {
                Some("set up sign-in with GitHub, [sign_in] in harvest.toml; if tokens are enough: --tokens-only")
            }
            Self::BadPublicUrl { .. } => Some("write it like https://harvest.example.com, without a path"),
            Self::CannotListen { .. } => Some("choose another address: --listen 127.0.0.1:7071"),
            Self::OpenToEveryone => {
                Some("name who can sign in: organizations, teams or admins in [sign_in] of harvest.toml")
            }
            Self::BadTeam { .. } => Some("write it as organization/team, with the team's short name"),
            Self::BadGithubUrl { .. } => Some("write it like https://github.com or https://git.example.com"),
            Self::NoRandomness | Self::Store(_) => None,
        }
    }
}
