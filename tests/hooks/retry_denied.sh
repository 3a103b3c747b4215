#!/bin/sh
# PermissionDenied: the model may try again. retry.
cat >/dev/null
printf '{"hookSpecificOutput": {"hookEventName": "PermissionDenied", "retry": true}}\n'
