//! Work that breaks down while its worker lives: the turn is given back and tried again, a few times, and then its task fails
//! with the reason. For a full disk there is more patience: it is nothing that a task could help, and nobody takes work before
//! there is room again.

use std::time::Duration;

use harvest_core::{Event, EventBody, FailureReason, OwnerId, Timestamp, TurnId};
use harvest_store::Lease;

use crate::error::chain;
use crate::journal::{of_turn, start_of_try};
use crate::recover::Recovery;
use crate::turn::Worked;
use crate::{Engine, Error, Failure, Stop, guard};

/// How every note of a breakdown begins.
const BROKE_DOWN: &str = "the work on this turn failed unexpectedly";
const NO_ROOM: &str = "the disk was full during this turn";

/// How often in a row a disk is found full before nothing is waited for any more.
const MOST_FULL: u32 = 5;
const LOOK_AT_DISK: Duration = Duration::from_secs(2);

/// What kind of thing went wrong, and how much of it is excused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    BrokeDown,
    NoRoom,
}

impl Kind {
    fn of(error: &Error) -> Self {
        if error.is_full() { Self::NoRoom } else { Self::BrokeDown }
    }

    fn words(self) -> &'static str {
        match self {
            Self::BrokeDown => BROKE_DOWN,
            Self::NoRoom => NO_ROOM,
        }
    }

    /// So often it may happen to a turn.
    fn most(self) -> usize {
        match self {
            Self::BrokeDown => 3,
            Self::NoRoom => 10,
        }
    }

    /// How long to wait after it has happened so often.
    fn delay(self, times: usize) -> Duration {
        let (first, longest) = match self {
            Self::BrokeDown => (Duration::from_secs(1), Duration::from_secs(60)),
            Self::NoRoom => (Duration::from_secs(5), Duration::from_secs(300)),
        };
        let doubled = u32::try_from(times.saturating_sub(1)).ok().and_then(|times| 2u32.checked_pow(times));
        first.saturating_mul(doubled.unwrap_or(u32::MAX)).min(longest)
    }

    /// How often it has happened in this try.
    fn count(self, events: &[Event], turn: &TurnId) -> usize {
        let events = of_turn(events, turn);
        let of_this_try = events.get(start_of_try(events)..).unwrap_or_default();
        let is_it =
            |event: &&Event| matches!(&event.body, EventBody::Warning { message } if message.starts_with(self.words()));
        of_this_try.iter().filter(is_it).count()
    }
}

impl Engine {
    /// Works on a turn that nobody else would take: what there is no room for ends its task.
    pub async fn work(&self, owner: &OwnerId, lease: Lease, stop: Stop) -> Result<Worked, Error> {
        let worked = tokio::select! {
            worked = self.work_once(owner, lease.clone(), stop) => worked,
            error = self.disk_stays_full() => return Err(error),
        };
        match worked {
            Err(error) if error.is_full() && !matches!(error, Error::Store(_)) => {
                self.clear_session(owner, &lease.session).await?;
                self.fail(lease, Failure::new(FailureReason::Internal, chain(&error))).await
            }
            worked => worked,
        }
    }

    /// An agent whose output finds no room waits for it, and tells nobody: without this, whoever waits for the agent would wait
    /// as well.
    async fn disk_stays_full(&self) -> Error {
        let data = self.options.data.path();
        let mut times = 0;
        while times < MOST_FULL {
            tokio::time::sleep(LOOK_AT_DISK).await;
            times = if guard::is_full(data) { times + 1 } else { 0 };
        }
        let source = rustix::io::Errno::NOSPC.into();
        Error::Io { action: "write to", path: data.display().to_string(), source }
    }

    /// Gives back a turn on which the work broke down, or ends its task when that has happened too often.
    pub(crate) async fn break_down(&self, lease: &Lease, error: &Error) -> Result<Worked, Error> {
        let (_, journal) = self.open(lease.clone()).await?;
        let kind = Kind::of(error);
        let times = kind.count(&journal.all().await?, &lease.turn) + 1;
        let error = chain(error);
        if times >= kind.most() {
            let message = format!("{} {times} times; the last time: {error}", kind.words());
            return self.fail(lease.clone(), Failure::new(FailureReason::Internal, message)).await;
        }
        let due = journal.now().saturating_add(kind.delay(times)).unwrap_or(Timestamp::MAX);
        journal.put_off(due, format!("{}; trying again: {error}", kind.words())).await?;
        Ok(Worked::WillRetry { reason: FailureReason::Internal, error, due })
    }

    /// Ends the task of a turn that nobody works on, and keeps what was done.
    async fn fail(&self, lease: Lease, failure: Failure) -> Result<Worked, Error> {
        let options = &self.options;
        let repository = options.store.task(&lease.task).await?.task.repository;
        let forge = options.forges.open(&repository).await.ok();
        let outcome = self.recovery().end_in(forge.as_deref(), lease, failure).await?;
        self.tell_end_or_log(&outcome).await;
        Ok(Worked::Finished(Box::new(outcome)))
    }

    pub(crate) fn recovery(&self) -> Recovery {
        let options = &self.options;
        Recovery {
            data: options.data.clone(),
            store: options.store.clone(),
            providers: vec![options.provider.clone()],
            redactor: options.redactor.clone(),
            clock: options.clock.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::story::journal;

    fn warning(words: &str) -> EventBody {
        EventBody::Warning { message: format!("{words}; trying again: why") }
    }

    #[test]
    fn breakdowns_of_each_kind_are_counted_for_this_try() {
        let turn: TurnId = "0000000000000002".parse().unwrap();
        let started = EventBody::TurnStarted { turn_id: turn.clone(), number: 1, author: "ada".into() };
        let retried =
            EventBody::TaskRetried { reason: FailureReason::Agent, error: String::new(), tries: 1, delay_ms: 0 };
        let told = journal(vec![
            warning(BROKE_DOWN),
            started.clone(),
            warning(BROKE_DOWN),
            retried,
            started,
            warning(NO_ROOM),
            warning(BROKE_DOWN),
            warning(NO_ROOM),
        ]);
        assert_eq!((Kind::BrokeDown.count(&told, &turn), Kind::NoRoom.count(&told, &turn)), (1, 2));
        assert_eq!(Kind::BrokeDown.count(&[], &turn), 0);
    }

    #[test]
    fn a_full_disk_is_no_failure_of_the_task() {
        let full = || std::io::Error::from(std::io::ErrorKind::StorageFull);
        let error = Error::Io { action: "make", path: "/data".into(), source: full() };
        assert_eq!(Kind::of(&error), Kind::NoRoom);
        assert!(matches!(crate::error::Halt::from(error), crate::error::Halt::Engine(_)));
        let path = "/data".into();
        let workspace = harvest_workspace::Error::Io { action: "write", path, source: full() };
        assert!(matches!(crate::error::Halt::from(workspace), crate::error::Halt::Engine(_)));
        let other = Error::Io { action: "make", path: "/data".into(), source: std::io::ErrorKind::NotFound.into() };
        assert_eq!(Kind::of(&other), Kind::BrokeDown);
        assert!(matches!(crate::error::Halt::from(other), crate::error::Halt::Turn(_)));
    }

    #[test]
    fn the_next_try_waits_longer_each_time() {
        let delays: Vec<u64> = (1..=9).map(|times| Kind::NoRoom.delay(times).as_secs()).collect();
        assert_eq!(delays, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
        assert_eq!(Kind::BrokeDown.delay(2), Duration::from_secs(2));
    }
}
