//! Log lines go to standard error, never to standard output, and only when asked for.

use std::io;

use harvest_vault::Redactor;
use tracing_subscriber::EnvFilter;

use crate::cli::{Global, LogFormat};
use crate::environment::Environment;
use crate::failure::Failure;

/// Standard error for one line, which comes in one piece, without secrets.
struct Lines(Redactor);

impl io::Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let clean = self.0.redact(&String::from_utf8_lossy(line)).into_owned();
        io::stderr().write_all(clean.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

pub fn start(global: &Global, environment: &Environment) -> Result<(), Failure> {
    let Some(filter) = global.log.as_deref().or_else(|| environment.text("HARVEST_LOG")) else { return Ok(()) };
    let parsed = EnvFilter::try_new(filter).map_err(|error| {
        let message = format!("`{filter}` is no log filter: {error}");
        Failure::refused(harvest_core::Code::BadOption, message, "write it like `debug` or `harvest_engine=trace`")
    })?;
    let internal = |error: harvest_vault::Error| Failure::failed(harvest_core::Code::Internal, error.to_string());
    let redactor = Redactor::of_process().map_err(internal)?;
    let logging = tracing_subscriber::fmt().with_env_filter(parsed).with_writer(move || Lines(redactor.clone()));
    match global.log_format {
        LogFormat::Text => logging.init(),
        LogFormat::Json => logging.json().flatten_event(true).init(),
    }
    Ok(())
}
