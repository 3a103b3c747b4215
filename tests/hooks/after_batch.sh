#!/bin/sh
# PostToolBatch: adds a word, or ends the turn. additionalContext; continue, stopReason.
case "$(cat)" in
  *'"tool_name":"Write"'*'"tool_name":"Write"'*)
    echo '{"continue": false, "stopReason": "Two files at once are too many."}' ;;
  *)
    echo '{"hookSpecificOutput": {"hookEventName": "PostToolBatch", "additionalContext": "Run the tests now."}}' ;;
esac
