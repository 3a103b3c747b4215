#!/usr/bin/env python3
"""Notification, StopFailure, PostCompact, SessionEnd: writes down what came. terminalSequence."""
import json
import os
import sys

event = json.load(sys.stdin)
with open(os.path.join(os.environ["CLAUDE_PROJECT_DIR"], "notified.jsonl"), "a") as log:
    log.write(json.dumps(event) + "\n")
print(json.dumps({"terminalSequence": "\x07", "systemMessage": "noted", "continue": False}))
