#!/usr/bin/env python3
"""PreToolUse for files: allows notes, refuses secrets, asks about the rest. JSON, permissionDecision."""
import json
import os
import sys

event = json.load(sys.stdin)
path = event["tool_input"].get("file_path", "")
assert os.path.isabs(path), path
name = os.path.basename(path)
if name.startswith(".env") or "/secrets/" in path:
    decision, reason = "deny", f"{name} holds secrets"
elif name.endswith(".md"):
    decision, reason = "allow", "notes are free"
else:
    decision, reason = "ask", f"{name} is code"
print(json.dumps({
    "suppressOutput": True,
    "hookSpecificOutput": {
        "hookEventName": event["hook_event_name"],
        "permissionDecision": decision,
        "permissionDecisionReason": reason,
    },
}))
