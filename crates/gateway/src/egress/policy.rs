//! Which hosts a session may reach: a list of rules, and nothing else. An empty list allows nothing.

use std::fmt;
use std::str::FromStr;

use super::host::{BadHost, HostName};

/// The ports of a rule that names none.
const WEB: [u16; 2] = [80, 443];

/// What a session may reach through the proxy. The default allows nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    rules: Vec<Rule>,
}

/// One line of a policy: `example.com`, `*.example.com` (every name below it, not itself), or either with `:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    name: Name,
    ports: Ports,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    Exactly(HostName),
    Below(HostName),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ports {
    Web,
    Only(u16),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{rule}` is not a host: {reason}; write it like example.com, *.example.com or example.com:8443")]
pub struct BadRule {
    pub rule: String,
    pub reason: String,
}

impl Policy {
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        Self { rules: rules.into_iter().collect() }
    }

    pub fn parse<'a>(rules: impl IntoIterator<Item = &'a str>) -> Result<Self, BadRule> {
        rules.into_iter().map(str::parse).collect::<Result<Vec<Rule>, _>>().map(Self::new)
    }

    pub fn allows(&self, host: &HostName, port: u16) -> bool {
        self.rules.iter().any(|rule| rule.allows(host, port))
    }

    pub fn allows_nothing(&self) -> bool {
        self.rules.is_empty()
    }

    /// What both allow. Whoever may only narrow a policy is given this.
    pub fn intersection(&self, other: &Self) -> Self {
        let pairs = self.rules.iter().flat_map(|own| other.rules.iter().filter_map(|rule| own.intersection(rule)));
        let mut rules: Vec<Rule> = Vec::new();
        for rule in pairs {
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
        Self { rules }
    }

    /// Each rule as a person writes it.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.rules.iter().map(ToString::to_string)
    }
}

impl Rule {
    fn allows(&self, host: &HostName, port: u16) -> bool {
        self.ports.contain(port) && self.name.covers_host(host)
    }

    fn intersection(&self, other: &Self) -> Option<Self> {
        let name = match (&self.name, &other.name) {
            (wide, narrow) if wide.covers(narrow) => narrow.clone(),
            (narrow, wide) if wide.covers(narrow) => narrow.clone(),
            _ => return None,
        };
        let ports = match (self.ports, other.ports) {
            (same, other) if same == other => same,
            (Ports::Web, Ports::Only(port)) | (Ports::Only(port), Ports::Web) if Ports::Web.contain(port) => {
                Ports::Only(port)
            }
            _ => return None,
        };
        Some(Self { name, ports })
    }
}

impl Name {
    fn covers_host(&self, host: &HostName) -> bool {
        match self {
            Self::Exactly(name) => name == host,
            Self::Below(name) => is_below(host, name),
        }
    }

    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (own, Self::Exactly(host)) => own.covers_host(host),
            (Self::Below(own), Self::Below(name)) => own == name || is_below(name, own),
            (Self::Exactly(_), Self::Below(_)) => false,
        }
    }
}

fn is_below(host: &HostName, parent: &HostName) -> bool {
    host.as_str().strip_suffix(parent.as_str()).is_some_and(|front| front.len() > 1 && front.ends_with('.'))
}

impl Ports {
    fn contain(self, port: u16) -> bool {
        match self {
            Self::Web => WEB.contains(&port),
            Self::Only(only) => only == port,
        }
    }
}

impl FromStr for Rule {
    type Err = BadRule;

    fn from_str(text: &str) -> Result<Self, BadRule> {
        let bad = |reason: String| BadRule { rule: text.to_owned(), reason };
        let (name, below) = match text.strip_prefix("*.") {
            Some(parent) => (parent, true),
            None => (text, false),
        };
        let (name, ports) = match name.rsplit_once(':') {
            Some((name, port)) if !name.contains(':') => {
                let port = port.parse().ok().filter(|port| *port != 0);
                let port = port.ok_or_else(|| bad("its port is not a number between 1 and 65535".to_owned()))?;
                (name, Ports::Only(port))
            }
            _ => (name, Ports::Web),
        };
        let host = HostName::parse(&ascii(name)).map_err(|error: BadHost| bad(error.to_string()))?;
        Ok(Self { name: if below { Name::Below(host) } else { Name::Exactly(host) }, ports })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Name::Exactly(host) => write!(f, "{host}")?,
            Name::Below(host) => write!(f, "*.{host}")?,
        }
        match self.ports {
            Ports::Web => Ok(()),
            Ports::Only(port) => write!(f, ":{port}"),
        }
    }
}

/// People may write an international name as they read it; on the wire it is `xn--…`.
fn ascii(name: &str) -> String {
    let plain = name.chars().all(|c| c.is_ascii() || c.is_alphanumeric());
    let parsed = (plain && !name.is_ascii()).then(|| reqwest::Url::parse(&format!("http://{name}/")).ok()).flatten();
    parsed.and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(rules: &[&str]) -> Policy {
        Policy::parse(rules.iter().copied()).unwrap()
    }

    fn allows(rules: &[&str], host: &str, port: u16) -> bool {
        policy(rules).allows(&HostName::parse(host).unwrap(), port)
    }

    #[test]
    fn nothing_is_allowed_unless_it_is_listed() {
        assert!(Policy::default().allows_nothing());
        for (rules, host, port, expected) in [
            (&["example.com"][..], "example.com", 443, true),
            (&["example.com"], "EXAMPLE.com", 80, true),
            (&["example.com"], "example.com", 22, false),
            (&["example.com"], "www.example.com", 443, false),
            (&["example.com"], "notexample.com", 443, false),
            (&["example.com"], "example.com.evil.test", 443, false),
            (&["*.example.com"], "a.example.com", 443, true),
            (&["*.example.com"], "a.b.example.com", 443, true),
            (&["*.example.com"], "example.com", 443, false),
            (&["*.example.com"], "notexample.com", 443, false),
            (&["example.com:8443"], "example.com", 8443, true),
            (&["example.com:8443"], "example.com", 443, false),
            (&["*.Bücher.example"], "shop.xn--bcher-kva.example", 443, true),
            (&[], "example.com", 443, false),
        ] {
            assert_eq!(allows(rules, host, port), expected, "{rules:?} {host}:{port}");
        }
    }

    #[test]
    fn rules_that_cannot_be_meant_are_named() {
        for rule in [
            "",
            "*",
            "*.",
            "*.*.com",
            "a.*.com",
            "10.0.0.1",
            "[::1]",
            "http://a.com",
            "a.com/x",
            "a.com.",
            "a.com:0",
            "com",
        ] {
            let error = rule.parse::<Rule>().unwrap_err();
            assert_eq!(error.rule, rule);
        }
        let said = "10.0.0.1".parse::<Rule>().unwrap_err().to_string();
        assert_eq!(
            said,
            "`10.0.0.1` is not a host: it is an address; only names are allowed; write it like \
             example.com, *.example.com or example.com:8443"
        );
    }

    #[test]
    fn narrowing_never_widens() {
        for (own, other, both) in [
            (&["*.example.com"][..], &["a.example.com"][..], &["a.example.com"][..]),
            (&["a.example.com"], &["*.example.com"], &["a.example.com"]),
            (&["*.example.com"], &["*.b.example.com"], &["*.b.example.com"]),
            (&["*.example.com"], &["example.com", "evil.test"], &[]),
            (&["a.com", "b.com"], &["b.com", "c.com"], &["b.com"]),
            (&["a.com"], &["a.com:443"], &["a.com:443"]),
            (&["a.com:443"], &["a.com"], &["a.com:443"]),
            (&["a.com:8443"], &["a.com"], &[]),
            (&["a.com"], &[], &[]),
        ] {
            let found: Vec<String> = policy(own).intersection(&policy(other)).lines().collect();
            assert_eq!(found, both, "{own:?} {other:?}");
        }
    }
}
