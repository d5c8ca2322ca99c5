//! What a host can do to whoever asks it: nothing but answer.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::time::Duration;

use harvest_outbound::{Ask, Client, Error, escape};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A host that gives everyone this answer, and then says no more.
async fn host(answer: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(&answer).await;
            kept.push(stream);
        }
    });
    url
}

#[tokio::test]
async fn a_redirect_is_an_answer_like_any_other() {
    let url = host(b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n".to_vec()).await;
    let answer = Client::new(Duration::from_secs(10)).ask(Ask::get(&url).header("authorization", "x")).await.unwrap();
    assert_eq!((answer.status, answer.header("location")), (302, Some("http://127.0.0.1:1/")));
}

#[tokio::test]
async fn silence_and_floods_end() {
    let silent = host(Vec::new()).await;
    let told = Client::new(Duration::from_millis(200)).ask(Ask::get(&silent)).await.unwrap_err();
    assert!(matches!(told, Error::TooLate { .. }), "{told}");
    let mut flood = b"HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\n".to_vec();
    flood.resize(flood.len() + 20_000_000, b'x');
    let told = Client::new(Duration::from_secs(30)).ask(Ask::get(host(flood).await)).await.unwrap_err();
    assert!(matches!(told, Error::TooLarge { .. }), "{told}");
}

#[tokio::test]
async fn who_is_not_there_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let told = Client::new(Duration::from_secs(10)).ask(Ask::get(format!("http://{address}/x"))).await.unwrap_err();
    assert!(told.to_string().starts_with(&format!("{address} cannot be reached: ")), "{told}");
    for bad in ["ftp://x", "x", "", "http://"] {
        let told = Client::new(Duration::from_secs(10)).ask(Ask::get(bad)).await.unwrap_err();
        assert!(matches!(told, Error::BadUrl(_)), "{bad}");
    }
    assert_eq!(escape("a b/ü&="), "a%20b%2F%C3%BC%26%3D");
}
