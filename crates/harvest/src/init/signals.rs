//! What Ctrl-C means: at a question it leaves, during a step it stops what runs.

use std::sync::{Arc, Mutex, PoisonError};

use harvest_engine::Stop;
use tokio::signal::unix::SignalKind;

use crate::credential;
use crate::failure::Exit;
use crate::signals;

enum Meaning {
    Leave,
    Stop(Stop),
    /// The step watches for signals itself.
    Elsewhere,
}

pub struct Signals(Arc<Mutex<Meaning>>);

impl Signals {
    pub fn watch() -> Self {
        let meaning = Arc::new(Mutex::new(Meaning::Leave));
        for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
            if signals::is_unwanted(kind) {
                continue;
            }
            let Some(mut signals) = signals::listen(kind) else { continue };
            let meaning = Arc::clone(&meaning);
            tokio::spawn(async move {
                while signals.recv().await.is_some() {
                    match &*meaning.lock().unwrap_or_else(PoisonError::into_inner) {
                        Meaning::Leave => {
                            credential::show_typing();
                            std::process::exit(Exit::Stopped as i32);
                        }
                        Meaning::Stop(stop) => stop.request(),
                        Meaning::Elsewhere => {}
                    }
                }
            });
        }
        Self(meaning)
    }

    /// For what runs from now on.
    pub fn stop(&self) -> Stop {
        let stop = Stop::default();
        self.mean(Meaning::Stop(stop.clone()));
        stop
    }

    pub fn leave(&self) {
        self.mean(Meaning::Leave);
    }

    pub fn elsewhere(&self) {
        self.mean(Meaning::Elsewhere);
    }

    fn mean(&self, meaning: Meaning) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = meaning;
    }
}
