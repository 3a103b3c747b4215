#!/bin/bash
# PreToolUse: refuses commands that remove recursively. Exit code 2, the reason on standard error.
input=$(cat)
case "$input" in
  *'"command":"rm -r'* | *'"command":"rm -fr'*)
    echo "Removing recursively is not done here; move it to /tmp instead." >&2
    exit 2
    ;;
esac
exit 0
