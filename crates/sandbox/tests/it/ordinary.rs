//! Everything again as an ordinary user, when the tests are run by root.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

/// nobody: a uid that every system has and that owns nothing.
const NOBODY: &str = "65534";

#[test]
fn everything_passes_for_an_ordinary_user_too() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return harvest_testing::skip("only root can run it as someone else");
    }
    // The build folder may be closed to others.
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("it");
    // By another process: a child that another test starts meanwhile would hold the file open for writing, and so keep it busy.
    let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&program).status().unwrap();
    assert!(copied.success());
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--no-new-privs"])
        .arg(&program)
        // The files of the image lie where the sources are, which may be closed to others, too.
        .args(["--skip", "ordinary", "--skip", "image::", "--test-threads", "2"])
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .current_dir("/")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("0 failed"), "{text}");
}
