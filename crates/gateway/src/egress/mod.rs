//! The way to other hosts: an HTTP proxy on the session's socket that allows what the session's [`Policy`] lists.
//!
//! A request passes when, in this order, its host is a plain name ([`HostName`]), the policy allows it, every address of
//! the name is public, and, for `CONNECT`, the TLS ClientHello names the same host. The connection goes to an address that
//! was judged, never to a second look-up. Each decision is told to the session's [`Recorder`].

mod address;
mod forward;
mod hello;
mod host;
mod ledger;
mod policy;
mod tunnel;

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::HOST;
use hyper::{Method, Request, Response, StatusCode};

pub use address::{AddressCheck, Network, Resolver, SystemResolver, not_public};
pub(crate) use address::{Names, Unreachable};
pub use host::{BadHost, HostName};
pub(crate) use ledger::Ledger;
pub use ledger::{Record, Recorder};
pub use policy::{BadRule, Policy, Rule};
pub(crate) use tunnel::Tunnel;

use crate::answer::{self, Body};
use crate::service::Context;

/// What a session may reach, and who is told about it.
#[derive(Debug, Clone)]
pub struct Access {
    pub policy: Policy,
    /// Whether packages can be had.
    pub registries: bool,
    pub recorder: Arc<dyn Recorder>,
}

impl Access {
    /// No host but the package registries, and nobody is told.
    pub fn none() -> Self {
        Self { policy: Policy::default(), registries: true, recorder: Arc::new(Nobody) }
    }
}

#[derive(Debug)]
struct Nobody;

#[async_trait::async_trait]
impl Recorder for Nobody {
    async fn record(&self, _record: Record) {}
}

/// Whether a request is meant for a proxy rather than for the gateway itself.
pub(crate) fn is_for_a_proxy<B>(request: &Request<B>) -> bool {
    request.method() == Method::CONNECT || request.uri().scheme().is_some() || request.uri().authority().is_some()
}

/// Answers a request to the proxy. An admitted `CONNECT` comes with the tunnel to be run after the answer.
pub(crate) async fn handle(
    mut request: Request<Incoming>,
    network: &Network,
    context: &Context,
) -> (Response<Body>, Option<Tunnel>) {
    let asked = request.uri().authority().map(|authority| authority.as_str().to_owned()).unwrap_or_default();
    let (host, port) = match target(&request, &asked) {
        Ok(target) => target,
        Err(reason) => return (refuse(context, &asked, 0, reason).await, None),
    };
    if !context.session.egress.policy.allows(&host, port) {
        let reason = "it is not on the list of allowed hosts".to_owned();
        return (refuse(context, host.as_str(), port, reason).await, None);
    }
    let upstream = match network.connect(&host, port).await {
        Ok(upstream) => upstream,
        Err(error @ Unreachable::Forbidden { .. }) => {
            return (refuse(context, host.as_str(), port, error.to_string()).await, None);
        }
        Err(error) => {
            let message = format!("{host}:{port} cannot be reached: {error}");
            return (answer::text(StatusCode::BAD_GATEWAY, message), None);
        }
    };
    let traffic = context.ledger.allowed(host.as_str(), port).await;
    if request.method() == Method::CONNECT {
        let client = hyper::upgrade::on(&mut request);
        let tunnel = Tunnel { client, upstream, host, port, traffic };
        (Response::new(answer::full("")), Some(tunnel))
    } else {
        (forward::forward(request, upstream, (&host, port), traffic, context).await, None)
    }
}

/// Where a request wants to go, said once and clearly.
fn target<B>(request: &Request<B>, asked: &str) -> Result<(HostName, u16), String> {
    let read = |text: &str, default| host::authority(text, default).map_err(|error| error.to_string());
    if request.method() == Method::CONNECT {
        let bare = request.uri().scheme().is_none() && request.uri().path_and_query().is_none();
        return if bare { read(asked, None) } else { Err("CONNECT takes a host and a port, nothing else".to_owned()) };
    }
    if request.uri().scheme_str() != Some("http") {
        return Err("only http:// is forwarded; for https:// use CONNECT".to_owned());
    }
    let target = read(asked, Some(80))?;
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next().map(|host| host.to_str()), hosts.next()) {
        (Some(Ok(host)), None) if read(host, Some(80)) == Ok(target.clone()) => Ok(target),
        _ => Err("the Host header and the address differ".to_owned()),
    }
}

async fn refuse(context: &Context, host: &str, port: u16, reason: String) -> Response<Body> {
    let named = if port == 0 { host.to_owned() } else { format!("{host}:{port}") };
    let message = format!(
        "{} may not be reached from this sandbox: {reason}. The operator can allow hosts in harvest.toml under \
         [egress]; packages come from the registries at /registry/.",
        named.escape_debug()
    );
    context.ledger.refused(host, port, reason).await;
    answer::text(StatusCode::FORBIDDEN, message)
}
