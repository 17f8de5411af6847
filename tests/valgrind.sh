#!/usr/bin/env bash
# The unit tests and the contract in memory under valgrind: valgrind.sh BUILD-DIR
set -uo pipefail
build=$1
passed=0 failed=0
unset HOLDFAST_TEST_STORE
export AWS_EC2_METADATA_DISABLED=true
for test in "$build"/tests/test_{base,item,format,lock,wire,contract}_* "$build"/tests/test_store_dynamodb; do
    name=${test##*/test_}
    if output=$(valgrind --quiet --leak-check=full --errors-for-leak-kinds=definite --error-exitcode=99 \
        "$test" 2>&1); then
        passed=$((passed + 1))
    else
        printf 'valgrind %s:\n%s\n' "$name" "$(tail -n 60 <<<"$output")"
        failed=$((failed + 1))
    fi
done
echo "valgrind: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
