-- The context: its size in the line above the task, a summary by hand, and undoing it.

local harness = require('harness')
local case, equal, has = harness.case, harness.equal, harness.has

case('a conversation is summarized by hand, the size is shown by parts, and the summary is undone', function()
  local workspace = harness.workspace()
  local long = {}
  for number = 1, 400 do
    long[number] = ('a line that nobody needs twice, number %d'):format(number)
  end
  vim.fn.writefile(long, workspace .. '/long.txt')
  local editor = harness.play(workspace, {
    'turns:',
    '  - calls: [{ tool: read_file, params: { files: [{ path: long.txt }] } }]',
    '  - calls: [{ tool: ask_followup_question, params: { question: Go on?, follow_up: [{ text: Yes }] } }]',
    '  - calls: [{ tool: ask_followup_question, params: { question: Really?, follow_up: [{ text: Yes }] } }]',
    '  - calls: [{ tool: attempt_completion, params: { result: Done. } }]',
    '  - mode: condense',
    '    text: The long file holds four hundred lines that nobody needs.',
    '    repeat: true',
  })
  editor:command('Roo new --mode=code Read it')
  editor:wait_for_question()
  editor:command('Roo condense')
  editor:command('Roo answer 1')
  local text = editor:wait('the summary', [[
    local request = require('roo.requests').current()
    local text = table.concat(request:text(), '\n')
    return #request.questions == 1 and text:find('⇣ context shortened: ', 1, true) and text
  ]])
  has(text, ', earlier turns summarized')
  has(editor:lua([[return vim.fn.execute('messages')]]), 'context shortened: ')
  has(text, 'The long file holds four hundred lines')
  editor:command('Roo context')
  local offered = editor:wait('what was shortened', [[
    local config = vim.api.nvim_win_get_config(0)
    return config.relative ~= '' and { config.title[1][1], vim.api.nvim_buf_get_lines(0, 0, -1, false) }
  ]])
  has(offered[1], 'context ')
  has(offered[1], 'system ')
  equal(#offered[2], 1)
  has(offered[2][1], ', summarized: ')
  editor:press('1')
  editor:wait('the restored context', [[
    return table.concat(require('roo.requests').current():text(), '\n'):find('⇡ context restored: ', 1, true)
  ]])
  editor:command('Roo answer 1')
  editor:wait('the end', [[return require('roo.requests').current().state == 'completed']])
  editor:quit()
end)

harness.run()
