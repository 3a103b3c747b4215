-- The scenario by plain LSP: with the configuration's file alone, and with the plugin whose typed part is off.

local harness = require('harness')
local case, equal, has = harness.case, harness.equal, harness.has

--- A runtime directory with lsp/roo_lsp.lua and nothing else.
local function alone()
  local directory = vim.fn.tempname()
  vim.fn.mkdir(directory .. '/lsp', 'p')
  assert(vim.uv.fs_copyfile(harness.root .. '/editors/neovim/lsp/roo_lsp.lua', directory .. '/lsp/roo_lsp.lua'))
  return directory
end

--- Keeps what the server asks and says; the test chooses later, as a user does.
local PREPARE = [[
  _G.asked, _G.said, _G.custom = {}, {}, {}
  vim.ui.select = function(items, options, on_choice)
    local titles = vim.tbl_map(options.format_item, items)
    table.insert(_G.asked, { prompt = options.prompt, titles = titles, items = items, choose = on_choice })
  end
  vim.lsp.handlers['window/showMessage'] = function(_, params)
    table.insert(_G.said, params.message)
  end
  vim.lsp.handlers['roo/event'] = function(_, params)
    table.insert(_G.custom, params)
  end
]]

--- What is asked now, if it holds this text.
local ASKED = [[
  local part = ...
  local last = _G.asked[#_G.asked]
  if last and not last.done and last.prompt:find(part, 1, true) then
    return { prompt = last.prompt, titles = last.titles }
  end
]]

local CHOOSE = [[
  local title = ...
  local last = _G.asked[#_G.asked]
  last.done = true
  for index, shown in ipairs(last.titles) do
    if shown == title then
      last.choose(last.items[index], index)
      return true
    end
  end
  error(('%s is none of: %s'):format(title, table.concat(last.titles, ', ')))
]]

local EXECUTE = [[
  local command, argument = ...
  local client = vim.lsp.get_clients({ name = 'roo_lsp' })[1]
  local answer = client:request_sync('workspace/executeCommand', { command = command, arguments = { argument } }, 60000)
  return answer
]]

--- Whether a buffer holds this text.
local SHOWN = [[
  local part = ...
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    if table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), '\n'):find(part, 1, true) then
      return true
    end
  end
]]

local SAID = [[
  local part = ...
  for _, message in ipairs(_G.said) do
    if message:find(part, 1, true) then
      return message
    end
  end
]]

---@param name string
---@param environment table<string, string>
---@param by table<string, fun(editor: roo.test.Editor)> How the user starts, cancels and resumes.
local function scenario(name, environment, by)
  case('the scenario, plain: ' .. name, function()
    local workspace = harness.workspace()
    local editor = harness.editor(workspace, environment)
    editor:lua(PREPARE)
    editor:open('greeting.sh')
    editor:add_unsaved()
    by.start(editor)
    -- The question: the harmless answer first, and a dismissed popup decides nothing.
    local asked = editor:wait('the question', ASKED, 'How polite should the greeting be?')
    equal(asked.titles, { 'Later', 'Formal: Good day', 'Friendly: Hello' })
    editor:lua(CHOOSE, 'Formal: Good day')
    asked = editor:wait('the first approval', ASKED, 'Create docs/greeting.md')
    equal(asked.titles[1], 'Show details')
    -- The details are a document, and the question is asked again.
    editor:lua(CHOOSE, 'Show details')
    editor:wait('the diff', SHOWN, '+# The greeting')
    editor:wait('the first approval again', ASKED, 'Create docs/greeting.md')
    editor:lua(CHOOSE, 'Allow')
    editor:wait('the second approval', ASKED, 'Edit greeting.sh')
    editor:lua(CHOOSE, 'Allow')
    editor:wait('the third approval', ASKED, 'Run sh greeting.sh')
    local lines = editor:lines('greeting.sh')
    equal({ lines[5], lines[#lines] }, { 'echo "Good day, $name."', '# not saved yet' })
    -- Here nobody saves for the user.
    editor:lua([[vim.api.nvim_buf_call(vim.fn.bufnr('greeting.sh'), function() vim.cmd('silent write') end)]])
    editor:lua(CHOOSE, 'Allow')
    harness.wait('the slow text', function()
      -- The save may have changed what the approval was about: then it is asked once more.
      if editor:lua(ASKED, 'Run sh greeting.sh') ~= vim.NIL then
        editor:lua(CHOOSE, 'Allow')
      end
      return editor:lua(SHOWN, 'It prints the formal greeting.') ~= vim.NIL
    end)
    local states = {}
    for _, node in ipairs(editor:lua(EXECUTE, 'roo.showTree', vim.NIL).result.nodes) do
      states[node.mode] = node.state
    end
    local expected = { ['new-task'] = 'paused', orchestrator = 'paused', architect = 'completed', code = 'running' }
    equal(states, expected)
    by.cancel(editor)
    editor:wait('the word that it is cancelled', SAID, 'cancelled')
    by.resume(editor)
    has(editor:wait('the result', SAID, 'completed'), 'greeting.sh greets formally')
    local tree = editor:lua(EXECUTE, 'roo.showTree', vim.NIL).result
    equal(tree.nodes[1].state, 'completed')
    equal(editor:lua([[return #_G.custom]]), 0, 'a plain client was sent roo/event')
    equal(vim.fn.readfile(workspace .. '/greeting.sh')[8], '# not saved yet')
    editor:quit()
  end)
end

scenario('lsp/roo_lsp.lua alone', { ROO_TEST_ALONE = alone() }, {
  start = function(editor)
    equal(editor:lua([[return pcall(require, 'roo')]]), false)
    local range = { start = { line = 3, character = 0 }, ['end'] = { line = 5, character = 0 } }
    local uri = editor:lua([[return vim.uri_from_bufnr(0)]])
    local argument = { prompt = 'Greet politely', mode = 'new-task', context = { { uri = uri, range = range } } }
    local answer = editor:lua(EXECUTE, 'roo.newTask', argument)
    assert(answer.result and answer.result.taskId, vim.inspect(answer))
  end,
  cancel = function(editor)
    editor:lua(EXECUTE, 'roo.cancel', vim.NIL)
  end,
  resume = function(editor)
    editor:lua(EXECUTE, 'roo.resume', vim.NIL)
  end,
})

scenario('the plugin with the typed protocol off', { ROO_TEST_PLAIN = '1' }, {
  start = function(editor)
    editor:command('4,5Roo new --mode=new-task Greet politely')
  end,
  cancel = function(editor)
    editor:command('Roo cancel')
  end,
  resume = function(editor)
    editor:command('Roo resume')
  end,
})

case('a popup that is closed leaves the question open, for :Roo answer too', function()
  local editor = harness.editor(harness.workspace(), { ROO_TEST_PLAIN = '1' })
  editor:lua(PREPARE)
  editor:open('greeting.sh')
  editor:add_unsaved()
  editor:command('4,5Roo new --mode=new-task Greet politely')
  editor:wait('the question', ASKED, 'How polite')
  editor:lua([[_G.asked[#_G.asked].done = true; _G.asked[#_G.asked].choose(nil)]])
  editor:wait('the hint', SAID, 'roo.answer')
  editor:command('Roo answer 1')
  editor:wait('the approval', ASKED, 'Create docs/greeting.md')
  editor:quit()
end)

case('code actions begin a request at the selection', function()
  local editor = harness.editor(harness.workspace(), { ROO_TEST_ALONE = alone() })
  editor:lua(PREPARE)
  editor:open('greeting.sh')
  editor:lua([[vim.lsp.buf.code_action({ range = { start = { 4, 0 }, ['end'] = { 5, 10 } } })]])
  local titles = editor:wait('the actions', [[return _G.asked[1] and _G.asked[1].titles]])
  local found = table.concat(titles, '\n')
  has(found, 'Roo: explain lines 4-5')
  editor:lua([[
    local last = _G.asked[1]
    for index, title in ipairs(last.titles) do
      if title:find('explain lines 4-5', 1, true) then
        last.choose(last.items[index], index)
      end
    end
  ]])
  editor:wait('the word that it began', SAID, 'started: Explain lines 4-5 of greeting.sh')
  editor:quit()
end)

case('files that were open before the server, or whose type is unknown, are served too', function()
  local workspace = harness.workspace()
  local editor = harness.editor(workspace, { ROO_TEST_ALONE = alone() })
  editor:command('edit BEFORE')
  editor:open('greeting.sh')
  editor:command('edit AFTER')
  local served = editor:wait('the clients', [[
    local client = vim.lsp.get_clients({ name = 'roo_lsp' })[1]
    return client.attached_buffers[vim.fn.bufnr('BEFORE')] and client.attached_buffers[vim.fn.bufnr('AFTER')]
  ]])
  equal(served, true)
  -- A file of another workspace is none of its own.
  local other = harness.workspace()
  vim.fn.mkdir(other .. '/.git')
  editor:command('edit ' .. other .. '/OTHER')
  equal(editor:lua([[return #vim.lsp.get_clients({ name = 'roo_lsp', bufnr = 0 })]]), 0)
  editor:quit()
end)

harness.run()
