//! Sessions that work on one repository hear early that their work will not fit together: whenever some of it has arrived, it
//! is merged in memory with what the others have. What comes of it is kept for both, and told in the journal of whoever came
//! later.

use harvest_store::Neighbour;
use harvest_workspace::overlap;

use crate::error::Halt;
use crate::turn::Turn;

/// So many paths are told; the record has them all.
const MOST_PATHS: usize = 10;

impl Turn {
    /// Compares `commit` with the work of every neighbour on this machine. Whatever cannot be compared is no reason to stop.
    pub(crate) async fn forecast(&self, commit: &str) -> Result<(), Halt> {
        if self.only_reads() || commit == self.task.base {
            return Ok(());
        }
        let store = &self.engine.options.store;
        for neighbour in store.neighbours(&self.task.repository, &self.session.id).await? {
            // Those of a race, or of one task, are meant to be about the same.
            if neighbour.task == self.task.id {
                continue;
            }
            match self.overlap_with(&neighbour, commit).await {
                Ok(None) => {}
                Ok(Some(paths)) => {
                    let between = [&self.session.id, &neighbour.session];
                    let is_news = store.note_overlap(between, &paths, self.journal.now()).await?;
                    if is_news && !paths.is_empty() {
                        self.journal.warn(told(&neighbour, &paths)).await?;
                    }
                }
                Err(error) => tracing::debug!(%error, "a forecast failed"),
            }
        }
        Ok(())
    }

    /// `None` when there is nothing of the neighbour to compare with here.
    async fn overlap_with(
        &self,
        neighbour: &Neighbour,
        commit: &str,
    ) -> Result<Option<Vec<String>>, harvest_workspace::Error> {
        let data = &self.engine.options.data;
        let Some(theirs) = data.existing_repository(&neighbour.session) else {
            return Ok(None);
        };
        let Some(tip) = theirs.newest(&neighbour.session, &neighbour.branch).await? else { return Ok(None) };
        let scratch = self.repository.path().with_file_name("forecast");
        overlap(&self.mirror, (&self.repository, commit), (&theirs, &tip), &scratch).await.map(Some)
    }
}

fn told(neighbour: &Neighbour, paths: &[String]) -> String {
    let more = paths.len().saturating_sub(MOST_PATHS);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let paths = paths.iter().take(MOST_PATHS).map(String::as_str).collect::<Vec<_>>().join(", ");
    format!("task {} changes the same places, and the two will not merge: {paths}{more}", neighbour.task.short())
}

#[cfg(test)]
mod tests {
    use harvest_core::{BranchName, SessionId};

    use super::*;

    #[test]
    fn not_every_path_is_told() {
        let session: SessionId = "0000000000000001".parse().unwrap();
        let branch = BranchName::for_session("x", &session);
        let neighbour = Neighbour { task: "0000000000000002".parse().unwrap(), session, branch };
        let paths: Vec<String> = (0..12).map(|number| format!("f{number}")).collect();
        let said = told(&neighbour, &paths);
        assert!(said.ends_with("f8, f9 and 2 more") && told(&neighbour, &paths[..1]).ends_with("merge: f0"), "{said}");
    }
}
