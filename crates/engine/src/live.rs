//! What the settings say, as they are when they are asked: projects come and go while an engine works.

use std::sync::Arc;

use tokio::sync::watch;

/// Cheap to clone; every clone sees the newest.
#[derive(Debug, Clone)]
pub struct Live<T>(watch::Receiver<Arc<T>>);

impl<T> Live<T> {
    /// One that follows whoever holds the other end.
    pub fn following(newest: watch::Receiver<Arc<T>>) -> Self {
        Self(newest)
    }

    pub fn now(&self) -> Arc<T> {
        self.0.borrow().clone()
    }
}

/// One that never changes.
impl<T> From<T> for Live<T> {
    fn from(value: T) -> Self {
        Self(watch::channel(Arc::new(value)).1)
    }
}
