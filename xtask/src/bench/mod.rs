//! What Harvest promises about time, measured against the bare thing in the same run.
//!
//! One module per promise; each returns [`Row`]s. A bound that is broken by more than [`TOLERANCE`] fails the run. Nothing is
//! written outside of a temporary folder.

mod gateway;
mod journal;
mod place;
mod sandbox;
mod statistics;
mod table;
mod workspace;

use std::process::ExitCode;

use place::Place;
use table::{Row, Verdict};

/// How far beyond its bound a row may be before the run fails: machines are shared and disks have moods.
const TOLERANCE: f64 = 0.25;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    Full,
    /// Small and few, to see that it works.
    Quick,
}

impl Size {
    fn pick<T>(self, full: T, quick: T) -> T {
        match self {
            Self::Full => full,
            Self::Quick => quick,
        }
    }
}

/// What one module found out.
#[derive(Debug, Default)]
struct Findings {
    rows: Vec<Row>,
    /// What a reader should know beside the figures.
    notes: Vec<String>,
}

pub fn run(size: Size) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let findings = runtime.block_on(measure(size))?;
    println!("{}", table::render(&findings.rows, TOLERANCE));
    for note in &findings.notes {
        println!("  {note}");
    }
    let broken = findings.rows.iter().filter(|row| row.verdict(TOLERANCE) == Verdict::Broken).count();
    if broken == 0 {
        println!("\nAll {} bounds are kept.", findings.rows.len());
        return Ok(ExitCode::SUCCESS);
    }
    println!("\n{broken} of {} bounds are broken.", findings.rows.len());
    Ok(ExitCode::FAILURE)
}

async fn measure(size: Size) -> anyhow::Result<Findings> {
    let place = Place::new()?;
    println!("Measuring on {}, {} sizes. This takes a while.\n", place.machine(), size.pick("full", "quick"));
    let mut all = Findings::default();
    let mut add = |found: Findings| {
        all.rows.extend(found.rows);
        all.notes.extend(found.notes);
    };
    eprintln!("sandbox …");
    add(sandbox::measure(&place, size).await?);
    eprintln!("workspace …");
    add(workspace::measure(&place, size).await?);
    eprintln!("gateway …");
    add(gateway::measure(&place, size).await?);
    eprintln!("journal …");
    add(journal::measure(&place, size).await?);
    Ok(all)
}
