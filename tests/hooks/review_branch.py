#!/usr/bin/env python3
"""SubagentStop: wants a summary. additionalContext; systemMessage."""
import json
import sys

event = json.load(sys.stdin)
if "Summary" not in event["last_assistant_message"]:
    print(json.dumps({
        "systemMessage": f"{event['agent_type']} wrote no summary",
        "hookSpecificOutput": {"hookEventName": "SubagentStop", "additionalContext": "End with a Summary."},
    }))
