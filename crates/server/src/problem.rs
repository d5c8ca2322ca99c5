//! What went wrong, as `application/problem+json`: the code to look up, the field it is about and the way out.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use harvest_core::Code;
use harvest_engine::{KeyInName, USE_A_PLAIN_NAME};
use harvest_store::QuotaExceeded;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::desk::Refusal;

pub const CONTENT_TYPE: &str = "application/problem+json";

#[derive(Debug, Clone)]
pub struct Problem {
    code: Code,
    status: StatusCode,
    detail: String,
    field: Option<String>,
    help: Option<String>,
    retry_after: Option<u64>,
}

impl PartialSchema for Problem {
    fn schema() -> RefOr<Schema> {
        harvest_api_types::Problem::schema()
    }
}

impl ToSchema for Problem {}

impl Problem {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, status: status(code), detail: detail.into(), field: None, help: None, retry_after: None }
    }

    pub fn bad(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(Code::BadRequest, detail).about(field).help("compare it with /api/docs")
    }

    pub fn is(&self, code: Code) -> bool {
        self.code == code
    }

    pub fn about(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Nothing that the one who asks could have caused; what it was is for the log alone.
    pub fn internal(error: &dyn std::error::Error) -> Self {
        let mut causes = vec![error.to_string()];
        let mut cause = error.source();
        while let Some(error) = cause {
            causes.push(error.to_string());
            cause = error.source();
        }
        tracing::error!(error = causes.join(": "), "a request failed");
        Self::new(Code::Internal, "the server failed; its log has the reason").help("try again, or check the log")
    }
}

/// What a code means to a program that only looks at the status.
fn status(code: Code) -> StatusCode {
    match code {
        Code::NotSignedIn => StatusCode::UNAUTHORIZED,
        Code::NotAllowed | Code::Forged => StatusCode::FORBIDDEN,
        Code::UnknownTask
        | Code::UnknownSession
        | Code::UnknownSchedule
        | Code::UnknownTemplate
        | Code::UnknownRepository
        | Code::UnknownCredential
        | Code::UnknownToken
        | Code::UnknownProject
        | Code::UnknownMember
        | Code::UnknownAddress => StatusCode::NOT_FOUND,
        Code::TaskFinished
        | Code::NotRetryable
        | Code::NotAwaiting
        | Code::NotAtWork
        | Code::NotInterrupted
        | Code::CannotFork
        | Code::WorkRemoved
        | Code::NothingToApply
        | Code::KeyReused
        | Code::CredentialExists
        | Code::ProjectExists
        | Code::SessionBusy
        | Code::CannotApply
        | Code::CannotPropose => StatusCode::CONFLICT,
        Code::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Code::TooMany | Code::Quota => StatusCode::TOO_MANY_REQUESTS,
        Code::Outdated => StatusCode::PRECONDITION_FAILED,
        Code::SignInUnreachable => StatusCode::BAD_GATEWAY,
        Code::DatabaseUnreachable | Code::DiskFull | Code::Guard => StatusCode::SERVICE_UNAVAILABLE,
        Code::Internal | Code::Database | Code::DatabaseTooNew | Code::DataDirectory | Code::MasterKey => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
        _ => StatusCode::BAD_REQUEST,
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status;
        let document = harvest_api_types::Problem {
            kind: format!("urn:harvest:{}", self.code),
            title: self.code.title().to_owned(),
            status: status.as_u16(),
            detail: self.detail,
            code: self.code.as_str().to_owned(),
            field: self.field,
            help: self.help,
        };
        // What went wrong may repeat what was sent.
        let text = serde_json::to_string(&document).unwrap_or_default();
        let body = harvest_engine::redact(&text).into_owned();
        let mut response = (status, [(header::CONTENT_TYPE, CONTENT_TYPE)], body).into_response();
        if status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer realm=\"harvest\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let problem = Self::new(refusal.code, refusal.message);
        match refusal.help {
            Some(help) => problem.help(help),
            None => problem,
        }
    }
}

impl From<KeyInName> for Problem {
    fn from(KeyInName { field }: KeyInName) -> Self {
        Self::bad(field, "it contains a key; names are stored and visible to others").help(USE_A_PLAIN_NAME)
    }
}

impl From<harvest_store::Error> for Problem {
    fn from(error: harvest_store::Error) -> Self {
        let code = error.code();
        match error {
            harvest_store::Error::BadCursor(_) => Self::bad("cursor", error.to_string()),
            harvest_store::Error::IllegalMove(_) => {
                Self::new(code, error.to_string()).with_status(StatusCode::CONFLICT).help("look at its status first")
            }
            harvest_store::Error::Quota(exceeded) => over_quota(&exceeded),
            _ if status(code) == StatusCode::INTERNAL_SERVER_ERROR => Self::internal(&error),
            _ => Self::new(code, error.to_string()),
        }
    }
}

/// When a task that is under way may have ended.
const SOON: u64 = 30;

fn over_quota(exceeded: &QuotaExceeded) -> Problem {
    let problem = Problem::new(Code::Quota, exceeded.to_string());
    match exceeded {
        QuotaExceeded::Unfinished { .. } => {
            problem.retry_after(SOON).help("wait until one of them has ended, or cancel one")
        }
        QuotaExceeded::Begun { renewed_in_s, .. } | QuotaExceeded::Daily { renewed_in_s, .. } => {
            problem.retry_after(*renewed_in_s).help("wait until tomorrow (UTC), or ask an admin for more")
        }
    }
}

impl From<harvest_engine::Error> for Problem {
    fn from(error: harvest_engine::Error) -> Self {
        match error {
            harvest_engine::Error::Store(error) => error.into(),
            error if status(error.code()) == StatusCode::INTERNAL_SERVER_ERROR => Self::internal(&error),
            error => Self::new(error.code(), error.to_string()),
        }
    }
}

impl From<harvest_workspace::Error> for Problem {
    fn from(error: harvest_workspace::Error) -> Self {
        Self::internal(&error)
    }
}
