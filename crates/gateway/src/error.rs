//! What can go wrong while a gateway is set up. Failures of a single request are answered to the client instead.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("there is no provider `{provider}`; there are anthropic, openai, gemini and ollama")]
    UnknownProvider { provider: String },
    #[error("the address of the {vendor} upstream, `{url}`, cannot be used: {reason}")]
    BadUpstream { vendor: &'static str, url: String, reason: String },
    #[error("the {vendor} key cannot be sent in a header: it holds a control character or one outside ASCII")]
    BadKey { vendor: &'static str },
    #[error("the certificates in {} cannot be used: {reason}", path.display())]
    BadCertificates { path: PathBuf, reason: String },
    #[error("no trusted certificates for TLS; install the system's CA certificates (package `ca-certificates`)")]
    Certificates(#[source] rustls::Error),
    #[error("the HTTP client could not be set up")]
    Client(#[source] reqwest::Error),
}
