//! What a reader of journals, logs and pages would notice: secrets are gone, everything else is as it was.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

mod redact;
mod stream;

use harvest_vault::{Redactor, SecretString};

fn redactor(secrets: &[&str]) -> Redactor {
    Redactor::new(secrets.iter().map(|secret| SecretString::from(*secret))).unwrap()
}
