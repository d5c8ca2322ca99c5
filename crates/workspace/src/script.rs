//! What runs inside a sandbox to prepare a workspace, to checkpoint it and to send the result.
//!
//! These are shell scripts on purpose: the git they call sees the agent's own configuration, so it must run where the agent
//! runs and nowhere else. What they print is not believed; the session's repository is asked instead.

/// Hooks, file monitors and signing that the agent may have set up would only get in the way.
const QUIET_GIT: &str = r#"git() { command git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c commit.gpgsign=false -c gc.auto=0 "$@"; }"#;

/// What tools leave lying about and nobody means to deliver, also where the repository does not ignore it.
const IGNORE_LITTER: &str = r#"
printf '%s\n' '__pycache__/' '*.py[co]' '.pytest_cache/' '.mypy_cache/' '.ruff_cache/' 'node_modules/' '.venv/' '.DS_Store' '*.swp' > "$HOME/.harvest-ignore"
add_all() { git -c core.excludesFile="$HOME/.harvest-ignore" add --all; }"#;

/// Folders of a home where installations leave what later builds need. A prepared snapshot keeps them in its tree, and
/// every home made for it links there: no tool has to be told.
const KEPT_OF_HOME: &str = ".cargo/registry .cargo/git .cargo/bin go .m2/repository .m2/wrapper .gradle/caches \
.gradle/wrapper .yarn .bun/install .local/share/pnpm .local/share/uv .local/share/virtualenv .local/bin .local/lib \
.cache/uv .cache/pypoetry .cache/node .cache/go-build .cache/ms-playwright .cache/Cypress .cache/puppeteer .cache/pre-commit \
.nvm";

/// `link_home`: the home's folders lead into the tree, as far as the tree has them and the home has nothing there.
fn link_home() -> String {
    format!(
        r#"link_home() {{
    for name in {KEPT_OF_HOME}; do
        if [ -d "$PWD/.harvest/home/$name" ] && [ ! -e "$HOME/$name" ]; then
            case $name in */*) mkdir -p "$HOME/${{name%/*}}" ;; esac
            ln -s "$PWD/.harvest/home/$name" "$HOME/$name"
        fi
    done
}}"#
    )
}

/// Before an installation: what it leaves in these folders of its home lands in the tree.
pub fn keep_home() -> String {
    format!(
        r#"set -eu
{}
for name in {KEPT_OF_HOME}; do mkdir -p "$PWD/.harvest/home/$name"; done
link_home
"#,
        link_home()
    )
}

/// In a workspace on a prepared snapshot: shows in the home what was kept, and catches up to `BASE` where the snapshot is
/// of another commit. Only files that differ are written.
pub fn settle() -> String {
    format!(
        r#"set -eu
{QUIET_GIT}
{}
link_home
if [ "$(git rev-parse HEAD)" != "$BASE" ]; then
    git checkout --quiet --force --detach "$BASE" --
    git update-ref refs/harvest/base "$BASE"
fi
"#,
        link_home()
    )
}

/// Puts the workspace on the session's branch. Reads `BRANCH`, `BASE`, `REMOTE`, `AUTHOR_NAME`, `AUTHOR_EMAIL`. Values that
/// need no quoting, as most, are written without asking git for each.
pub fn prepare() -> String {
    format!(
        r#"set -eu
{QUIET_GIT}
git update-ref "refs/heads/$BRANCH" "$BASE"
git symbolic-ref HEAD "refs/heads/$BRANCH"
fetch='+refs/heads/*:refs/remotes/origin/*'
case $AUTHOR_NAME$AUTHOR_EMAIL$REMOTE in
*[!A-Za-z0-9\ @._:/+-]*)
    git config user.name "$AUTHOR_NAME"
    git config user.email "$AUTHOR_EMAIL"
    git config remote.origin.url "$REMOTE"
    git config remote.origin.fetch "$fetch"
    ;;
*)
    printf '[user]\n\tname = "%s"\n\temail = "%s"\n[remote "origin"]\n\turl = "%s"\n\tfetch = %s\n' \
        "$AUTHOR_NAME" "$AUTHOR_EMAIL" "$REMOTE" "$fetch" >> .git/config
    ;;
esac
"#
    )
}

/// Records the state of the work tree as a commit of its own and pushes it to `REF`, without touching the agent's index,
/// HEAD or branch.
pub fn checkpoint() -> String {
    format!(
        r#"set -eu
{QUIET_GIT}{IGNORE_LITTER}
GIT_INDEX_FILE="$HOME/.harvest-checkpoint-index"
export GIT_INDEX_FILE
cp "$(command git rev-parse --git-dir)/index" "$GIT_INDEX_FILE"
add_all
tree=$(git write-tree)
[ "$tree" != "$(git rev-parse 'HEAD^{{tree}}')" ] || [ "$(git rev-parse HEAD)" != "$BASE" ] || exit 0
commit=$(git commit-tree -p HEAD -m "Checkpoint" "$tree")
git push --quiet "$REMOTE" "$commit:$REF"
"#
    )
}

/// Commits what the agent left uncommitted and pushes `HEAD` to the session's branch.
pub fn finish() -> String {
    format!(
        r#"set -eu
{QUIET_GIT}{IGNORE_LITTER}
rm -f "$(command git rev-parse --git-dir)/index.lock"
add_all
if ! git diff --cached --quiet HEAD --; then
    printf '%s\n' "$MESSAGE" | git commit --quiet --no-verify --file=-
fi
git push --quiet --force "$REMOTE" "HEAD:refs/heads/$BRANCH"
"#
    )
}

/// Puts a fresh workspace at `COMMIT`, with the files in `RESTORE` (one path a line) as they were at `BASE`, and without
/// those in `REMOVE`.
pub fn check_out() -> String {
    format!(
        r#"set -eu
{QUIET_GIT}
git fetch --quiet --no-tags "$REMOTE" "$COMMIT"
git checkout --quiet --detach "$COMMIT" --
if [ -n "$RESTORE" ]; then
    printf '%s\n' "$RESTORE" | git --literal-pathspecs checkout --quiet "$BASE" --pathspec-from-file=-
fi
if [ -n "$REMOVE" ]; then
    printf '%s\n' "$REMOVE" | while IFS= read -r path; do rm -f -- "$path"; done
fi
"#
    )
}
