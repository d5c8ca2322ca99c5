#!/bin/sh
# Installs one kind of part from the list next to it: install.sh npm|pip
# A required part that cannot be installed fails the build; an optional one is a warning, and `verify.sh` tells again.
set -eu

parts=$(dirname "$0")/parts
kind=$1

install() {
    case $kind in
        npm) npm install --global --no-fund --no-audit --no-update-notifier "$1@$2" ;;
        pip) pip install --no-cache-dir --break-system-packages "$1==$2" ;;
        *) echo "install.sh: unknown kind $kind" >&2 && return 2 ;;
    esac
}

while read -r level found name version _; do
    case $level in '' | '#'*) continue ;; esac
    [ "$found" = "$kind" ] || continue
    # Standard input is the list; an installer must not read it.
    if install "$name" "$version" < /dev/null; then
        continue
    elif [ "$level" = optional ]; then
        echo "warning: $name $version could not be installed; the image goes on without it" >&2
    else
        echo "error: $name $version could not be installed, and it is required" >&2
        exit 1
    fi
done < "$parts"
