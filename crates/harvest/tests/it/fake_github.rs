//! The few endpoints of GitHub that sign people in, with GitHub's own rules: codes and refresh tokens work once, the verifier
//! has to fit the challenge, trouble with a grant is told with status 200.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::http::{Asked, Reply, host};

pub const CLIENT_ID: &str = "Iv1.0123456789abcdef";
pub const CLIENT_SECRET: &str = "0123456789abcdef0123456789abcdef01234567";

#[derive(Default)]
struct Books {
    /// Who is at the keyboard.
    login: String,
    account: u64,
    /// `/user/memberships/orgs/fruit` and the like, with the state of the membership.
    memberships: HashMap<String, &'static str>,
    /// Seconds that tokens live; none: for ever.
    expires_in: Option<u64>,
    /// The code, its challenge and where it may be used.
    codes: HashMap<String, (String, String)>,
    /// Valid tokens and whose they are.
    tokens: HashMap<String, String>,
    refresh: HashMap<String, String>,
    made: u64,
    asked: Vec<String>,
    /// Everyone asks too often.
    busy: bool,
}

#[derive(Clone)]
pub struct FakeGithub {
    pub url: String,
    books: Arc<Mutex<Books>>,
}

impl FakeGithub {
    pub fn start() -> Self {
        let books = Arc::new(Mutex::new(Books { login: "Ada".into(), account: 7, ..Books::default() }));
        let own = books.clone();
        let url = host(move |asked| {
            let fields = form(if asked.method == "POST" { str::from_utf8(&asked.body).unwrap() } else { &asked.query });
            let mut books = own.lock().unwrap();
            let (status, location, body) = answer(&mut books, &asked, &fields);
            Reply { status, location, body }
        });
        Self { url, books }
    }

    pub fn person(&self, login: &str, account: u64) {
        let mut books = self.books.lock().unwrap();
        (books.login, books.account) = (login.to_owned(), account);
    }

    pub fn member(&self, path: &str, state: &'static str) {
        self.books.lock().unwrap().memberships.insert(path.to_owned(), state);
    }

    pub fn no_member(&self, path: &str) {
        self.books.lock().unwrap().memberships.remove(path);
    }

    pub fn tokens_live(&self, seconds: u64) {
        self.books.lock().unwrap().expires_in = Some(seconds);
    }

    pub fn is_busy(&self, busy: bool) {
        self.books.lock().unwrap().busy = busy;
    }

    /// Every access token dies, as if its time had come.
    pub fn expire_tokens(&self) {
        self.books.lock().unwrap().tokens.clear();
    }

    pub fn asked(&self) -> Vec<String> {
        self.books.lock().unwrap().asked.clone()
    }
}

fn answer(books: &mut Books, asked: &Asked, fields: &HashMap<String, String>) -> (u16, Option<String>, Value) {
    let (method, path, headers) = (asked.method.as_str(), asked.path.as_str(), &asked.headers);
    books.asked.push(format!("{method} {path}"));
    let field = |name: &str| fields.get(name).cloned().unwrap_or_default();
    match (method, path) {
        ("GET", "/login/oauth/authorize") => {
            assert_eq!((field("client_id").as_str(), field("code_challenge_method").as_str()), (CLIENT_ID, "S256"));
            books.made += 1;
            let code = format!("code{}", books.made);
            books.codes.insert(code.clone(), (field("code_challenge"), field("redirect_uri")));
            (302, Some(format!("{}?code={code}&state={}", field("redirect_uri"), field("state"))), json!({}))
        }
        ("POST", "/login/oauth/access_token") => (200, None, grant(books, &field)),
        ("GET", _) => {
            if books.busy {
                return (403, None, json!({ "message": "You have exceeded a secondary rate limit." }));
            }
            let path = path.strip_prefix("/api/v3").unwrap_or("/nothing");
            let token = headers.get("authorization").and_then(|value| value.strip_prefix("Bearer "));
            let Some(login) = token.and_then(|token| books.tokens.get(token)) else {
                return (401, None, json!({ "message": "Bad credentials" }));
            };
            match (path, books.memberships.get(path)) {
                ("/user", _) => (200, None, json!({ "login": login, "id": books.account })),
                (_, Some(state)) => (200, None, json!({ "state": state, "role": "member" })),
                _ => (404, None, json!({ "message": "Not Found" })),
            }
        }
        _ => (404, None, json!({ "message": "Not Found" })),
    }
}

fn grant(books: &mut Books, field: &dyn Fn(&str) -> String) -> Value {
    let refuse = |error: &str| json!({ "error": error, "error_description": format!("{error} it is") });
    if (field("client_id").as_str(), field("client_secret").as_str()) != (CLIENT_ID, CLIENT_SECRET) {
        return refuse("incorrect_client_credentials");
    }
    let login = if field("grant_type") == "refresh_token" {
        match books.refresh.remove(&field("refresh_token")) {
            Some(login) => login,
            None => return refuse("bad_refresh_token"),
        }
    } else {
        let Some((challenge, redirect)) = books.codes.remove(&field("code")) else {
            return refuse("bad_verification_code");
        };
        let answered = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(field("code_verifier").as_bytes()));
        if answered != challenge || field("redirect_uri") != redirect {
            return refuse("bad_verification_code");
        }
        books.login.clone()
    };
    books.made += 1;
    let (access, refresh) = (format!("ghu_access{}", books.made), format!("ghr_refresh{}", books.made));
    books.tokens.insert(access.clone(), login.clone());
    let mut granted = json!({ "access_token": access, "token_type": "bearer", "scope": "" });
    if let Some(seconds) = books.expires_in {
        books.refresh.insert(refresh.clone(), login);
        granted["expires_in"] = seconds.into();
        granted["refresh_token"] = refresh.into();
        granted["refresh_token_expires_in"] = 15_897_600.into();
    }
    granted
}

pub fn form(text: &str) -> HashMap<String, String> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), unescape(value))).collect()
}

fn unescape(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next().unwrap(), rest.next().unwrap()];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).unwrap()
}
