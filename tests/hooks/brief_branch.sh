#!/bin/sh
# SubagentStart: adds to what a branch is told. additionalContext.
cat >/dev/null
echo '{"hookSpecificOutput": {"hookEventName": "SubagentStart", "additionalContext": "Read CONTRIBUTING.md first."}}'
