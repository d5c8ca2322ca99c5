//! Trusted programs of the host on untrusted data.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;

use harvest_sandbox::Confined;

use crate::support::{self, Place};

fn helper(script: &str) -> Confined {
    Confined { program: "sh".to_owned(), args: vec!["-c".to_owned(), script.to_owned()], ..Confined::default() }
}

async fn run(place: &Place, helper: Confined) -> (bool, String) {
    let output = place.provider.confined(helper).stdin(Stdio::null()).output().await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text)
}

#[tokio::test]
async fn git_works_on_a_repository_it_was_given_and_sees_nothing_else() {
    for place in [support::local(), support::none()] {
        let folder = place.folder.path();
        let (mirror, repository, secret) = (folder.join("mirror"), folder.join("repo"), folder.join("secret"));
        for path in [&mirror, &repository, &secret] {
            fs::create_dir(path).unwrap();
        }
        fs::write(mirror.join("note"), "readable\n").unwrap();
        fs::write(secret.join("key"), "x").unwrap();
        place.provider.adopt(&repository).await.unwrap();
        let confined = Confined {
            program: "git".to_owned(),
            args: ["init", "--bare", "--quiet", "."].map(str::to_owned).to_vec(),
            writable: vec![repository.clone()],
            env: vec![("GIT_CONFIG_NOSYSTEM".to_owned(), "1".to_owned())],
            ..Confined::default()
        };
        assert_eq!(run(&place, confined).await, (true, String::new()));
        assert!(repository.join("HEAD").exists());
        let script = format!(
            "git -C {0} rev-parse --is-bare-repository && cat {1}/note && echo x > {0}/made",
            repository.display(),
            mirror.display()
        );
        let both = Confined { read_only: vec![mirror.clone()], writable: vec![repository.clone()], ..helper(&script) };
        assert_eq!(run(&place, both).await, (true, "true\nreadable\n".to_owned()));
        assert!(repository.join("made").exists());
        if place.provider.capabilities().isolated {
            let script =
                format!("echo x > {}/y; ls {}; cat /etc/shadow; ls /root /home", mirror.display(), secret.display());
            let (success, text) = run(&place, Confined { read_only: vec![mirror.clone()], ..helper(&script) }).await;
            assert!(!success && !text.contains("key"), "{text}");
            assert!(!mirror.join("y").exists());
            let (_, text) = run(&place, helper("id -u; env; tail -n +3 /proc/net/dev | cut -d: -f1")).await;
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            assert_eq!(lines.first(), Some(&"1000"), "{text}");
            assert_eq!(lines.last(), Some(&"lo"), "{text}");
            assert!(lines.iter().all(|line| !line.contains('=') || line.starts_with("P")), "{text}");
            let owner = fs::metadata(repository.join("made")).unwrap().uid();
            let own = fs::metadata(folder).unwrap().uid();
            assert!(owner != 0 && (own == 0 || owner == own), "{owner}");
        }
    }
}

#[tokio::test]
async fn a_helper_has_no_more_memory_than_it_was_given() {
    let place = support::local();
    let script = "dd if=/dev/zero of=/dev/null bs=256M count=1";
    assert!(run(&place, helper(script)).await.0);
    let (success, text) = run(&place, Confined { memory_bytes: Some(64 << 20), ..helper(script) }).await;
    assert!(!success && text.contains("memory exhausted"), "{text}");
}

#[tokio::test]
async fn input_and_exit_code_pass_through_and_dropping_ends_it() {
    let place = support::local();
    let mut command = place.provider.confined(helper("cat; exit 3"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut input, b"through").await.unwrap();
    drop(input);
    let output = child.wait_with_output().await.unwrap();
    assert_eq!((output.stdout.as_slice(), output.status.code()), (b"through".as_slice(), Some(3)));

    let mark = format!("mark-{}", support::id());
    let mut command = place.provider.confined(helper(&format!("echo ready; sleep 60; : {mark}")));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = [0; 5];
    tokio::io::AsyncReadExt::read_exact(child.stdout.as_mut().unwrap(), &mut line).await.unwrap();
    let mut pipe = child.stdout.take().unwrap();
    drop(child);
    // The pipe closes when the last of it is gone.
    let mut rest = Vec::new();
    let closed = tokio::io::AsyncReadExt::read_to_end(&mut pipe, &mut rest);
    tokio::time::timeout(support::PATIENCE, closed).await.unwrap().unwrap();
}
