#!/usr/bin/env bash
# The unit tests, the contract in memory and a small attack on the service under valgrind: valgrind.sh BUILD-DIR
set -uo pipefail
build=$1
passed=0 failed=0
unset HOLDFAST_TEST_STORE
export AWS_EC2_METADATA_DISABLED=true
valgrind=(valgrind --quiet --leak-check=full --errors-for-leak-kinds=definite --error-exitcode=99)

# Runs a command and counts it.
check() {
    local name=$1 output
    shift
    if output=$("$@" 2>&1); then
        passed=$((passed + 1))
    else
        printf 'valgrind %s:\n%s\n' "$name" "$(tail -n 60 <<<"$output")"
        failed=$((failed + 1))
    fi
}

for test in "$build"/tests/test_{base,item,format,lock,wire,contract}_* "$build"/tests/test_store_dynamodb; do
    check "${test##*/test_}" "${valgrind[@]}" "$test"
done
only=()
for attack in chunked pipelined json-bodies repeated-claims churn one-byte-short sessions waiters streams; do
    only+=(--only "$attack")
done
check attack python3 tests/attack/attack.py --short --no-timing "${only[@]}" \
    --under "${valgrind[*]} --trace-children=yes" --command "$build/src/holdfast" --caller "$build/tests/attack_caller"
echo "valgrind: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
