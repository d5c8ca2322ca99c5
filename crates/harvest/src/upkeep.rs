//! Beside `harvest up`: every minute, what sandboxes there are is compared with what the database knows.

use std::time::Duration;

use harvest_engine::Stop;

use crate::installation::Installation;
use crate::output;

const EVERY: Duration = Duration::from_secs(60);

/// Until `stop`. The first look was taken when the data directory was opened.
pub async fn run(installation: &Installation, stop: Stop) {
    loop {
        tokio::select! {
            () = stop.requested() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        match installation.put_right().await {
            Ok(recovered) if recovered.sandboxes > 0 => {
                output::complain(&format!("note: {} sandboxes that nobody had were removed", recovered.sandboxes));
            }
            Ok(_) => {}
            // The pool meets the same trouble and decides whether that is the end.
            Err(failure) => tracing::warn!(error = ?failure, "what was left behind could not be looked for"),
        }
    }
}
