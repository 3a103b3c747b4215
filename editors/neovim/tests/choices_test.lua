-- What the user chooses in the plugin's own floats, with keys: trust, modes, profiles.

local harness = require('harness')
local case, equal, has = harness.case, harness.equal, harness.has

local MODES = [[
customModes:
  - slug: poet
    name: 🪶 Poet
    roleDefinition: You write poems.
    groups: [read]
]]

--- An editor in a workspace that brings a mode, with a second profile in the user's own settings.
---@return roo.test.Editor
local function begin()
  local workspace = harness.workspace()
  vim.fn.writefile(vim.split(MODES, '\n'), workspace .. '/.roomodes')
  local config = vim.fn.tempname()
  vim.fn.mkdir(config .. '/roo-lsp', 'p')
  local script = harness.root .. '/tests/editors/scenario/turns.yaml'
  vim.fn.writefile({
    'profiles:',
    ('  scenario: { provider: scripted, model: script, script: %s }'):format(vim.json.encode(script)),
    ('  other: { provider: scripted, model: another, script: %s }'):format(vim.json.encode(script)),
  }, config .. '/roo-lsp/config.yaml')
  local editor = harness.editor(workspace, { XDG_CONFIG_HOME = config, ROO_TEST_NO_PROFILES = '1' })
  editor:open('greeting.sh')
  return editor
end

--- Waits for a float of the plugin, and gives its title and what it offers.
---@param editor roo.test.Editor
---@param title string
---@return string[]
local function float(editor, title)
  return editor:wait(('the float %q'):format(title), [[
    local config = vim.api.nvim_win_get_config(0)
    local shown = config.relative ~= '' and config.title and config.title[1][1] or ''
    return shown:find(..., 1, true) and vim.api.nvim_buf_get_lines(0, 0, -1, false)
  ]], title)
end

--- Waits until the float is closed.
---@param editor roo.test.Editor
local function closed(editor)
  editor:wait('the float to close', [[return vim.api.nvim_win_get_config(0).relative == '']])
end

---@param editor roo.test.Editor
---@param method string
---@param params table
local function ask(editor, method, params)
  return editor:lua([[
    local method, params = ...
    local client = vim.lsp.get_clients({ name = 'roo_lsp' })[1]
    return client:request_sync(method, next(params) and params or vim.empty_dict(), 60000).result
  ]], method, params)
end

--- Chooses an entry of a float with the cursor and Enter.
---@param editor roo.test.Editor
---@param offered string[]
---@param part string
local function choose(editor, offered, part)
  for index, line in ipairs(offered) do
    if line:find(part, 1, true) then
      editor:press(('j'):rep(index - 1) .. '<CR>')
      closed(editor)
      return
    end
  end
  error(('%s is none of:\n%s'):format(part, table.concat(offered, '\n')))
end

case('what a workspace brings is trusted in a float, and only when the user says so', function()
  local editor = begin()
  editor:wait('the word that there is something', [[return vim.fn.execute('messages'):find('would steer agents', 1, true)]])
  editor:command('Roo trust')
  local offered = float(editor, 'May this steer agents?')
  equal(offered, { '1  Later', '2  Trust this workspace: .roomodes' })
  editor:press('<CR>')
  closed(editor)
  equal(ask(editor, 'roo/trust/get', {}).trusted, false)
  -- Closing it decides as little.
  editor:command('Roo trust')
  float(editor, 'May this steer agents?')
  editor:press('q')
  closed(editor)
  equal(ask(editor, 'roo/trust/get', {}).trusted, false)
  editor:command('Roo trust')
  float(editor, 'May this steer agents?')
  editor:press('2')
  editor:wait('the word that it is granted', [[return vim.fn.execute('messages'):find('granted: Trust', 1, true)]])
  equal(ask(editor, 'roo/trust/get', {}).trusted, true)
  editor:quit()
end)

case('mode and profile of a request are switched in a float', function()
  local editor = begin()
  ask(editor, 'roo/trust/grant', {})
  editor:command('Roo new --mode=code Anything')
  -- The script has no turn for it: the task asks what to do, and waits.
  editor:wait_for_question()
  editor:command('Roo mode')
  local offered = float(editor, 'Mode')
  assert(#offered == 7, table.concat(offered, '\n'))
  choose(editor, offered, 'Poet')
  editor:wait('the mode', [[
    local request = require('roo.requests').current()
    return request:text()[1]:find('poet', 1, true)
  ]])
  editor:command('Roo profile')
  offered = float(editor, 'Profile')
  has(table.concat(offered, '\n'), 'other (scripted another)')
  choose(editor, offered, 'other')
  editor:wait('the profile', [[
    return table.concat(require('roo.requests').current():text(), '\n'):find('continues with the profile other', 1, true)
  ]])
  -- The user goes on; the next turn is the new mode's, which the task buffer says.
  editor:command('Roo answer 1')
  editor:wait('the next turn', [[
    return table.concat(require('roo.requests').current():text(), '\n'):find("in mode 'poet'", 1, true)
  ]])
  editor:command('Roo cancel')
  editor:wait('the end', [[return require('roo.requests').current().state == 'cancelled']])
  editor:quit()
end)

case('a preset has a key, and a command in the background is stopped from a float', function()
  local workspace = harness.workspace()
  vim.fn.mkdir(workspace .. '/src', 'p')
  vim.fn.writefile({ '[package]', 'name = "x"' }, workspace .. '/Cargo.toml')
  local config = vim.fn.tempname()
  vim.fn.mkdir(config .. '/roo-lsp', 'p')
  local script = vim.fn.tempname() .. '.yaml'
  vim.fn.writefile({
    'turns:',
    '  - calls: [{ tool: execute_command, params: { command: "ls && ls src" } }]',
    '  - calls: [{ tool: execute_command, params: { command: "sleep 986" } }]',
    '  - calls: [{ tool: ask_followup_question, params: { question: Go on?, follow_up: [{ text: Yes }] } }]',
    '  - calls: [{ tool: attempt_completion, params: { result: Done. } }]',
  }, script)
  vim.fn.writefile({
    'autoApprove: { execute: { mode: rules, allow: [[sleep]] } }',
    'profiles:',
    ('  scenario: { provider: scripted, model: script, script: %s }'):format(vim.json.encode(script)),
  }, config .. '/roo-lsp/config.yaml')
  local editor = harness.editor(workspace, { XDG_CONFIG_HOME = config, ROO_TEST_NO_PROFILES = '1' })
  editor:open('greeting.sh')
  editor:command('Roo new --mode=code Anything')
  editor:wait('the approval', [[
    local request = require('roo.requests').current()
    return request and #request.approvals > 0
  ]])
  editor:command('Roo review')
  has(table.concat(float(editor, 'Run ls'), '\n'), 'P Always allow')
  editor:press('P')
  -- What it is to allow from now on is said before.
  has(table.concat(float(editor, 'Always allow'), '\n'), 'y yes, from now on')
  editor:press('y')
  closed(editor)
  editor:wait('the second command', [[
    return table.concat(require('roo.requests').current():text(), '\n'):find('sleep 986', 1, true)
  ]])
  local rules = ask(editor, 'roo/rule/list', {}).rules
  equal(#rules, 1)
  equal(rules[1].subject.preset, 'cargo')
  editor:command('Roo background')
  editor:wait_for_question()
  editor:command('Roo stop')
  choose(editor, float(editor, 'Stop'), 'sleep 986')
  editor:wait('the end of the command', [[return next(require('roo.requests').current().commands) == nil]])
  editor:command('Roo answer 1')
  editor:wait('the end', [[return require('roo.requests').current().state == 'completed']])
  editor:quit()
end)

case('a prompt that is put off is there again until it is sent', function()
  local editor = begin()
  local function prompt()
    editor:command('Roo new')
    local lines = float(editor, 'Describe a task')
    editor:command('stopinsert')
    return lines
  end
  local leave = {
    ['its key'] = function()
      editor:press('q')
    end,
    ['another window'] = function()
      editor:command('wincmd p')
    end,
  }
  for name, put_off in pairs(leave) do
    equal(prompt(), { '' }, name)
    editor:lua([[vim.api.nvim_buf_set_lines(0, 0, -1, false, { 'Change much', 'and more' })]])
    put_off()
    closed(editor)
    -- A message is another text.
    editor:command('Roo send')
    equal(float(editor, 'Message the agent'), { '' })
    editor:press('q')
    closed(editor)
    equal(prompt(), { 'Change much', 'and more' }, name)
    equal(editor:lua([[return vim.api.nvim_win_get_cursor(0)[1] ]]), 2, 'the user goes on at its end')
    -- To empty it is to throw it away.
    editor:lua([[vim.api.nvim_buf_set_lines(0, 0, -1, false, {})]])
    put_off()
    closed(editor)
  end
  prompt()
  editor:lua([[vim.api.nvim_buf_set_lines(0, 0, -1, false, { 'Greet politely' })]])
  editor:press('q')
  closed(editor)
  prompt()
  editor:press('<CR>')
  editor:wait('the task', [[return require('roo.requests').current() ~= nil]])
  equal(prompt(), { '' }, 'what was sent is no draft')
  editor:quit()
end)

harness.run()
