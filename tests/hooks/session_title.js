#!/usr/bin/env node
// SessionStart: a title and a first message. sessionTitle, initialUserMessage, watchPaths, reloadSkills.
const event = JSON.parse(require('fs').readFileSync(0, 'utf8'));
console.log(JSON.stringify({
  hookSpecificOutput: {
    hookEventName: 'SessionStart',
    sessionTitle: `From ${event.source}`,
    initialUserMessage: 'Say hello.',
    watchPaths: [`${event.cwd}/.env`],
    reloadSkills: true,
  },
}));
