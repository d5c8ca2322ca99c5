//! What works off the queue in this process: the pool, and beside it schedules, snapshots, spare sandboxes and upkeep. The same
//! for `harvest up` and `harvest serve`.

use std::sync::Arc;
use std::time::Duration;

use harvest_engine::{Breaking, Engine, Interrupts, Limits, Notice, Orphans, Pool, Stop, Summary, Warm, warm};
use harvest_store::OwnerKind;
use harvest_telemetry::Exporter;
use tokio::sync::mpsc;

use crate::cli::Global;
use crate::config::{Key, Layers};
use crate::failure::Failure;
use crate::installation::Installation;
use crate::tracer::Tracer;
use crate::view::Style;
use crate::{projects, reload, repo, schedule, upkeep};

const NOTICES: usize = 256;
const LEASE: Duration = Duration::from_secs(60);

/// What may differ from one command to the other.
#[derive(Debug, Default)]
pub struct Wanted {
    /// As typed; else as configured, else as many as fit.
    pub agents: Option<u32>,
    pub lease: Option<Duration>,
    pub limits: Limits,
    /// How long turns under way may take once it is to end; `None`: as long as they take. Then they go back into the queue.
    pub patience: Option<Duration>,
    /// At the end agents are left at work, for the next worker to take over.
    pub keep_agents: bool,
    /// Where turns that ended are told.
    pub telemetry: Exporter,
}

/// How the work of this process ended.
enum Ended {
    Pool(Result<Summary, harvest_engine::Error>),
    /// Too much time went by.
    GaveUp,
    Left,
}

/// Works until `drain` or a limit, then waits for what is under way.
pub async fn work(
    global: &Global,
    style: Style,
    installation: &Arc<Installation>,
    engine: &Engine,
    wanted: Wanted,
    drain: Stop,
    show: impl Fn(&Notice),
) -> Result<Summary, Failure> {
    let settings = installation.settings()?;
    let owner = installation.own(OwnerKind::Server).await?;
    let _interrupts = Interrupts::watch(engine, owner.id())?;
    let limits = Limits {
        agents: None,
        model_calls: settings.count(Key::ModelCalls).map(|calls| calls as usize),
        lease: wanted.lease.or(settings.time(Key::Lease)).unwrap_or(LEASE),
        breaking: breaking(&settings),
        ..wanted.limits
    };
    let until_empty = limits.until_empty;
    let agents = reload::agents(installation.config.clone(), wanted.agents, settings.count(Key::Agents));
    let (notices, mut inbox) = mpsc::channel(NOTICES);
    let mut pool = Pool::new(engine.clone(), owner.id().clone(), limits, notices).sized_by(agents.clone());
    // First of all: agents that a worker before this one has left wait for their models.
    show_while(pool.take_over(), &mut inbox, &show).await?;
    installation.put_right(Orphans::Remove).await?;
    let mut schedules = schedule::Beside::new(global, installation.clone(), engine.clone());
    schedules.catch_up(global, style).await?;
    let tracer = Tracer::start(installation.store.clone(), wanted.telemetry.clone());
    let (snapshots, no_more) = (repo::Beside::new(engine.clone(), &owner), Stop::default());
    let spares = warm::Options {
        most: settings.count(Key::Warm).map(|most| most as usize),
        agents: *agents.borrow(),
        expect_more: !until_empty,
    };
    let spares = Warm::new(engine.clone(), owner.id().clone(), spares);
    let too_long = async {
        drain.requested().await;
        match wanted.patience {
            Some(patience) => tokio::time::sleep(patience).await,
            None => std::future::pending().await,
        }
    };
    let leaving = async {
        match wanted.keep_agents {
            true => drain.requested().await,
            false => std::future::pending().await,
        }
    };
    let working = async {
        let ended = tokio::select! {
            biased;
            () = leaving => Ended::Left,
            summary = pool.run(drain.clone()) => Ended::Pool(summary),
            never = schedules.run(global, style) => match never {},
            never = projects::follow(installation) => match never {},
            () = too_long => Ended::GaveUp,
        };
        no_more.request();
        ended
    };
    let showing = async {
        while let Some(notice) = inbox.recv().await {
            // Nobody reading is no reason to stop working.
            show(&notice);
            tracer.note(&notice);
        }
        tracer.close().await;
    };
    let (ended, (), (), (), ()) = tokio::join!(
        working,
        showing,
        snapshots.run(global, style, no_more.clone()),
        spares.run(no_more.clone()),
        upkeep::run(installation, no_more.clone()),
    );
    match ended {
        Ended::Pool(summary) => installation.let_go(owner, summary.map_err(Failure::from)).await,
        Ended::GaveUp => {
            // As after a breakdown: sandboxes go, and what they worked on is anyone's.
            drop(owner);
            installation.put_right(Orphans::Remove).await?;
            Ok(Summary { ended: "running tasks are back in the queue".to_owned(), ..Summary::default() })
        }
        Ended::Left => {
            // Its lock is free from here on, and that is all the next worker looks at.
            drop(owner);
            let ended = "running agents continue; the next `harvest up` or `harvest serve` takes them over".to_owned();
            Ok(Summary { ended, ..Summary::default() })
        }
    }
}

fn breaking(settings: &Layers) -> Breaking {
    let usual = Breaking::default();
    Breaking {
        after: settings.count(Key::Breaker).unwrap_or(usual.after),
        pause: settings.time(Key::BreakerPause).unwrap_or(usual.pause),
    }
}

/// Shows notices while something else goes on that makes some.
async fn show_while<T>(
    doing: impl Future<Output = T>,
    inbox: &mut mpsc::Receiver<Notice>,
    show: impl Fn(&Notice),
) -> T {
    tokio::pin!(doing);
    loop {
        tokio::select! {
            done = &mut doing => return done,
            Some(notice) = inbox.recv() => show(&notice),
        }
    }
}
