//! One connection to the gateway, which outlives the server at the other end where that is possible.
//!
//! A server that dies cuts every connection. A request of which no answer has begun is sent again to the next server, so that
//! whoever asked sees a slow answer and not a broken one. It is kept for that, within bounds, until its answer begins. A
//! request whose answer has begun is cut for the client as well: it knows best what to do about half an answer.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use crate::gateway::connect;

/// The largest request that is kept.
const LARGEST: usize = 16 << 20;
/// What all connections together may keep.
const MOST_KEPT: usize = 64 << 20;
/// How often one request is sent again.
const REPEATS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(50);
const READ: usize = 32 * 1024;

/// What is left of [`MOST_KEPT`], shared by all connections.
#[derive(Debug, Clone)]
pub struct Room(Rc<Cell<usize>>);

impl Default for Room {
    fn default() -> Self {
        Self(Rc::new(Cell::new(MOST_KEPT)))
    }
}

/// Whose end of the connection is over.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Client,
    Gateway,
}

/// Joins a client to the gateway until either is done.
pub async fn relay(mut client: TcpStream, gateway: &Path, room: Room) {
    // Streamed answers come in small pieces that should not wait for each other.
    let _ = client.set_nodelay(true);
    let request = RefCell::new(Request::new(room));
    let client_is_done = Cell::new(false);
    for repeat in 0..=REPEATS {
        let mut upstream = tokio::select! {
            upstream = connect(gateway) => upstream,
            () = hung_up(&client) => return,
        };
        let again = request.borrow().kept.clone();
        let end = exchange(&mut client, &mut upstream, &request, &client_is_done, again).await;
        if end == End::Client || client_is_done.get() || !request.borrow().may_be_repeated() {
            return;
        }
        tokio::time::sleep(PAUSE * repeat).await;
    }
}

/// Until one of them ends. `again` is sent first.
async fn exchange(
    client: &mut TcpStream,
    upstream: &mut UnixStream,
    request: &RefCell<Request>,
    client_is_done: &Cell<bool>,
    again: Vec<u8>,
) -> End {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_gateway, mut to_gateway) = upstream.split();
    let asking = async {
        let mut buffer = vec![0; READ];
        // That the gateway takes no more is told by the end of what it says.
        let mut is_taken = to_gateway.write_all(&again).await.is_ok();
        drop(again);
        while is_taken {
            match from_client.read(&mut buffer).await {
                Err(_) => return End::Client,
                Ok(0) => {
                    client_is_done.set(true);
                    let _ = to_gateway.shutdown().await;
                    break;
                }
                Ok(length) => {
                    let bytes = buffer.get(..length).unwrap_or_default();
                    request.borrow_mut().asks(bytes);
                    is_taken = to_gateway.write_all(bytes).await.is_ok();
                }
            }
        }
        std::future::pending().await
    };
    let answering = async {
        let mut buffer = vec![0; READ];
        loop {
            let length = match from_gateway.read(&mut buffer).await {
                Ok(length) if length > 0 => length,
                _ => return End::Gateway,
            };
            let bytes = buffer.get(..length).unwrap_or_default();
            request.borrow_mut().is_answered(bytes);
            if to_client.write_all(bytes).await.is_err() {
                return End::Client;
            }
        }
    };
    tokio::select! {
        end = asking => end,
        end = answering => end,
    }
}

/// Returns when the client has gone; never while it may have something to say.
async fn hung_up(client: &TcpStream) {
    let mut byte = [0];
    match client.peek(&mut byte).await {
        Ok(0) | Err(_) => {}
        Ok(_) => std::future::pending().await,
    }
}

/// The newest request of a connection.
#[derive(Debug)]
struct Request {
    kept: Vec<u8>,
    /// Nothing of it is missing in what is kept.
    is_whole: bool,
    is_answered: bool,
    /// It is no longer HTTP that passes here.
    is_tunnel: bool,
    room: Room,
}

impl Request {
    fn new(room: Room) -> Self {
        Self { kept: Vec::new(), is_whole: true, is_answered: false, is_tunnel: false, room }
    }

    fn asks(&mut self, bytes: &[u8]) {
        if self.is_answered && !self.is_tunnel {
            // The next one on the same connection.
            (self.is_answered, self.is_whole) = (false, true);
        }
        let room = self.room.0.get();
        if !self.is_whole || self.is_tunnel || self.kept.len() + bytes.len() > LARGEST || bytes.len() > room {
            self.is_whole = false;
            self.forget();
        } else {
            self.room.0.set(room - bytes.len());
            self.kept.extend_from_slice(bytes);
        }
    }

    fn is_answered(&mut self, bytes: &[u8]) {
        // "Continue" asks for the rest of the request.
        if self.is_answered || bytes.starts_with(b"HTTP/1.1 100") {
            return;
        }
        self.is_tunnel = self.kept.starts_with(b"CONNECT ");
        self.is_answered = true;
        self.forget();
    }

    fn forget(&mut self) {
        let kept = std::mem::take(&mut self.kept);
        self.room.0.set(self.room.0.get() + kept.len());
    }

    /// Of what changes something, only calls of a model: whoever pushes looks first where the other side is.
    fn may_be_repeated(&self) -> bool {
        let mut words = self.kept.split(|byte| *byte == b' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let is_ours = target.starts_with(b"/") && !target.starts_with(b"/git/");
        let is_safe = matches!(method, b"GET" | b"HEAD") || (method == b"POST" && is_ours);
        self.is_whole && !self.is_answered && is_safe
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.forget();
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, UnixListener};

    use super::*;

    const CALL: &[u8] = b"POST /anthropic/v1/messages HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}";
    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

    /// A client whose connection leads to a gateway at a path where nobody listens yet.
    async fn world() -> (tempfile::TempDir, TcpStream, Room) {
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        let (path, room) = (folder.path().join("gateway.sock"), Room::default());
        let used = room.clone();
        tokio::task::spawn_local(async move { relay(accepted, &path, used).await });
        (folder, client, room)
    }

    fn listen(folder: &tempfile::TempDir) -> UnixListener {
        let path = folder.path().join("gateway.sock");
        let _ = std::fs::remove_file(&path);
        UnixListener::bind(path).unwrap()
    }

    async fn hear(stream: &mut (impl AsyncReadExt + Unpin), wanted: &[u8]) {
        let mut heard = vec![0; wanted.len()];
        tokio::time::timeout(Duration::from_secs(20), stream.read_exact(&mut heard)).await.unwrap().unwrap();
        assert_eq!(heard, wanted);
    }

    async fn locally(test: impl Future<Output = ()>) {
        tokio::task::LocalSet::new().run_until(test).await;
    }

    #[tokio::test]
    async fn a_call_cut_before_its_answer_is_sent_again_and_one_cut_later_is_not() {
        locally(async {
            let (folder, mut client, room) = world().await;
            client.write_all(CALL).await.unwrap();
            let first = listen(&folder);
            let (mut dying, _) = first.accept().await.unwrap();
            hear(&mut dying, CALL).await;
            drop((dying, first));
            let second = listen(&folder);
            let (mut server, _) = second.accept().await.unwrap();
            hear(&mut server, CALL).await;
            server.write_all(ANSWER).await.unwrap();
            hear(&mut client, ANSWER).await;
            // The next request of the same connection gets half an answer.
            client.write_all(CALL).await.unwrap();
            hear(&mut server, CALL).await;
            server.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf").await.unwrap();
            drop(server);
            let mut rest = Vec::new();
            client.read_to_end(&mut rest).await.unwrap();
            assert!(rest.ends_with(b"half"));
            assert_eq!(room.0.get(), MOST_KEPT);
        })
        .await;
    }

    #[tokio::test]
    async fn a_body_asked_for_in_two_steps_is_sent_again_as_a_whole() {
        locally(async {
            let (folder, mut client, _) = world().await;
            let (head, body) = (&CALL[..CALL.len() - 2], &CALL[CALL.len() - 2..]);
            let first = listen(&folder);
            client.write_all(head).await.unwrap();
            let (mut dying, _) = first.accept().await.unwrap();
            hear(&mut dying, head).await;
            dying.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.unwrap();
            hear(&mut client, b"HTTP/1.1 100 Continue\r\n\r\n").await;
            client.write_all(body).await.unwrap();
            hear(&mut dying, body).await;
            drop((dying, first));
            let (mut server, _) = listen(&folder).accept().await.unwrap();
            hear(&mut server, CALL).await;
        })
        .await;
    }

    #[tokio::test]
    async fn pushes_and_tunnels_are_never_sent_again() {
        for request in
            [&b"POST /git/repository/git-receive-pack HTTP/1.1\r\n\r\n"[..], b"CONNECT a:443 HTTP/1.1\r\n\r\n"]
        {
            locally(async {
                let (folder, mut client, _) = world().await;
                let first = listen(&folder);
                client.write_all(request).await.unwrap();
                let (mut dying, _) = first.accept().await.unwrap();
                hear(&mut dying, request).await;
                drop(dying);
                assert_eq!(client.read(&mut [0; 8]).await.unwrap_or(0), 0);
            })
            .await;
        }
    }

    #[tokio::test]
    async fn one_that_always_hangs_up_is_not_asked_for_ever() {
        locally(async {
            let (folder, mut client, _) = world().await;
            let listener = listen(&folder);
            client.write_all(CALL).await.unwrap();
            for _ in 0..=REPEATS {
                let (mut dying, _) = listener.accept().await.unwrap();
                hear(&mut dying, CALL).await;
            }
            assert_eq!(client.read(&mut [0; 8]).await.unwrap_or(0), 0);
        })
        .await;
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let room = Room::default();
        let mut requests: Vec<Request> = (0..5).map(|_| Request::new(room.clone())).collect();
        for request in &mut requests {
            request.asks(b"GET / ");
            request.asks(&vec![b'x'; LARGEST - 6]);
        }
        assert_eq!(requests.iter().filter(|request| request.may_be_repeated()).count(), MOST_KEPT / LARGEST);
        let mut too_large = Request::new(Room::default());
        too_large.asks(CALL);
        too_large.asks(&vec![b'x'; LARGEST]);
        assert!(!too_large.may_be_repeated() && too_large.kept.is_empty());
        drop(requests);
        assert_eq!(room.0.get(), MOST_KEPT);
    }
}
