-- Going back: a checkpoint is chosen, what would be restored is shown, and it is restored and undone.

local harness = require('harness')
local case, equal, has = harness.case, harness.equal, harness.has

--- An editor with a task that has changed the buffer twice and is completed.
---@return roo.test.Editor
local function begin()
  local editor = harness.play(harness.workspace(), {
    'turns:',
    '  - calls: [{ tool: read_file, params: { files: [{ path: greeting.sh }] } }]',
    '  - calls: [{ tool: search_and_replace, params: { path: greeting.sh, search: hey, replace: Good day } }]',
    '  - calls: [{ tool: insert_content, params: { path: greeting.sh, line: 2, content: "# Politely" } }]',
    '  - calls: [{ tool: attempt_completion, params: { result: Done. } }]',
  })
  editor:command('Roo new --mode=code Change it')
  for _ = 1, 2 do
    editor:wait('an approval', [[
      local request = require('roo.requests').current()
      local approval = request and request.approvals[1]
      if approval and approval.approvalId ~= _G.answered then
        _G.answered = approval.approvalId
        require('roo').approve()
        return true
      end
    ]])
  end
  editor:wait('the end', [[return require('roo.requests').current().state == 'completed']])
  return editor
end

--- Waits for a float of this title, and gives its lines.
---@return string[]
local function float(editor, title)
  return editor:wait(('the float %q'):format(title), [[
    local config = vim.api.nvim_win_get_config(0)
    local shown = config.relative ~= '' and config.title and config.title[1][1] or ''
    return shown:find(..., 1, true) and vim.api.nvim_buf_get_lines(0, 0, -1, false)
  ]], title)
end

case('files go back to how they were before a change, and forth again', function()
  local editor = begin()
  local changed = editor:lines('greeting.sh')
  editor:command('Roo checkpoints')
  local listed = float(editor, 'Checkpoints')
  equal(#listed, 2)
  has(listed[1], '1  Before ')
  has(listed[1], '(1 file)')
  -- The older of the two: everything goes back.
  editor:press('2')
  equal(float(editor, ': what?')[1], '1  The files; the conversation goes on as it is')
  editor:press('1')
  local shown = table.concat(float(editor, 'Before '), '\n')
  has(shown, 'y restore · q back')
  has(shown, '-echo "Good day $name"\n+echo "hey $name"')
  -- Looking is not restoring.
  editor:press('q')
  equal(editor:lines('greeting.sh'), changed)
  editor:command('Roo checkpoints')
  float(editor, 'Checkpoints')
  editor:press('2')
  float(editor, ': what?')
  editor:press('1')
  float(editor, 'Before ')
  editor:press('y')
  editor:wait('the text as it was', [[return vim.fn.getbufoneline('greeting.sh', 5) == 'echo "hey $name"']])
  editor:wait('the word in the task', [[
    return table.concat(require('roo.requests').current():text(), '\n'):find('✓ restored', 1, true)
  ]])
  editor:command('Roo checkpoints')
  equal(float(editor, 'Checkpoints')[1], '1  Undo the last restore')
  editor:press('1')
  float(editor, ': what?')
  editor:press('1')
  float(editor, 'Undo the last restore')
  editor:press('y')
  editor:wait('the text as it had been changed', [[return vim.fn.getbufoneline('greeting.sh', 2) == '# Politely']])
  equal(editor:lines('greeting.sh'), changed)
  editor:quit()
end)

case('what the user has changed since stays, or gets conflict markers', function()
  local editor = begin()
  editor:lua([[vim.api.nvim_buf_set_lines(vim.fn.bufnr('greeting.sh'), 5, 6, false, { 'echo "Good evening $name"' })]])
  editor:command('Roo checkpoints')
  float(editor, 'Checkpoints')
  editor:press('2')
  float(editor, ': what?')
  editor:press('1')
  local shown = table.concat(float(editor, 'Before '), '\n')
  has(shown, 'y restore, but for these files · m restore, with conflict markers · q back')
  has(shown, 'greeting.sh stays as it is: ')
  editor:press('m')
  editor:wait('the preview with markers', [[
    local config = vim.api.nvim_win_get_config(0)
    return config.relative ~= '' and table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\n'):find('greeting.sh gets conflict markers', 1, true)
  ]])
  editor:press('y')
  editor:wait('conflict markers', [[
    return table.concat(vim.api.nvim_buf_get_lines(vim.fn.bufnr('greeting.sh'), 0, -1, false), '\n'):find('<<<<<<<', 1, true)
  ]])
  has(table.concat(editor:lines('greeting.sh'), '\n'), 'echo "Good evening $name"')
  editor:quit()
end)

case('a message is rewritten, and the task goes on from there with the files as they were', function()
  local editor = begin()
  editor:command('Roo open')
  editor:lua([[vim.fn.search('» Change it')]])
  editor:command('Roo edit')
  editor:wait('the prompt', [[return vim.bo.filetype == 'rooprompt']])
  equal(editor:shown(), 'Change it')
  editor:press('A politely<CR>')
  equal(float(editor, 'Go on from the changed message')[2], '2  The files go back too')
  editor:press('2')
  editor:wait('the preview', [[return vim.bo.filetype == 'rooreview']])
  has(editor:shown(), 'y restore · q back')
  has(editor:shown(), 'the model no longer sees ')
  editor:press('y')
  editor:wait('the text as it was', [[return vim.fn.getbufoneline('greeting.sh', 5) == 'echo "hey $name"']])
  editor:wait('the new message', [[
    return table.concat(require('roo.requests').current():text(), '\n'):find('» Change it politely', 1, true)
  ]])
  -- The task does the same again.
  editor:wait('an approval', [[return #require('roo.requests').current().approvals == 1]])
  editor:quit()
end)

harness.run()
