//! The one way out: a loopback port whose connections lead to the gateway's socket.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, UnixStream};
use tokio::sync::Semaphore;

use crate::relay::{Room, relay};

/// More than any agent needs at once; beyond it new ones wait to be accepted.
const CONNECTIONS: usize = 512;
const SHORTEST: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_millis(100);

/// The same in every sandbox that has a loopback of its own: package managers keep what they have fetched under the address
/// they fetched it from, and a prepared snapshot takes that along.
const PORT: u16 = 17783;

/// Any other port where this one is taken, as it may be without a network namespace.
pub async fn bind() -> std::io::Result<TcpListener> {
    match TcpListener::bind((Ipv4Addr::LOCALHOST, PORT)).await {
        Ok(listener) => Ok(listener),
        Err(_) => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await,
    }
}

/// Accepts for ever.
pub async fn serve(listener: TcpListener, gateway: PathBuf) {
    let gateway: Rc<Path> = gateway.into();
    let (slots, room) = (Arc::new(Semaphore::new(CONNECTIONS)), Room::default());
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (gateway, room) = (gateway.clone(), room.clone());
                tokio::task::spawn_local(async move {
                    relay(stream, &gateway, room).await;
                    drop(slot);
                });
            }
            // Out of descriptors: some will come back.
            Err(_) => tokio::time::sleep(LONGEST).await,
        }
    }
}

/// Waits while no one listens at `path`: a server that is being restarted looks slow from in here, not broken.
pub async fn connect(path: &Path) -> UnixStream {
    let mut pause = SHORTEST;
    loop {
        match UnixStream::connect(path).await {
            Ok(stream) => return stream,
            Err(_) => tokio::time::sleep(pause).await,
        }
        pause = (pause * 2).min(LONGEST);
    }
}
