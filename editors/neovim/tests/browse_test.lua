-- The page for a browser: opened on the task of the window, by the editor's own way to open addresses.

local harness = require('harness')
local case, equal, has = harness.case, harness.equal, harness.has

case('the task is opened in a browser, and the address lets in once', function()
  local editor = harness.play(harness.workspace(), {
    'turns:',
    '  - calls: [{ tool: ask_followup_question, params: { question: Which?, follow_up: [{ text: this }, { text: that }] } }]',
  })
  editor:lua([[
    vim.ui.open = function(address)
      vim.g.opened = address
      return { wait = function() return { code = 0 } end }
    end
  ]])
  editor:command('Roo new --mode=code Choose one')
  editor:wait_for_question()
  editor:command('Roo browse')
  local address = editor:wait('the address', [[return vim.g.opened]])
  has(address, 'http://127.0.0.1:')
  local task = editor:lua([[return require('roo.requests').current().root]])
  equal(address:match('#token=%x+&task=(.*)$'), task)
  editor:quit()
end)

case('where no address can be opened, it is told', function()
  local editor = harness.play(harness.workspace(), { 'turns: []' })
  editor:lua([[
    vim.ui.open = function() return nil, 'there is no browser' end
    vim.notify = function(text) vim.g.told = text end
  ]])
  editor:command('Roo browse')
  has(editor:wait('the message', [[return vim.g.told]]), 'open http://127.0.0.1:')
  editor:quit()
end)

harness.run()
