#!/bin/bash
# Stop: goes on until the tests pass, once. Exit code 2; stop_hook_active.
input=$(cat)
[[ $input == *'"stop_hook_active":true'* ]] && exit 0
[[ -e "$CLAUDE_PROJECT_DIR/tests-pass" ]] && exit 0
echo "The tests don't pass yet." >&2
exit 2
