//! The cookie of a browser that is signed in.

use axum::http::{HeaderMap, HeaderValue, header};

/// How it is called and sealed off. Browsers give one cookie to all ports of a host, so each server has its own name.
#[derive(Debug, Clone)]
pub struct Cookie {
    name: String,
    secure: bool,
}

impl Cookie {
    pub fn new(port: u16, over_tls: bool) -> Self {
        // With this prefix a browser takes it over TLS alone, for this host and all of its paths.
        let name = if over_tls { "__Host-harvest".to_owned() } else { format!("harvest_{port}") };
        Self { name, secure: over_tls }
    }

    /// What a browser holds while it is at GitHub.
    pub fn for_an_errand(port: u16, over_tls: bool) -> Self {
        let Self { name, secure } = Self::new(port, over_tls);
        Self { name: format!("{name}_errand"), secure }
    }

    pub fn find(&self, headers: &HeaderMap) -> Option<String> {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| *name == self.name).map(|(_, value)| value.to_owned())
    }

    pub fn set(&self, secret: &str, seconds: i64) -> Option<HeaderValue> {
        let secure = if self.secure { "; Secure" } else { "" };
        let value = format!("{}={secret}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}", self.name);
        HeaderValue::from_str(&value).ok()
    }

    pub fn remove(&self) -> Option<HeaderValue> {
        self.set("", 0)
    }
}
