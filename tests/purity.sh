#!/usr/bin/env bash
# The pure layers use nothing but what tests/purity.allow names: no I/O, no
# clock, no thread, no environment. Usage: purity.sh BUILD-DIR LAYER…
set -euo pipefail
build=$1
shift
allow=$(dirname "$0")/purity.allow
failed=0

objects() {
    find "$build/src/CMakeFiles/hf_$1.dir" -name '*.o'
}

# What the project itself defines may be used; whether a layer may is for its include path to say.
defined=$(for layer in base "$@"; do objects "$layer"; done | xargs nm --defined-only -j | sort -u)
own_allocator="hf__malloc hf__calloc hf__realloc hf__free hf__strdup"

for layer in "$@"; do
    count=$(objects "$layer" | wc -l)
    [ "$count" -gt 0 ] || { echo "no objects of layer $layer in $build"; exit 1; }
    foreign=$(objects "$layer" | xargs nm -u -j | grep -v ':$' | sed '/^$/d' | sort -u |
        grep -vxF -f <(echo "$defined"; tr ' ' '\n' <<<"$own_allocator"; sed '/^#/d;/^$/d' "$allow") || true)
    if [ -n "$foreign" ]; then
        echo "layer $layer uses what is not allowed:" $foreign
        failed=1
    fi
    # A pure layer has no writable data of its own either; constants that are relocated may stay.
    globals=$(objects "$layer" | xargs objdump -t |
        awk '{for (i = 1; i < NF; i++) if ($i ~ /^(\.data|\.bss|\.tbss|\.tdata|\*COM\*)$/ && $NF !~ /^\./) print $NF}')
    if [ -n "$globals" ]; then
        echo "layer $layer has global variables:" $globals
        failed=1
    fi
    echo "layer $layer: $count objects checked"
done
exit "$failed"
