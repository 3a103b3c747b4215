-- Two editors on the live requests of one daemon.

local harness = require('harness')
local case, equal, has = harness.case, harness.equal, harness.has

local environment = { ROO_TEST_DAEMON = '1' }

local function windows(editor)
  return editor:lua([[return #vim.api.nvim_list_wins()]])
end

--- Two editors with the file of the workspace, of which the second keeps what it is told.
local function editors()
  local workspace = harness.workspace()
  local first, second = harness.editor(workspace, environment), harness.editor(workspace, environment)
  second:lua([[
    _G.told = {}
    vim.notify = function(text) table.insert(_G.told, text) end
  ]])
  first:open('greeting.sh')
  second:open('greeting.sh')
  return first, second
end

--- Ends the editors, and the daemon.
local function finish(...)
  for _, editor in ipairs({ ... }) do
    editor:quit()
  end
  vim.fn.system({ vim.env.ROO_LSP, 'daemon', 'stop' })
  equal(vim.v.shell_error, 0)
end

case('what another editor has begun is told and can be answered, and opens no window', function()
  local first, second = editors()
  harness.begin(first)
  first:wait_for_question()
  equal(windows(first), 2)
  second:wait_for_question()
  has(second:lua([[return require('roo').statusline()]]), '1 waiting for you')
  equal(windows(second), 1)
  has(table.concat(second:lua([[return _G.told]]), '\n'), 'Greet politely: How polite should the greeting be?')
  second:command('Roo answer 1')
  local answered = [[return #require('roo.requests').current().questions == 0]]
  first:wait('the answer', answered)
  second:wait('the answer', answered)
  second:command('Roo open')
  equal(windows(second), 2)
  has(second:shown(), '» Greet politely')
  first:command('Roo cancel')
  second:wait('the end', [[return require('roo.requests').current().state == 'cancelled']])
  finish(first, second)
end)

case('a command of this editor shows the request that it begins, here alone', function()
  local first, second = editors()
  first:lua([[
    local client = vim.lsp.get_clients({ name = 'roo_lsp' })[1]
    client:exec_cmd({ title = '', command = 'roo.newTask', arguments = { { prompt = 'Greet politely', mode = 'new-task' } } })
  ]])
  first:wait('its window', [[return #vim.api.nvim_list_wins() == 2]])
  local known = [[return require('roo.requests').current() ~= nil]]
  second:wait('the request', known)
  equal(windows(second), 1)
  first:command('Roo cancel')
  second:wait('the end', [[return require('roo.requests').current().state == 'cancelled']])
  equal(windows(second), 1)
  finish(first, second)
end)

harness.run()
