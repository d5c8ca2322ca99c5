//! Whether a connection is encrypted, and whom it trusts.
//!
//! What `sslmode` and `sslrootcert` of an address say. `require`, `verify-ca` and `verify-full` are one here: the connection is
//! encrypted, and the server's certificate is for its name and from someone who is trusted. Encryption without knowing to whom
//! keeps no one out who can reach the wire.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::Error;

/// What an address says about encryption, beside everything else it says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Wish {
    mode: Option<String>,
    root: Option<String>,
}

impl Wish {
    /// The address without what is said about encryption, and that.
    pub(super) fn take_from(address: &str) -> (String, Self) {
        let mut wish = Self::default();
        let is_url = address.starts_with("postgres://") || address.starts_with("postgresql://");
        let rest = if is_url {
            let (before, query) = address.split_once('?').unwrap_or((address, ""));
            let kept: Vec<&str> = query.split('&').filter(|pair| !pair.is_empty() && !wish.takes(pair)).collect();
            if kept.is_empty() { before.to_owned() } else { format!("{before}?{}", kept.join("&")) }
        } else {
            let kept: Vec<&str> = address.split(' ').filter(|pair| !wish.takes(pair)).collect();
            kept.join(" ")
        };
        (rest, wish)
    }

    fn takes(&mut self, pair: &str) -> bool {
        let place = match pair.split_once('=') {
            Some(("sslmode", _)) => &mut self.mode,
            Some(("sslrootcert", _)) => &mut self.root,
            _ => return false,
        };
        *place =
            pair.split_once('=').map(|(_, value)| value.trim_matches('\'').replace("%2F", "/").replace("%2f", "/"));
        true
    }

    /// What to do about it. Where nothing is said, or nothing that holds, what leaves this machine is encrypted.
    pub(super) fn security(&self, config: &Config) -> Result<Security, Error> {
        let wanted = match self.mode.as_deref() {
            Some("disable") => false,
            Some("require" | "verify-ca" | "verify-full") => true,
            None | Some("allow" | "prefer") => config.get_hosts().iter().any(is_elsewhere),
            Some(other) => {
                return Err(Error::BadAddress(format!(
                    "sslmode={other} is not known: use `verify-full`, or `disable` to go without encryption"
                )));
            }
        };
        if !wanted {
            return Ok(Security::Plain);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::BadAddress(error.to_string()))?;
        Ok(Security::Encrypted(MakeRustlsConnect::new(self.trusting(builder)?)))
    }

    fn trusting(&self, builder: ConfigBuilder<ClientConfig, WantsVerifier>) -> Result<ClientConfig, Error> {
        let Some(path) = self.root.as_deref().filter(|path| *path != "system") else {
            let builder = builder.with_platform_verifier();
            let builder = builder.map_err(|error| Error::BadAddress(format!("the system's certificates: {error}")))?;
            return Ok(builder.with_no_client_auth());
        };
        let bad = |error: &dyn std::fmt::Display| Error::BadAddress(format!("sslrootcert={path}: {error}"));
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(path).map_err(|error| bad(&error))? {
            roots.add(certificate.map_err(|error| bad(&error))?).map_err(|error| bad(&error))?;
        }
        if roots.is_empty() {
            return Err(bad(&"there is no certificate in it"));
        }
        Ok(builder.with_root_certificates(roots).with_no_client_auth())
    }
}

/// How to connect.
#[derive(Clone)]
pub(super) enum Security {
    Plain,
    Encrypted(MakeRustlsConnect),
}

impl Security {
    pub(super) fn mode(&self) -> SslMode {
        match self {
            Self::Plain => SslMode::Disable,
            Self::Encrypted(_) => SslMode::Require,
        }
    }
}

impl std::fmt::Debug for Security {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain => "Plain",
            Self::Encrypted(_) => "Encrypted",
        })
    }
}

/// Not on this machine, as far as the name tells.
fn is_elsewhere(host: &Host) -> bool {
    match host {
        Host::Unix(_) => false,
        Host::Tcp(name) => {
            name != "localhost" && !name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encrypted(address: &str) -> Result<bool, String> {
        let (rest, wish) = Wish::take_from(address);
        let config: Config = rest.parse().map_err(|error| format!("{rest}: {error}"))?;
        let security = wish.security(&config).map_err(|error| error.to_string())?;
        Ok(matches!(security, Security::Encrypted(_)))
    }

    #[test]
    fn what_leaves_the_machine_is_encrypted_unless_someone_says_otherwise() {
        assert_eq!(encrypted("postgres://ada@db.example.com/harvest"), Ok(true));
        assert_eq!(encrypted("postgres://ada@db.example.com/harvest?sslmode=disable"), Ok(false));
        assert_eq!(encrypted("postgres://ada@localhost/harvest"), Ok(false));
        assert_eq!(encrypted("postgres://ada@[::1]/harvest?application_name=x&sslmode=verify-full"), Ok(true));
        assert_eq!(encrypted("host=/run/postgresql user=ada"), Ok(false));
        assert_eq!(encrypted("host=10.1.2.3 user=ada"), Ok(true));
        assert_eq!(encrypted("host=10.1.2.3 user=ada sslmode=prefer"), Ok(true));
        assert_eq!(encrypted("host=10.1.2.3 user=ada sslmode='disable'"), Ok(false));
    }

    #[test]
    fn what_is_not_about_encryption_stays() {
        let (rest, wish) =
            Wish::take_from("postgres://a@b/c?connect_timeout=3&sslmode=verify-ca&sslrootcert=%2Fetc%2Fca.pem");
        assert_eq!(rest, "postgres://a@b/c?connect_timeout=3");
        assert_eq!(wish, Wish { mode: Some("verify-ca".into()), root: Some("/etc/ca.pem".into()) });
    }

    #[test]
    fn what_cannot_be_kept_to_is_refused() {
        let refused = encrypted("host=db user=a sslmode=perhaps").unwrap_err();
        assert!(refused.contains("sslmode=perhaps is not known: use `verify-full`, or `disable`"), "{refused}");
        let refused = encrypted("host=db user=a sslrootcert=/nowhere/ca.pem").unwrap_err();
        assert!(refused.contains("sslrootcert=/nowhere/ca.pem: "), "{refused}");
        let refused = encrypted("host=db user=a sslrootcert=/dev/null").unwrap_err();
        assert!(refused.contains("there is no certificate in it"), "{refused}");
    }
}
