//! What Harvest promises about time, measured against the bare thing in the same run.
//!
//! One module per promise; each returns [`Row`]s. A bound that is broken fails the run. Nothing is written
//! outside of temporary folders, except what is built and what is installed to be measured against.

mod agents;
mod api;
mod clone;
mod container;
mod gateway;
mod graphile;
mod installation;
mod journal;
mod litellm;
mod parsers;
mod place;
mod postgres;
mod programs;
mod queue;
mod recovery;
mod rights;
mod sandbox;
mod statistics;
mod streams;
mod table;
mod warm;
mod workspace;

use std::process::ExitCode;

use place::Place;
use table::{Row, Verdict};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    Sandbox,
    Workspace,
    Gateway,
    Journal,
    Queue,
    Agents,
    Parsers,
    Warm,
    Api,
    Clone,
    Recovery,
}

impl Subject {
    const ALL: [Self; 11] = [
        Self::Sandbox,
        Self::Workspace,
        Self::Gateway,
        Self::Journal,
        Self::Queue,
        Self::Agents,
        Self::Parsers,
        Self::Warm,
        Self::Api,
        Self::Clone,
        Self::Recovery,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Sandbox => "sandbox",
            Self::Workspace => "workspace",
            Self::Gateway => "gateway",
            Self::Journal => "journal",
            Self::Queue => "queue",
            Self::Agents => "agents",
            Self::Parsers => "parsers",
            Self::Warm => "warm",
            Self::Api => "api",
            Self::Clone => "clone",
            Self::Recovery => "recovery",
        }
    }

    async fn measure(self, place: &Place, size: Size) -> anyhow::Result<Findings> {
        match self {
            Self::Sandbox => {
                let mut findings = sandbox::measure(place, size).await?;
                let Findings { rows, notes } = container::measure(place, size).await?;
                findings.rows.extend(rows);
                findings.notes.extend(notes);
                Ok(findings)
            }
            Self::Workspace => workspace::measure(place, size).await,
            Self::Gateway => {
                let mut findings = gateway::measure(place, size).await?;
                for Findings { rows, notes } in
                    [streams::measure(place, size).await?, litellm::measure(place, size).await?]
                {
                    findings.rows.extend(rows);
                    findings.notes.extend(notes);
                }
                Ok(findings)
            }
            Self::Journal => journal::measure(place, size).await,
            Self::Queue => queue::measure(place, size).await,
            Self::Agents => agents::measure(place, size).await,
            Self::Parsers => parsers::measure(size),
            Self::Warm => warm::measure(place, size).await,
            Self::Api => api::measure(place, size).await,
            Self::Clone => clone::measure(place, size).await,
            Self::Recovery => recovery::measure(place, size).await,
        }
    }
}

#[derive(Debug)]
pub struct Options {
    size: Size,
    subjects: Vec<Subject>,
}

impl Options {
    /// `[--quick] [SUBJECT ...]`; without any subject it is all of them.
    pub fn parse(arguments: &[String]) -> Option<Self> {
        let mut options = Self { size: Size::Full, subjects: Vec::new() };
        for argument in arguments {
            if argument == "--quick" {
                options.size = Size::Quick;
            } else {
                options.subjects.push(Subject::ALL.into_iter().find(|subject| subject.name() == argument)?);
            }
        }
        if options.subjects.is_empty() {
            options.subjects = Subject::ALL.to_vec();
        }
        Some(options)
    }
}

/// What one module found out.
#[derive(Debug, Default)]
struct Findings {
    rows: Vec<Row>,
    /// What a reader should know beside the figures.
    notes: Vec<String>,
}

/// A gateway in a process of its own, for whoever measures what it takes.
pub fn serve_gateway(arguments: &[String]) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(streams::serve(arguments))?;
    Ok(ExitCode::SUCCESS)
}

pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let findings = runtime.block_on(measure(options))?;
    println!("{}", table::render(&findings.rows));
    for note in &findings.notes {
        println!("{note}");
    }
    let broken = findings.rows.iter().filter(|row| row.verdict() == Verdict::Broken).count();
    let judged = findings.rows.iter().filter(|row| row.verdict() != Verdict::NotJudged).count();
    println!("\n{judged} bounds, {broken} broken");
    Ok(if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn measure(options: &Options) -> anyhow::Result<Findings> {
    let place = Place::new()?;
    let sizes = options.size.pick("full", "quick");
    println!("Measuring on {}, {sizes} sizes. This takes a while.\n", place.machine().await);
    let mut all = Findings::default();
    for subject in &options.subjects {
        eprintln!("{} ...", subject.name());
        let found = subject.measure(&place, options.size).await?;
        all.rows.extend(found.rows);
        all.notes.extend(found.notes);
    }
    eprintln!();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_can_be_picked() {
        let parse = |text: &str| Options::parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(parse("").unwrap().subjects, Subject::ALL);
        let some = parse("--quick journal").unwrap();
        assert_eq!((some.size, some.subjects), (Size::Quick, vec![Subject::Journal]));
        assert!(parse("--slow").is_none());
    }
}
