#!/usr/bin/env node
// PreToolUse for MCP tools: leaves the decision to somebody else, later. permissionDecision defer.
const event = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const [, server] = event.tool_name.split('__');
console.log(JSON.stringify({
  hookSpecificOutput: {
    hookEventName: 'PreToolUse',
    permissionDecision: 'defer',
    permissionDecisionReason: `${server} is somebody else's`,
  },
}));
