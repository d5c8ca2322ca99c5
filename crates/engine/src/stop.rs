//! How a person stops a turn: a flag that everyone can wait for.

use std::sync::Arc;

use tokio::sync::watch;

/// Cheap to clone; all clones are one flag.
#[derive(Debug, Clone)]
pub struct Stop {
    flag: Arc<watch::Sender<bool>>,
}

impl Default for Stop {
    fn default() -> Self {
        Self { flag: Arc::new(watch::channel(false).0) }
    }
}

impl Stop {
    pub fn request(&self) {
        self.flag.send_replace(true);
    }

    pub fn is_requested(&self) -> bool {
        *self.flag.borrow()
    }

    pub async fn requested(&self) {
        // The sender lives as long as `self`, so waiting can only end with the flag set.
        let _ = self.flag.subscribe().wait_for(|set| *set).await;
    }
}
