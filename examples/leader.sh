#!/bin/sh
# One scheduler of many: start it everywhere, and one of them leads. Whoever leads runs the command;
# if it dies, another one takes over.
exec holdfast elect --lease "${LEASE:-10s}" --data "$(hostname)" scheduler -- sh -c '
    echo "leading with token $HOLDFAST_TOKEN"
    exec sleep "${SECONDS_TO_LEAD:-3600}"
'
