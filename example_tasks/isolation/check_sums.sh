#!/bin/sh
# Runs the agent's program on each case of the reference and compares what it prints.
status=0
while IFS='=' read -r numbers expected; do
    found=$(printf '%s\n' $numbers | codereval-run ./total.sh)
    if [ "$found" != "$expected" ]; then
        echo "sum of $numbers: expected $expected, found $found"
        status=1
    fi
done <"$REFERENCE_DIR/cases"
exit $status
