//! The journal: events per second from several sessions at the same time, each append on disk before it returns.

use std::fs::File;
use std::io::Write;
use std::time::Instant;

use anyhow::ensure;
use harvest_core::{EventBody, Timestamp};
use harvest_store::{Lease, Sqlite, Step, Store};
use serde_json::json;

use super::place::{self, Place};
use super::statistics::median_rate;
use super::table::{Amount, Bound, Row};
use super::{Findings, Size};

const SESSIONS: usize = 16;
/// Events in one append: about what an agent prints while the append before it is being written.
const BATCH: usize = 50;
const LEAST: f64 = 50_000.0;

pub async fn measure(place: &Place, size: Size) -> anyhow::Result<Findings> {
    let appends = size.pick(200, 40);
    let store = place.store("journal")?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..size.pick(5, 3) {
        ours.push(journal(&store, appends).await?);
        theirs.push(plain_file(place, appends)?);
    }
    let row = Row {
        name: "journal, 16 sessions, 50 events an append",
        ours: Amount::PerSecond(median_rate(&ours)),
        theirs: Some(Amount::PerSecond(median_rate(&theirs))),
        against: "a plain file synced at every append",
        bound: Bound::AtLeast(LEAST),
    };
    Ok(Findings { rows: vec![row], notes: Vec::new() })
}

async fn journal(store: &Sqlite, appends: usize) -> anyhow::Result<f64> {
    let mut leases = Vec::new();
    for _ in 0..SESSIONS {
        leases.push(place::claimed_session(store).await?);
    }
    let began = Instant::now();
    let writers: Vec<_> =
        leases.iter().map(|lease| tokio::spawn(append(store.clone(), lease.clone(), appends))).collect();
    for writer in writers {
        writer.await??;
    }
    let rate = (SESSIONS * appends * BATCH) as f64 / began.elapsed().as_secs_f64();
    for lease in &leases {
        // `task.created` and `turn.started` came before.
        let last = (appends * BATCH + 2) as u64;
        let events = store.events(&lease.session, last - 1, 10).await?;
        ensure!(events.len() == 1 && events[0].seq == last, "events are missing from the journal");
    }
    Ok(rate)
}

async fn append(store: Sqlite, lease: Lease, appends: usize) -> Result<(), harvest_store::Error> {
    for _ in 0..appends {
        store.append(&lease, Step::new(Timestamp::now(), events())).await?;
    }
    Ok(())
}

/// What one would write without a journal: a line per event, synced after every append; no index, no fence, no state.
fn plain_file(place: &Place, appends: usize) -> anyhow::Result<f64> {
    let mut file = File::create(place.folder("journal")?.join("plain"))?;
    let began = Instant::now();
    for _ in 0..appends {
        let mut lines = Vec::new();
        for event in events() {
            serde_json::to_writer(&mut lines, &event)?;
            lines.push(b'\n');
        }
        file.write_all(&lines)?;
        file.sync_data()?;
    }
    Ok((appends * BATCH) as f64 / began.elapsed().as_secs_f64())
}

/// A stretch of an agent's work: mostly streamed text, now and then a tool.
fn events() -> Vec<EventBody> {
    let event = |number: usize| match number % 10 {
        8 => EventBody::ToolCall {
            id: format!("call-{number}"),
            name: "bash".to_owned(),
            input: json!({"command": "cargo test --workspace --no-fail-fast"}),
        },
        9 => EventBody::ToolResult {
            id: format!("call-{}", number - 1),
            output: "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured\n".repeat(4),
            is_error: false,
        },
        _ => EventBody::MessageDelta { text: "and then I look at what the test expects ".to_owned() },
    };
    (0..BATCH).map(event).collect()
}
