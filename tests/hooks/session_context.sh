#!/bin/bash
# SessionStart: plain text for the model, and variables for commands. CLAUDE_ENV_FILE.
cat >/dev/null
if [ -n "$CLAUDE_ENV_FILE" ]; then
  echo 'export NODE_ENV=test' >>"$CLAUDE_ENV_FILE"
fi
echo "The branch is main."
