#!/usr/bin/env node
// PreToolUse for commands: runs tests quietly. updatedInput, additionalContext.
let text = '';
process.stdin.on('data', (piece) => { text += piece; });
process.stdin.on('end', () => {
  const event = JSON.parse(text);
  const command = event.tool_input.command;
  if (!command.startsWith('npm test')) process.exit(0);
  console.log(JSON.stringify({
    hookSpecificOutput: {
      hookEventName: 'PreToolUse',
      permissionDecision: 'allow',
      updatedInput: { ...event.tool_input, command: `${command} --silent` },
      additionalContext: `Tests run quietly in ${event.cwd}.`,
    },
  }));
});
