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

/// Puts the workspace on the session's branch, at `START`, and the files of a conversation that was kept, if `CONVERSATION`
/// names one, into the home. Reads `BRANCH`, `BASE`, `START`, `CONVERSATION`, `REMOTE`, `AUTHOR_NAME`, `AUTHOR_EMAIL`. Values that
/// need no quoting, as most, are written without asking git for each.
pub fn prepare() -> String {
    format!(
        r#"set -eu
{QUIET_GIT}
if [ "$START" != "$BASE" ]; then
    git fetch --quiet --no-tags "$REMOTE" "$START" $CONVERSATION
    git checkout --quiet --force --detach "$START" --
elif [ -n "$CONVERSATION" ]; then
    git fetch --quiet --no-tags "$REMOTE" "$CONVERSATION"
fi
if [ -n "$CONVERSATION" ]; then
    (
        GIT_INDEX_FILE="$HOME/.harvest-conversation-index"
        export GIT_INDEX_FILE
        git read-tree "$CONVERSATION"
        git checkout-index --all --force --prefix="$HOME/"
        rm -f "$GIT_INDEX_FILE"
    ) || true # An agent that does not find its conversation is told what was said.
fi
git update-ref "refs/heads/$BRANCH" "$START"
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
/// HEAD or branch. Nothing is pushed when the work tree is as it was at `START`, or in the checkpoint `LAST`.
pub fn checkpoint() -> String {
    format!(
        r#"set -eu
{QUIET_GIT}{IGNORE_LITTER}
GIT_INDEX_FILE="$HOME/.harvest-checkpoint-index"
export GIT_INDEX_FILE
cp "$(command git rev-parse --git-dir)/index" "$GIT_INDEX_FILE"
add_all
tree=$(git write-tree)
[ "$tree" != "$(git rev-parse 'HEAD^{{tree}}')" ] || [ "$(git rev-parse HEAD)" != "$START" ] || exit 0
state="$tree $(git rev-parse HEAD)"
[ -z "$LAST" ] || [ "$state" != "$(cat "$HOME/.harvest-checkpoint" 2> /dev/null)" ] || exit 0
commit=$(git commit-tree -p HEAD -m "Checkpoint" "$tree")
git push --quiet "$REMOTE" "$commit:$REF"
printf '%s\n' "$state" > "$HOME/.harvest-checkpoint"
"#
    )
}

/// What [`finish`] prints when the agent's conversation is too large to be kept.
pub const TOO_LARGE: &str = "harvest: the conversation is too large";

/// Commits what the agent left uncommitted and pushes `HEAD` to the session's branch. Where it left nothing, because it
/// committed by itself since `START`, its last commit gets the trailers of `MESSAGE`. Of the home, the paths in `STATE`
/// (divided by spaces) go to `STATE_REF`, as far as they are there and not larger than `STATE_KIB`; the work comes out
/// whether or not they do. Without a `MESSAGE` only they do.
pub fn finish() -> String {
    format!(
        r#"set -eu
{QUIET_GIT}{IGNORE_LITTER}
git_dir=$(command git rev-parse --absolute-git-dir)
rm -f "$git_dir/index.lock"
if [ -n "$MESSAGE" ]; then
    add_all
    if ! git diff --cached --quiet HEAD --; then
        printf '%s\n' "$MESSAGE" | git commit --quiet --no-verify --file=-
    elif ! git merge-base --is-ancestor HEAD "$START"; then
        (
            said="$git_dir/harvest-message"
            git log -1 --format=%B > "$said"
            printf '%s\n' "$MESSAGE" | git interpret-trailers --parse | while IFS= read -r line; do
                git interpret-trailers --in-place --if-exists addIfDifferent --trailer "$line" "$said"
            done
            if [ "$(git log -1 --format=%B)" != "$(cat "$said")" ]; then
                git commit --quiet --no-verify --allow-empty --amend --file="$said"
            fi
            rm -f "$said"
        ) || true # The work matters more than what its message says.
    fi
    set -- "HEAD:refs/heads/$BRANCH"
else
    set --
fi
keep() (
    cd "$HOME"
    set --
    for path in $STATE; do if [ -e "$path" ]; then set -- "$@" "$path"; fi; done
    [ $# -gt 0 ] || exit 1
    size=$(du -skc -- "$@" | tail -n 1)
    if [ "${{size%%[!0-9]*}}" -gt "$STATE_KIB" ]; then
        echo '{TOO_LARGE}' >&2
        exit 1
    fi
    GIT_DIR=$git_dir GIT_WORK_TREE=$HOME GIT_INDEX_FILE="$HOME/.harvest-conversation-index"
    export GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
    rm -f "$GIT_INDEX_FILE"
    git -c core.autocrlf=false -c core.attributesFile=/dev/null add --force -- "$@"
    tree=$(git write-tree)
    git commit-tree -m Conversation "$tree"
)
if [ -n "$STATE" ] && kept=$(keep); then
    git push --quiet --force "$REMOTE" "$@" "$kept:$STATE_REF" && exit 0
fi
[ $# -eq 0 ] || git push --quiet --force "$REMOTE" "$@"
"#
    )
}

/// Commits the text `PLAN` as the file `FILE` on top of `START`, with nothing of the work tree, and pushes it to `REFERENCE`.
pub fn commit_one_file() -> String {
    format!(
        r#"set -eu
{QUIET_GIT}
GIT_INDEX_FILE="$HOME/.harvest-plan-index"
export GIT_INDEX_FILE
rm -f "$GIT_INDEX_FILE"
git read-tree "$START"
blob=$(printf '%s\n' "$PLAN" | git hash-object -w --stdin)
git update-index --add --cacheinfo "100644,$blob,$FILE"
tree=$(git write-tree)
commit=$(printf '%s\n' "$SUBJECT" | git commit-tree -p "$START" "$tree")
git push --quiet --force "$REMOTE" "$commit:$REFERENCE"
"#
    )
}

/// Takes back what [`check_out`] restored and removed.
pub fn as_delivered() -> String {
    format!("set -eu\n{QUIET_GIT}\ngit reset --quiet --hard \"$COMMIT\"\n")
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
