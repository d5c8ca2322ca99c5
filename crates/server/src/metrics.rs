//! What monitoring asks for, in Prometheus' text format: the server's own numbers, those of the work in this process, and the
//! queue of the whole installation. Labels are few by nature: no task, repository or person is one.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use harvest_core::Cost;
use harvest_engine::{Histogram, Reading, warm};
use harvest_store::QueueState;

use crate::problem::Problem;
use crate::state::App;

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Debug, Default)]
pub struct Metrics {
    pub connections: Gauge,
    /// Open streams of server-sent events.
    pub streams: Arc<Gauge>,
    pub sockets: Arc<Gauge>,
    pub events_sent: Counter,
    /// Readers that were cut off.
    pub streams_dropped: Counter,
    /// By method, route and status.
    requests: Mutex<BTreeMap<(String, String, u16), Histogram>>,
}

#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    pub fn enter(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Counted until it is dropped.
    pub fn entered(self: Arc<Self>) -> Entered {
        self.enter();
        Entered(self)
    }
}

#[derive(Debug)]
pub struct Entered(Arc<Gauge>);

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Metrics {
    fn record(&self, method: &str, route: &str, status: u16, took: Duration) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.entry((method.to_owned(), route.to_owned(), status)).or_default().record(took);
    }
}

/// Times every request by its route, until its answer begins.
pub async fn measure(State(app): State<App>, request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let begun = Instant::now();
    let response = next.run(request).await;
    // What is no route of ours has as many names as strangers can think of.
    let route = route.as_deref().unwrap_or("none");
    let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"].contains(&method.as_str());
    let method = if known { method.as_str() } else { "other" };
    app.metrics.record(method, route, response.status().as_u16(), begun.elapsed());
    response
}

/// Show the metrics of this server and of the queue, for Prometheus
#[utoipa::path(
    get, path = "/metrics", tag = "metrics", operation_id = "metrics.get",
    security(("token" = ["viewer", "everywhere"]), ("cookie" = ["viewer", "everywhere"])),
    responses(
        (status = 200, description = "The Prometheus text format", body = String, content_type = "text/plain"),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn scrape(State(app): State<App>) -> Result<Response, Problem> {
    let queue = app.store.queue().await?;
    let mut page = Page::default();
    of_the_server(&mut page, &app);
    of_the_work(&mut page, &app.engine.vitals().read(), app.engine.warm_stats());
    of_the_queue(&mut page, &queue);
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], page.0).into_response())
}

fn of_the_server(page: &mut Page, app: &App) {
    let metrics = &app.metrics;
    page.head("harvest_build_info", "gauge", "The version that runs.");
    page.value("harvest_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    page.head(
        "harvest_api_request_duration_seconds",
        "histogram",
        "Time from a request to the beginning of its response.",
    );
    let requests = metrics.requests.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for ((method, route, status), histogram) in &requests {
        let status = status.to_string();
        let labels = [("method", method.as_str()), ("route", route.as_str()), ("status", status.as_str())];
        page.histogram("harvest_api_request_duration_seconds", &labels, histogram);
    }
    page.head("harvest_api_errors_total", "counter", "Requests that failed with a server error.");
    let failed =
        requests.iter().filter(|((_, _, status), _)| *status >= 500).map(|(_, taken)| taken.count).sum::<u64>();
    page.value("harvest_api_errors_total", &[], failed as f64);
    for (name, help, value) in [
        ("harvest_connections", "Connections of clients.", metrics.connections.get()),
        ("harvest_event_streams", "Open streams of server-sent events.", metrics.streams.get()),
        ("harvest_event_sockets", "Open WebSockets.", metrics.sockets.get()),
        ("harvest_event_tails", "Sessions that are being watched.", i64::try_from(app.tails.count()).unwrap_or(0)),
    ] {
        page.head(name, "gauge", help);
        page.value(name, &[], value as f64);
    }
    page.head("harvest_events_sent_total", "counter", "Events sent to streams and sockets.");
    page.value("harvest_events_sent_total", &[], metrics.events_sent.get() as f64);
    page.head("harvest_event_streams_dropped_total", "counter", "Readers that were too slow.");
    page.value("harvest_event_streams_dropped_total", &[], metrics.streams_dropped.get() as f64);
}

fn of_the_work(page: &mut Page, work: &Reading, warm: warm::Stats) {
    page.head("harvest_sandbox_start_seconds", "histogram", "Time from a request for a sandbox until it is ready.");
    for ((purpose, warm), histogram) in &work.sandboxes {
        let warm = if *warm { "true" } else { "false" };
        page.histogram("harvest_sandbox_start_seconds", &[("purpose", purpose), ("warm", warm)], histogram);
    }
    page.head("harvest_model_call_seconds", "histogram", "Time from a request to a model to the end of its response.");
    for (provider, histogram) in &work.models {
        page.histogram("harvest_model_call_seconds", &[("provider", provider)], histogram);
    }
    page.head("harvest_model_troubles_total", "counter", "Failures of the hosts of models.");
    page.value("harvest_model_troubles_total", &[], work.troubles as f64);
    page.head("harvest_worker_cost_usd_total", "counter", "Cost of the model calls of this process.");
    page.value("harvest_worker_cost_usd_total", &[], Cost::from_nanos(work.cost_nanos).dollars());
    page.head("harvest_worker_tasks_total", "counter", "Tasks that ended in this process.");
    for ((status, reason), count) in &work.ended {
        page.value("harvest_worker_tasks_total", &[("status", status), ("reason", reason)], *count as f64);
    }
    page.head("harvest_worker_retries_total", "counter", "Attempts that failed and will be retried.");
    page.value("harvest_worker_retries_total", &[], work.retries as f64);
    page.head("harvest_pool_agents", "gauge", "Agents that may run in parallel in this process.");
    page.value("harvest_pool_agents", &[], work.agents as f64);
    page.head("harvest_pool_busy", "gauge", "Agents running in this process.");
    page.value("harvest_pool_busy", &[], work.busy as f64);
    page.head("harvest_pool_utilisation", "gauge", "The share of agents that are running.");
    page.value(
        "harvest_pool_utilisation",
        &[],
        if work.agents == 0 { 0.0 } else { work.busy as f64 / work.agents as f64 },
    );
    page.head(
        "harvest_warm_sandboxes_total",
        "counter",
        "Sandboxes that were ready before they were needed, or were not.",
    );
    for (outcome, count) in [("hit", warm.hits), ("miss", warm.misses), ("made", warm.made), ("expired", warm.expired)]
    {
        page.value("harvest_warm_sandboxes_total", &[("outcome", outcome)], count as f64);
    }
}

fn of_the_queue(page: &mut Page, queue: &QueueState) {
    let turns = &queue.turns;
    page.head("harvest_queue_depth", "gauge", "Turns in the queue, by what they wait for.");
    for (state, count) in [
        ("ready", turns.ready),
        ("blocked", turns.blocked),
        ("waiting", turns.waiting),
        ("parked", turns.parked),
        ("claimed", turns.claimed),
    ] {
        page.value("harvest_queue_depth", &[("state", state)], count as f64);
    }
    page.head("harvest_sessions_active", "gauge", "Sessions with running work, on any worker.");
    page.value("harvest_sessions_active", &[], turns.claimed as f64);
    page.head("harvest_tasks", "gauge", "Tasks by status.");
    for (status, count) in &queue.tasks {
        page.value("harvest_tasks", &[("status", status)], *count as f64);
    }
    let ended = |status: &str| queue.tasks.get(status).copied().unwrap_or(0);
    page.head("harvest_tasks_finished_total", "counter", "How often tasks have ended; its rate is the tasks per hour.");
    let (completed, failed) = (ended("completed"), ended("failed"));
    page.value("harvest_tasks_finished_total", &[], queue.ever.finished as f64);
    page.head("harvest_task_success_ratio", "gauge", "The share of completed tasks among completed and failed ones.");
    let tried = completed + failed;
    page.value("harvest_task_success_ratio", &[], if tried == 0 { 1.0 } else { completed as f64 / tried as f64 });
    page.head("harvest_task_failures", "gauge", "Failed tasks by reason.");
    for (reason, count) in &queue.failures {
        page.value("harvest_task_failures", &[("reason", reason)], *count as f64);
    }
    page.head("harvest_cost_usd_total", "counter", "Cost of all tasks.");
    page.value("harvest_cost_usd_total", &[], Cost::from_nanos(queue.ever.cost_nanos).dollars());
    page.head("harvest_queue_paused", "gauge", "1 when the queue is paused.");
    page.value("harvest_queue_paused", &[], f64::from(u8::from(queue.settings.paused)));
}

/// Text as Prometheus reads it.
#[derive(Debug, Default)]
struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn value(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let _ = writeln!(self.0, "{name}{} {value}", braces(labels));
    }

    fn histogram(&mut self, name: &str, labels: &[(&str, &str)], histogram: &Histogram) {
        let bounds = Histogram::BOUNDS.iter().map(f64::to_string).zip(histogram.buckets);
        for (bound, count) in bounds.chain([("+Inf".to_owned(), histogram.count)]) {
            let mut with = labels.to_vec();
            with.push(("le", &bound));
            self.value(&format!("{name}_bucket"), &with, count as f64);
        }
        self.value(&format!("{name}_sum"), labels, histogram.sum);
        self.value(&format!("{name}_count"), labels, histogram.count as f64);
    }
}

fn braces(labels: &[(&str, &str)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let pairs: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", pairs.join(","))
}
