#!/usr/bin/env python3
"""PreToolUse in the older form: decision approve or block at the top."""
import json
import sys

event = json.load(sys.stdin)
if event["tool_name"] == "Read":
    print(json.dumps({"decision": "approve", "reason": "reading is free"}))
else:
    print(json.dumps({"decision": "block", "reason": "only reading is"}))
