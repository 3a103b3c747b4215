#!/usr/bin/env python3
"""UserPromptSubmit: refuses prompts with keys, adds to the others. decision block; sessionTitle; plain text."""
import json
import re
import sys

prompt = json.load(sys.stdin)["prompt"]
if re.search(r"KEY-\d+", prompt):
    print(json.dumps({"decision": "block", "reason": "The prompt holds a key.", "suppressOriginalPrompt": True}))
elif prompt.startswith("title:"):
    print(json.dumps({"hookSpecificOutput": {
        "hookEventName": "UserPromptSubmit",
        "sessionTitle": prompt[6:].strip(),
        "additionalContext": "The user gave a title.",
    }}))
else:
    print("The release is on Friday.")
