#!/usr/bin/env bash
# The installed package: a C and a C++ program compile against it without a warning, by pkg-config
# (shared and static) and by CMake, and run; and the command is there. Usage: package.sh BUILD-DIR
set -euo pipefail
build=$1
source=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --component holdfast --prefix "$work/usr" >/dev/null

pc=$(dirname "$(find "$work/usr" -name holdfast.pc)")
export PKG_CONFIG_PATH=$pc
library=$(pkg-config --variable=libdir holdfast)
read -ra flags < <(pkg-config --cflags --libs holdfast)
read -ra static_flags < <(pkg-config --static --cflags --libs holdfast)
cat >"$work/user.cpp" <<'CPP'
#include <holdfast.h>
int main()
{
    hf_client_options options = hf_client_options();
    options.size = sizeof options;
    options.store_url = "memory:";
    hf_client *client = 0;
    hf_lock *lock = 0;
    if (hf_client_new(&options, &client, 0) != 0) return 1;
    if (hf_acquire(client, "job", HF_FOREVER, 0, &lock, 0) != 0) return 1;
    hf_lock_unref(lock);
    return hf_client_close(client, 0);
}
CPP
strict=(-Wall -Wextra -pedantic -Werror)
gcc -std=c99 "${strict[@]}" "$source/examples/lock.c" -o "$work/c" "${flags[@]}"
g++ -std=c++11 "${strict[@]}" "$work/user.cpp" -o "$work/cpp" "${flags[@]}"
for program in c cpp; do LD_LIBRARY_PATH=$library "$work/$program"; done

mkdir "$work/static" && cp "$library"/libholdfast.a "$work/static"
gcc -std=c99 "${strict[@]}" "$source/examples/lock.c" -o "$work/c-static" -L"$work/static" "${static_flags[@]/-L$library/-L$work/static}"
"$work/c-static"
! ldd "$work/c-static" | grep -q libholdfast

readelf -d "$library/libholdfast.so" | grep -q 'SONAME.*libholdfast.so.0'
# What is exported is what the header declares.
declared=$(grep -oE '\bhf_[a-z_0-9]+\(' "$source/include/holdfast.h" | tr -d '(' | sort -u)
exported=$(nm -D --defined-only "$library/libholdfast.so" | awk '$2 == "T" {print $3}' | sed 's/@.*//' | sort -u)
[ "$declared" = "$exported" ] || { diff <(echo "$declared") <(echo "$exported"); exit 1; }
# … and is documented.
for name in $exported; do
    grep -q "\b$name\b" "$source/docs/LIBRARY.md" || { echo "$name is missing in docs/LIBRARY.md"; exit 1; }
done

mkdir "$work/project"
cat >"$work/project/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.13)
project(user C)
find_package(holdfast 0.1 REQUIRED)
add_executable(user user.c)
target_link_libraries(user holdfast::holdfast)
CMAKE
cp "$source/examples/lock.c" "$work/project/user.c"
cmake -S "$work/project" -B "$work/project/build" -DCMAKE_PREFIX_PATH="$work/usr" >/dev/null
cmake --build "$work/project/build" >/dev/null
"$work/project/build/user"
# What is installed is hardened: position-independent, its tables read-only, stacks and copies checked.
for file in "$work/usr/bin/holdfast" "$(find "$work/usr" -name holdfast-serve -type f)" "$(readlink -f "$library/libholdfast.so")"; do
    facts=$(readelf -hldW --dyn-syms "$file")
    for fact in 'Type: *DYN' 'GNU_RELRO' '\bNOW\b' 'GNU_STACK.* RW ' '__stack_chk_fail' '__[a-z]+_chk@'; do
        grep -qE "$fact" <<<"$facts" || { echo "${file##*/} lacks $fact"; exit 1; }
    done
done
# The command, its pages and its completions.
"$work/usr/bin/holdfast" --store "file:$work/locks.db" run job true
for page in "$source"/man/*; do
    find "$work/usr" -path "*/man*/${page##*/}" | grep -q . || { echo "${page##*/} is not installed"; exit 1; }
done
for name in $exported; do
    [ -f "$work/usr/share/man/man3/$name.3" ] || { echo "$name has no man page"; exit 1; }
done
for command in $("$work/usr/bin/holdfast" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    [ -f "$work/usr/share/man/man1/holdfast-$command.1" ] || { echo "$command has no man page"; exit 1; }
done
! grep -rlE 'docs/[A-Z]+\.md|\.\\" [A-Z]' "$work/usr/share/man" || { echo "not filled in"; exit 1; }
for file in bash-completion/completions/holdfast zsh/site-functions/_holdfast fish/vendor_completions.d/holdfast.fish; do
    [ -f "$work/usr/share/$file" ] || { echo "$file is not installed"; exit 1; }
done
echo "the package is fine"
