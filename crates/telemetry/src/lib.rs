//! The life of a task as an OpenTelemetry trace: the request that asked for it, the claim, the sandbox, the agent, and every
//! call of a model.
//!
//! The journal is the truth, and traces are read from it ([`spans_of`]): whoever ends a turn tells the whole of it, also when
//! it began in a process that is gone. The ids follow from the task's own id, so that servers and workers who know nothing
//! of each other tell the same trace, and who tells something twice tells the same span.
//!
//! An [`Exporter`] sends spans as OTLP in its JSON form over HTTP. The libraries of OpenTelemetry would do so as well, with
//! the code generated for all of its protocols and a context that is carried from call to call; what is read from a journal
//! needs neither.

mod export;
mod otlp;
mod read;
mod span;

pub use export::Exporter;
pub use read::spans_of;
pub use span::{Kind, Outcome, Span, SpanId, TraceId, request_span, task_span};
