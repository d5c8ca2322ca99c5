//! What a sandbox can reach: packages from registries, hosts that are allowed, nothing else; and what is told about it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use serde_json::json;

use crate::support::World;

/// A registry with one package, at a private address that an operator may choose.
fn registry() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut line = String::new();
            while stream.read_line(&mut line).unwrap() > 2 {
                line.clear();
            }
            let body = r#"{"name":"orchard","versions":{}}"#;
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            stream.get_mut().write_all(format!("{head}{body}").as_bytes()).unwrap();
        }
    });
    address
}

const ASK: &str = r#"python3 -c '
import os, sys, urllib.request
try:
    print(urllib.request.urlopen(os.path.expandvars(sys.argv[1]), timeout=20).read().decode())
except Exception as error:
    print(error)
' "#;

#[test]
fn packages_come_through_the_gateway_and_hosts_that_are_not_allowed_do_not_exist() {
    let world = World::new();
    world.write(".harvest.toml", "[egress]\nallow = ['a.example.test', 'evil.test']\n");
    world.commit("Ask for hosts");
    let settings = world.home().join("settings.toml");
    let mirror = registry();
    fs::write(&settings, format!("[egress]\nallow = ['*.example.test']\n[registries]\nnpm = '{mirror}'\n")).unwrap();
    let replies = json!([{ "shell": [
        format!("{ASK} '${{npm_config_registry}}orchard'"),
        format!("{ASK} https://evil.test/; {ASK} https://evil.test/"),
        format!("{ASK} http://b.example.test/"),
        "cat ~/.cargo/config.toml; rm -rf ~/.cargo && ln -s / ~/.cargo",
        "touch src/new.sh",
    ] }, {}]);
    let ran = world.run(&replies, &["--test", "true", "--config", settings.to_str().unwrap()]);
    // The agent's link in place of a file did not keep the work from being saved.
    ran.assert_ended(0, "completed", None);
    let outputs = ran.tool_outputs();
    assert!(outputs[0].starts_with(r#"{"name":"orchard","versions":{}}"#), "{}", outputs[0]);
    assert!(outputs[1].contains("403"), "{}", outputs[1]);
    assert!(outputs[2].contains("403"), "the repository has narrowed the list: {}", outputs[2]);
    assert!(outputs[3].contains("sparse+http://127.0.0.1:"), "{}", outputs[3]);
    let mut told: Vec<_> = ran
        .of_type("egress")
        .iter()
        .map(|data| format!("{} {} {} {}", data["host"], data["port"], data["verdict"], data["connections"]))
        .collect();
    told.sort();
    assert_eq!(
        told,
        [r#""b.example.test" 80 "refused" 1"#, r#""evil.test" 443 "refused" 1"#, r#""evil.test" 443 "refused" 2"#]
    );
}

#[test]
fn without_an_allowed_host_there_is_no_proxy_to_be_found() {
    let world = World::new();
    let ran = world
        .run(&json!([{ "shell": "env | grep -i _proxy; echo ${npm_config_registry%%:*}" }, {}]), &["--test", "true"]);
    ran.assert_ended(0, "completed", None);
    assert_eq!(ran.tool_outputs()[0], "http\nexit code 0");
    assert!(ran.of_type("egress").is_empty());
}
