//! `/auth/github` sends a browser to GitHub; `/auth/github/callback` is where it comes back to.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Redirect, Response};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use harvest_core::Code;
use harvest_store::TokenKind;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::kept;
use super::protocol::{Trouble, UserToken};
use super::{SignIn, Standing};
use crate::auth::login::welcome;
use crate::auth::secret::{Secret, same};
use crate::auth::{Cookie, Mint};
use crate::pages;
use crate::problem::Problem;
use crate::state::App;

/// How long a browser stays signed in; meanwhile it is asked again and again whether its person belongs.
const STAY: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Between leaving for GitHub and coming back.
const ABSENCE: i64 = 10 * 60;
const CALLBACK: &str = "/auth/github/callback";

#[derive(Debug, Deserialize)]
pub struct Returned {
    code: Option<String>,
    state: Option<String>,
    error: Option<String>,
    error_description: Option<String>,
}

/// What the browser holds while it is away: what it must bring back, and what proves that it is the one that left.
struct Errand {
    state: String,
    verifier: String,
}

/// `GET /auth/github`
pub async fn begin(State(app): State<App>) -> Result<Response, Problem> {
    let sign_in = configured(&app)?;
    let random = || Secret::generate("").map_err(|error| Problem::internal(&error));
    let (state, verifier) = (random()?, random()?);
    let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.reveal().as_bytes()));
    let address = sign_in.github.authorize(&sign_in.options.client_id, &redirect(&app), state.reveal(), &challenge);
    let mut response = Redirect::to(&address).into_response();
    let errand = format!("{}.{}", state.reveal(), verifier.reveal());
    set(&mut response, app.errand.set(&errand, ABSENCE));
    Ok(response)
}

/// Why someone is not signed in, as the page is told. It is a word of a closed list, since anyone can make an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    NotMember,
    AnotherAccount,
    /// GitHub was left early, or the browser did not leave from here.
    Incomplete,
    Failed,
}

/// A sign-in that did not succeed.
#[derive(Debug)]
struct NotEntered {
    why: Why,
    problem: Problem,
}

impl Why {
    fn word(self) -> &'static str {
        match self {
            Self::NotMember => "not_member",
            Self::AnotherAccount => "another_account",
            Self::Incomplete => "incomplete",
            Self::Failed => "failed",
        }
    }

    fn because(self, problem: Problem) -> NotEntered {
        NotEntered { why: self, problem }
    }
}

impl From<Problem> for NotEntered {
    fn from(problem: Problem) -> Self {
        Why::Failed.because(problem)
    }
}

/// `GET /auth/github/callback`: a person is told by the page why they are not signed in, a program by the problem.
pub async fn callback(State(app): State<App>, Query(returned): Query<Returned>, headers: HeaderMap) -> Response {
    let person = pages::wants_page(&headers);
    match come_back(&app, returned, &headers).await {
        Ok(response) => response,
        Err(NotEntered { why, .. }) if person => Redirect::to(&format!("/?sign_in={}", why.word())).into_response(),
        Err(NotEntered { problem, .. }) => problem.into_response(),
    }
}

async fn come_back(app: &App, returned: Returned, headers: &HeaderMap) -> Result<Response, NotEntered> {
    let sign_in = configured(app)?;
    let Ok(_place) = sign_in.places.try_acquire() else {
        let detail = "too many people sign in at this moment";
        return Err(Problem::new(Code::TooMany, detail).retry_after(5).help("try again in a few seconds").into());
    };
    let again = "begin again: /auth/github";
    let errand = Errand::of(&app.errand, headers)
        .filter(|errand| returned.state.as_deref().is_some_and(|state| same(state, &errand.state)));
    let Some(errand) = errand else {
        let detail = "this is not where your browser left for GitHub, or that was too long ago";
        return Err(Why::Incomplete.because(Problem::new(Code::Forged, detail).about("state").help(again)));
    };
    let Some(code) = returned.code else {
        let why = returned.error_description.or(returned.error).unwrap_or_else(|| "it sent no code".to_owned());
        let detail = format!("GitHub did not sign you in: {}", why.escape_debug());
        return Err(Why::Incomplete.because(Problem::new(Code::NotSignedIn, detail).help(again)));
    };
    let entered = enter(app, &sign_in, &code, &errand.verifier).await.map_err(|trouble| match trouble {
        Trouble::Refused(why) => {
            let detail = format!("GitHub did not sign you in: {}", why.escape_debug());
            Why::Incomplete.because(Problem::new(Code::NotSignedIn, detail).help(again))
        }
        Trouble::Vault(_) => Problem::internal(&trouble).into(),
        trouble => Problem::new(Code::SignInUnreachable, trouble.to_string()).help("try again in a moment").into(),
    })??;
    let mut response = entered;
    set(&mut response, app.errand.remove());
    Ok(response)
}

/// The inner answer is for the person, the outer trouble is GitHub's or the vault's.
async fn enter(
    app: &App,
    sign_in: &SignIn,
    code: &str,
    verifier: &str,
) -> Result<Result<Response, NotEntered>, Trouble> {
    let redirect = redirect(app);
    let fields = [
        ("client_id", sign_in.options.client_id.as_str()),
        ("client_secret", sign_in.options.client_secret.reveal()),
        ("code", code),
        ("redirect_uri", &redirect),
        ("code_verifier", verifier),
    ];
    let now = app.clock.now();
    let token = sign_in.github.grant(&fields, now).await?;
    let person = sign_in.github.person(&token.access_token).await?;
    let user = sign_in.github.name_of(&person);
    let Some(Standing { role, projects }) = sign_in.standing(&token.access_token, &person.login).await? else {
        let detail =
            format!("{} belongs to none of the organizations or teams that can sign in here", user.escape_debug());
        let help = "ask an admin of this server; if you belong to an organisation, let GitHub tell us";
        return Ok(Err(Why::NotMember.because(Problem::new(Code::NotAllowed, detail).help(help))));
    };
    let known = kept::read(app.desk.as_ref(), &user).await?;
    if known.as_ref().is_some_and(|known| !known.is_of(&person)) {
        let detail = format!("{} belonged to another account at the last sign-in", user.escape_debug());
        let help = "ask an admin of this server to remove the credential `sign-in` of that name";
        return Ok(Err(Why::AnotherAccount.because(Problem::new(Code::NotAllowed, detail).help(help))));
    }
    // An admin who removes what was kept lets another account have the name, and nothing else of whoever had it.
    if known.is_none() {
        sign_in.end_former(app, &user).await.map_err(|error| Trouble::Vault(error.to_string()))?;
    }
    kept::keep(app.desk.as_ref(), &user, &UserToken { account: person.id, ..token }).await?;
    let login = Mint { kind: TokenKind::Person, name: "GitHub".to_owned(), user, role, projects, life: Some(STAY) };
    Ok(welcome(app, login, "github").await.map_err(NotEntered::from))
}

impl Errand {
    fn of(cookie: &Cookie, headers: &HeaderMap) -> Option<Self> {
        let (state, verifier) = cookie.find(headers)?.split_once('.').map(|(a, b)| (a.to_owned(), b.to_owned()))?;
        Some(Self { state, verifier })
    }
}

fn configured(app: &App) -> Result<Arc<SignIn>, Problem> {
    app.sign_in.clone().ok_or_else(|| {
        let help = "set [sign_in] in harvest.toml, or use the link that `harvest token link` prints";
        Problem::new(Code::UnknownAddress, "signing in with GitHub is not set up on this server").help(help)
    })
}

fn redirect(app: &App) -> String {
    format!("{}{CALLBACK}", app.origins.address())
}

/// Beside those that are set already.
fn set(response: &mut Response, cookie: Option<HeaderValue>) {
    if let Some(cookie) = cookie {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
}
