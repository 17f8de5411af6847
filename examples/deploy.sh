#!/bin/sh
# A deploy in several steps, none of which may overlap with somebody else's. The grant goes from
# step to step; the steps may be processes, containers or jobs of a pipeline.
set -eu
grant=$(holdfast acquire -q --lease 1m --wait 10m --data "${REASON:-a deploy}" deploy)
trap 'holdfast release "$grant"' EXIT # whatever happens

echo "building"
holdfast renew -q "$grant" >/dev/null # and stop if the lock is gone (exit code 75)

echo "migrating"
holdfast renew -q "$grant" >/dev/null

echo "done"
