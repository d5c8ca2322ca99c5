//! SIGHUP makes `harvest up` read `harvest.toml` again. What it applies at once is the number of agents; everything else is
//! read anyway when it is needed.

use tokio::signal::unix::SignalKind;
use tokio::sync::watch;

use crate::config::{self, Key, Source};
use crate::{output, signals};

/// The number of agents as the configuration says, now and after each SIGHUP. `typed` on the command line wins.
pub fn agents(source: Source, typed: Option<u32>, configured: Option<u32>) -> watch::Receiver<Option<usize>> {
    let size = move |agents: Option<u32>| typed.or(agents).map(|agents| agents as usize);
    let (sender, receiver) = watch::channel(size(configured));
    if let Some(mut hangups) = signals::listen(SignalKind::hangup()) {
        tokio::spawn(async move {
            while hangups.recv().await.is_some() {
                match config::load(&source) {
                    Ok(settings) => {
                        sender.send_replace(size(settings.count(Key::Agents)));
                        let typed = if typed.is_some() { "; --agents is unchanged" } else { "" };
                        output::complain(&format!("note: the settings were read again{typed}"));
                    }
                    Err(failure) => {
                        failure.print();
                        output::complain("note: the settings stay as they were");
                    }
                }
            }
        });
    }
    receiver
}
