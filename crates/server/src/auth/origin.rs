//! Which pages may speak to this server, and under which names it may be spoken to.
//!
//! A page that someone visits can make their browser send requests here, and can give its own name an address of this machine.
//! Both show: the first in `Origin`, the second in `Host`.

use std::net::SocketAddr;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Uri, header};
use axum::middleware::Next;
use axum::response::Response;
use harvest_core::Code;

use crate::Error;
use crate::problem::Problem;
use crate::state::App;

#[derive(Debug, Clone)]
pub struct Origins {
    /// `host:port` as clients write it.
    hosts: Vec<String>,
    origins: Vec<String>,
    public: Option<String>,
}

impl Origins {
    pub fn new(listen: SocketAddr, public_url: Option<&str>) -> Result<Self, Error> {
        if !listen.ip().is_loopback() && public_url.is_none() {
            return Err(Error::UnsafeAddress { address: listen });
        }
        let port = listen.port();
        let mut hosts: Vec<String> =
            ["127.0.0.1", "localhost", "[::1]"].iter().map(|name| format!("{name}:{port}")).collect();
        if !hosts.contains(&listen.to_string()) {
            hosts.push(listen.to_string());
        }
        let mut origins: Vec<String> = hosts.iter().map(|host| format!("http://{host}")).collect();
        let public = public_url.map(origin_of).transpose()?;
        if let Some(origin) = &public {
            let host = origin.split_once("://").map_or("", |(_, host)| host);
            hosts.push(host.to_owned());
            origins.push(origin.clone());
        }
        Ok(Self { hosts, origins, public })
    }

    /// Where people reach this server.
    pub fn address(&self) -> &str {
        self.public.as_deref().unwrap_or(&self.origins[0])
    }

    pub fn is_tls(&self) -> bool {
        self.public.as_deref().is_some_and(|origin| origin.starts_with("https://"))
    }

    fn check(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("\u{fffd}"));
        if let Some(host) = text(header::HOST)
            && !self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
        {
            let help = "use the address that `harvest serve` printed, or name this one with --public-url";
            let detail = format!("this server is not called `{}`", host.escape_debug());
            return Err(Problem::new(Code::Forged, detail).about("Host").help(help));
        }
        if let Some(origin) = text(header::ORIGIN)
            && !self.origins.iter().any(|known| known == origin)
        {
            let detail = format!("pages of `{}` may not speak to this server", origin.escape_debug());
            let help = "open Harvest's own page, or name its address with --public-url";
            return Err(Problem::new(Code::Forged, detail).about("Origin").help(help));
        }
        Ok(())
    }
}

/// In front of everything that browsers reach.
pub async fn strict(State(app): State<App>, request: Request, next: Next) -> Result<Response, Problem> {
    app.origins.check(request.headers())?;
    Ok(next.run(request).await)
}

/// `https://harvest.example.com`, as a browser writes it in `Origin`.
pub fn origin_of(url: &str) -> Result<String, Error> {
    let refuse = |why| Error::BadPublicUrl { url: url.to_owned(), why };
    let uri: Uri = url.trim_end_matches('/').parse().map_err(|_| refuse("it is not a URL"))?;
    let scheme = uri.scheme_str().filter(|scheme| ["http", "https"].contains(scheme));
    let scheme = scheme.ok_or_else(|| refuse("it does not begin with https://"))?;
    let authority = uri.authority().ok_or_else(|| refuse("it names no host"))?;
    if authority.as_str().contains('@') {
        return Err(refuse("it holds a password"));
    }
    if uri.path() != "/" && !uri.path().is_empty() || uri.query().is_some() {
        return Err(refuse("Harvest has to be at the root of its host"));
    }
    let default = if scheme == "https" { ":443" } else { ":80" };
    let authority = authority.as_str().to_ascii_lowercase();
    Ok(format!("{scheme}://{}", authority.strip_suffix(default).unwrap_or(&authority)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &str, origin: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        headers
    }

    #[test]
    fn only_its_own_names_and_pages() {
        let own = Origins::new("127.0.0.1:7070".parse().unwrap(), Some("https://Harvest.example.com/")).unwrap();
        assert_eq!((own.address(), own.is_tls()), ("https://harvest.example.com", true));
        for (host, origin) in [
            ("127.0.0.1:7070", None),
            ("localhost:7070", Some("http://localhost:7070")),
            ("LOCALHOST:7070", None),
            ("harvest.example.com", Some("https://harvest.example.com")),
        ] {
            assert!(own.check(&headers(host, origin)).is_ok(), "{host} {origin:?}");
        }
        for (host, origin) in [
            ("evil.example:7070", None),
            ("127.0.0.1", None),
            ("127.0.0.1:7070.evil.example", None),
            ("127.0.0.1:7070", Some("null")),
            ("127.0.0.1:7070", Some("http://127.0.0.1:7071")),
            ("127.0.0.1:7070", Some("https://127.0.0.1:7070")),
            ("127.0.0.1:7070", Some("https://harvest.example.com.evil.example")),
        ] {
            assert!(own.check(&headers(host, origin)).is_err(), "{host} {origin:?}");
        }
    }

    #[test]
    fn outside_only_behind_a_name() {
        let open: SocketAddr = "0.0.0.0:7070".parse().unwrap();
        assert!(matches!(Origins::new(open, None), Err(Error::UnsafeAddress { .. })));
        assert!(Origins::new(open, Some("https://harvest.example.com")).is_ok());
        for bad in ["harvest.example.com", "ftp://x", "https://a@b", "https://x/path", "https://x?q", ""] {
            assert!(Origins::new(open, Some(bad)).is_err(), "{bad}");
        }
    }
}
