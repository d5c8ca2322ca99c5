//! Log lines go to standard error, never to standard output, and only when asked for.

use std::io;

use harvest_vault::Redactor;
use tracing_subscriber::EnvFilter;

use crate::cli::{Global, LogFormat};
use crate::environment::Environment;
use crate::failure::Failure;

/// Standard error for one line, which comes in one piece, without secrets.
struct Lines<W>(Redactor, W);

impl<W: io::Write> io::Write for Lines<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let clean = self.0.redact(&String::from_utf8_lossy(line)).into_owned();
        self.1.write_all(clean.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.1.flush()
    }
}

pub fn start(global: &Global, environment: &Environment) -> Result<(), Failure> {
    let Some(filter) = global.log.as_deref().or_else(|| environment.text("HARVEST_LOG")) else { return Ok(()) };
    let parsed = EnvFilter::try_new(filter).map_err(|error| {
        let message = format!("`{filter}` is not a log filter: {error}");
        Failure::refused(harvest_core::Code::BadOption, message, "write it like `debug` or `harvest_engine=trace`")
    })?;
    let internal = |error: harvest_vault::Error| Failure::failed(harvest_core::Code::Internal, error.to_string());
    let redactor = Redactor::of_process().map_err(internal)?;
    let logging =
        tracing_subscriber::fmt().with_env_filter(parsed).with_writer(move || Lines(redactor.clone(), io::stderr()));
    match global.log_format {
        LogFormat::Text => logging.init(),
        LogFormat::Json => logging.json().flatten_event(true).init(),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_log_line_does_not_show_a_key() {
        let (redactor, kept) = (Redactor::new(["canary of the vault".to_owned().into()]).unwrap(), Kept::default());
        let sink = kept.clone();
        let logging =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || Lines(redactor.clone(), sink.clone()));
        let key = "hv_canary0123456789abcdefghjkmnpqrstvwxyz0123456789abcd";
        tracing::subscriber::with_default(logging.finish(), || {
            tracing::error!(key, "it failed with {key} and canary of the vault");
        });
        let line = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        assert!(line.contains("it failed with [redacted] and [redacted]") && !line.contains("canary"), "{line}");
    }
}
