#!/bin/sh
# A job that cron starts on every machine, and that one of them runs:
#
#   0 3 * * *  /usr/local/bin/cron.sh
#
# Whoever comes second does nothing, and that is no error (-n -E 0).
exec holdfast run -n -E 0 "${JOB:-nightly-report}" -- sh -c '
    echo "report $(date +%F), token $HOLDFAST_TOKEN"
'
