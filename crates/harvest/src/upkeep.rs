//! Beside `harvest up`: every minute, what sandboxes there are is compared with what the database knows; every hour, what is
//! old or too much is removed.

use std::time::Duration;

use harvest_engine::{Orphans, Stop};

use crate::installation::Installation;
use crate::{gc, output};

const EVERY: Duration = Duration::from_secs(60);
/// So many looks from one sweep to the next.
const SWEEP: u64 = 60;

/// Until `stop`. The first look was taken when the data directory was opened.
pub async fn run(installation: &Installation, stop: Stop) {
    for look in 0u64.. {
        let sweeping = async {
            if look.is_multiple_of(SWEEP) {
                gc::sweep(installation).await;
            }
            tokio::time::sleep(EVERY).await;
        };
        tokio::select! {
            () = stop.requested() => return,
            () = sweeping => {}
        }
        match installation.put_right(Orphans::Leave).await {
            Ok(recovered) if recovered.sandboxes > 0 => {
                output::complain(&format!("note: {} leftover sandboxes were removed", recovered.sandboxes));
            }
            Ok(_) => {}
            // The pool meets the same trouble and decides whether that is the end.
            Err(failure) => tracing::warn!(error = ?failure, "leftover data could not be searched for"),
        }
    }
}
