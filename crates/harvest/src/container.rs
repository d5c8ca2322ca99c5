//! Sandboxes in containers: which engine, which image, and what `harvest doctor` says about it.

use std::path::PathBuf;
use std::sync::Arc;

use harvest_sandbox::{Binaries, Fact, Provider, container};

use crate::failure::Failure;
use crate::installation::Installation;

/// Of the folder with the files of these sandboxes.
pub const FOLDER: &str = "container";

/// What `deploy/image` is called when it is built as its README says.
const IMAGE: &str = "harvest-agent";

/// Whether there may be sandboxes of this kind. Engines are asked only then, since one that hangs would hold up every command.
pub fn was_used(installation: &Installation) -> bool {
    installation.data.sandboxes().join(FOLDER).exists()
}

pub fn provider(
    installation: &Installation,
    state: PathBuf,
    runtime_folder: PathBuf,
    binaries: Binaries,
) -> Result<Arc<dyn Provider>, Failure> {
    let environment = &installation.environment;
    Ok(Arc::new(container::Container::new(container::Options {
        sockets: environment.container_sockets(),
        image: image(installation).to_owned(),
        runtime: environment.text("HARVEST_CONTAINER_RUNTIME").map(str::to_owned),
        state,
        runtime_folder,
        binaries,
    })?))
}

/// Before work begins; what is only to be removed needs no image.
pub fn check(installation: &Installation) -> Result<(), Failure> {
    Ok(container::check_image(&installation.environment.container_sockets(), image(installation))?)
}

fn image(installation: &Installation) -> &str {
    installation.environment.text("HARVEST_CONTAINER_IMAGE").unwrap_or(IMAGE)
}

pub fn fact(installation: &Installation) -> Fact {
    container::engines(&installation.environment.container_sockets())
}
