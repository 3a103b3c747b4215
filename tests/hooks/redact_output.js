#!/usr/bin/env node
// PostToolUse for commands: takes keys out of the output. updatedToolOutput, additionalContext.
const event = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const response = event.tool_response;
if (/KEY-\d+/.test(response.stdout)) {
  console.log(JSON.stringify({
    hookSpecificOutput: {
      hookEventName: 'PostToolUse',
      updatedToolOutput: { ...response, stdout: response.stdout.replace(/KEY-\d+/g, '[redacted]') },
      additionalContext: 'A key was taken out of the output.',
    },
  }));
}
