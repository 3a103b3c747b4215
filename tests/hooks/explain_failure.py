#!/usr/bin/env python3
"""PostToolUseFailure: says what a failure means. Exit code 2, standard error for the model."""
import json
import sys

event = json.load(sys.stdin)
assert event["is_interrupt"] is False
if "command not found" in event["error"]:
    print("The tool chain is in the container: prefix commands with `just`.", file=sys.stderr)
    sys.exit(2)
