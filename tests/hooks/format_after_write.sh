#!/bin/bash
# PostToolUse for files: looks at what was written. decision block with reason, exit code 0.
input=$(cat)
file=$(printf '%s' "$input" | sed -n 's/.*"tool_input":{"file_path":"\([^"]*\)".*/\1/p')
if grep -q $'\t' "$file"; then
  printf '{"decision": "block", "reason": "%s has tabs; use spaces."}\n' "${file##*/}"
fi
