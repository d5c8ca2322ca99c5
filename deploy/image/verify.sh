#!/bin/sh
# Tells every part of the image with its version, and fails when a required one is missing or another version than asked for.
#
#     verify.sh [ROOT]      ROOT: where the file system of the image is, when that is not here
set -eu

root=${1:-}
root=${root%/}
parts=$root/opt/harvest/parts
PATH=$root/usr/local/sbin:$root/usr/local/bin:$root/usr/sbin:$root/usr/bin:$root/sbin:$root/bin${1:+:$PATH}
export PATH
failed=0

# Where a program of the image is; nothing when it has none.
program() {
    found=$(command -v "$1") || return 1
    case $found in "$root"/*) echo "$found" ;; *) return 1 ;; esac
}

# The first thing that looks like a version in what a program says about itself.
told_version() {
    case $1 in go) said=$("$2" version 2>&1) ;; *) said=$("$2" --version 2>&1) ;; esac < /dev/null || return 1
    version=$(printf '%s\n' "$said" | grep -Eo '[0-9]+(\.[0-9]+)+' | head -n 1)
    echo "${version:-unknown}"
}

# The version of one part, or failure when it is not there.
version_of() {
    kind=$1 name=$2 command=${3:-}
    case $kind in
        user)
            uid=$(sed -n "s/^$name:[^:]*:\([0-9]*\):.*/\1/p" "$root/etc/passwd") || return 1
            [ -n "$uid" ] && [ "$uid" -ne 0 ] && echo "uid $uid"
            ;;
        program) path=$(program "$name") && told_version "$name" "$path" ;;
        npm)
            program "$command" > /dev/null || return 1
            sed -n 's/^ *"version": *"\([^"]*\)".*/\1/p' "$root/usr/local/lib/node_modules/$name/package.json" | head -n 1
            ;;
        pip) path=$(program "$command") && told_version "$command" "$path" ;;
        browser)
            for path in "$root"/opt/browsers/"$name"*/*/chrome "$root"/opt/browsers/"$name"*/*/headless_shell; do
                [ -x "$path" ] && told_version "$name" "$path" && return 0
            done
            return 1
            ;;
        file) [ -s "$root$name" ] && echo present ;;
        *) return 1 ;;
    esac
}

if [ ! -r "$parts" ]; then
    echo "missing    the list of parts, $parts"
    exit 1
fi
while read -r level kind name version command; do
    case $level in '' | '#'*) continue ;; esac
    [ "$version" != - ] || version=
    if found=$(version_of "$kind" "$name" "$command" 2> /dev/null) && [ -n "$found" ]; then
        case $found in
            "$version"*)
                printf 'ok         %-42s %s\n' "$name" "$found"
                continue
                ;;
        esac
        problem="is $found, and $version was asked for"
    else
        problem='is not there'
    fi
    if [ "$level" = optional ]; then
        printf 'warning    %-42s %s\n' "$name" "$problem"
    else
        printf 'missing    %-42s %s\n' "$name" "$problem"
        failed=$((failed + 1))
    fi
done < "$parts"
if [ "$failed" -gt 0 ]; then
    echo "$failed required parts are missing or wrong" >&2
    exit 1
fi
