//! Log lines go to standard error, never to standard output, and only when asked for.

use tracing_subscriber::EnvFilter;

use crate::cli::{Global, LogFormat};
use crate::environment::Environment;
use crate::failure::Failure;

pub fn start(global: &Global, environment: &Environment) -> Result<(), Failure> {
    let Some(filter) = global.log.as_deref().or_else(|| environment.text("HARVEST_LOG")) else { return Ok(()) };
    let parsed = EnvFilter::try_new(filter).map_err(|error| {
        let message = format!("`{filter}` is no log filter: {error}");
        Failure::refused(harvest_core::Code::BadOption, message, "write it like `debug` or `harvest_engine=trace`")
    })?;
    let logging = tracing_subscriber::fmt().with_env_filter(parsed).with_writer(std::io::stderr);
    match global.log_format {
        LogFormat::Text => logging.init(),
        LogFormat::Json => logging.json().flatten_event(true).init(),
    }
    Ok(())
}
