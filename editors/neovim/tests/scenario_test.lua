-- The scenario from begin to end by the typed protocol, against the real server.

local harness = require('harness')
local case, equal, has = harness.case, harness.equal, harness.has

case('the scenario, typed', function()
  local workspace = harness.workspace()
  local editor = harness.editor(workspace)
  editor:lua([[
    vim.ui.select = function(items, options, on_choice)
      _G.asked = { prompt = options.prompt, items = vim.tbl_map(options.format_item, items) }
      _G.choose = function(index) on_choice(items[index], index) end
    end
  ]])
  -- Streaming: a part of the text is there before the whole is. The editor itself looks, however late the test does.
  editor:lua([[
    local requests = require('roo.requests')
    local on_event = requests.on_event
    requests.on_event = function(params)
      on_event(params)
      local request = requests.current()
      local text = request and table.concat(request:text(), '\n') or ''
      if text:find('The selected lines', 1, true) and not text:find('should go.', 1, true) then
        _G.partial = text
      end
    end
  ]])
  harness.begin(editor)
  local partial = editor:wait('streaming', [[return _G.partial]])
  has(partial, '» Greet politely')
  editor:wait_for_question()
  has(editor:lua([[return require('roo').statusline()]]), '1 waiting for you')
  -- The question is shown, and takes nothing from the user before it is asked for.
  equal(editor:lua([[return _G.asked]]), vim.NIL)
  editor:command('Roo answer')
  local asked = editor:wait('the choice', [[return _G.asked]])
  equal(asked.prompt, 'How polite should the greeting be?')
  equal(asked.items, { 'Formal: Good day', 'Friendly: Hello', 'Something else …' })
  editor:lua([[_G.choose(1)]])
  -- Three approvals; the float shows what is asked about, and closing it decides nothing.
  editor:wait_for_approval('Create docs/greeting.md')
  editor:command('Roo review')
  local float = editor:wait('the float', [[
    return vim.bo.filetype == 'rooreview' and table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\n')
  ]])
  has(float, '+# The greeting')
  editor:press('q')
  equal(editor:waiting(), 'Create docs/greeting.md')
  editor:command('Roo review')
  editor:press('a')
  editor:wait_for_approval('Edit greeting.sh')
  editor:command('Roo review')
  float = editor:shown()
  has(float, '-echo "hey $name"\n+echo "Good day, $name."')
  editor:press('a')
  editor:wait_for_approval('Run sh greeting.sh')
  local lines = editor:lines('greeting.sh')
  equal({ lines[5], lines[#lines] }, { 'echo "Good day, $name."', '# not saved yet' })
  equal(editor:lua([[return vim.bo[vim.fn.bufnr('greeting.sh')].modified]]), true)
  -- One undo step takes the agent's edit back, and another one brings it again.
  editor:lua([[vim.api.nvim_buf_call(vim.fn.bufnr('greeting.sh'), function() vim.cmd('silent undo') end)]])
  equal(editor:lua([[return vim.fn.getbufoneline('greeting.sh', 5)]]), 'echo "hey $name"')
  editor:lua([[vim.api.nvim_buf_call(vim.fn.bufnr('greeting.sh'), function() vim.cmd('silent redo') end)]])
  editor:command('Roo approve')
  -- The buffer is saved before the command, which prints the new greeting.
  editor:wait('the slow text', [[
    return table.concat(require('roo.requests').current():text(), '\n'):find('in peace', 1, true)
  ]])
  equal(editor:lua([[return vim.bo[vim.fn.bufnr('greeting.sh')].modified]]), false)
  has(editor:task_text(), '✓ execute_command sh greeting.sh — exit code 0\n    Good day, world.\n    bye')
  -- The tree of four; <CR> on a branch goes there.
  editor:command('Roo tree')
  local tree = editor:shown()
  equal(#vim.split(tree, '\n'), 4)
  has(tree, '├── 🏗️ Describe the greeting — completed')
  has(tree, '└── 💻 Change the greeting — running')
  editor:lua([[
    vim.api.nvim_win_set_cursor(0, { 3, 0 })
    vim.api.nvim_feedkeys(vim.keycode('<CR>'), 'xt', false)
  ]])
  has(editor:lua([[return vim.api.nvim_get_current_line()]]), 'Describe the greeting — architect, completed')
  editor:command('Roo cancel')
  editor:wait('the cancelled tree', [[
    local states = {}
    for _, node in ipairs(require('roo.requests').current().nodes) do
      states[node.mode] = node.state
    end
    return states['new-task'] == 'cancelled' and states.orchestrator == 'cancelled'
      and states.code == 'cancelled' and states.architect == 'completed'
  ]])
  editor:command('Roo resume')
  editor:wait('the end', [[return require('roo.requests').current().state == 'completed']])
  has(editor:task_text(), '✔ greeting.sh greets formally, and docs/greeting.md describes it.')
  equal(editor:lua([[return require('roo').statusline()]]), '')
  equal(vim.fn.readfile(workspace .. '/greeting.sh')[8], '# not saved yet')
  equal(vim.fn.readfile(workspace .. '/docs/greeting.md')[1], '# The greeting')
  editor:quit()
end)

case('a refusal with words reaches the model, and an own answer the question', function()
  local editor = harness.editor(harness.workspace())
  harness.begin(editor)
  editor:wait_for_question()
  editor:command('Roo answer Formal: Good day, and no more')
  editor:wait_for_approval('Create docs/greeting.md')
  editor:command('Roo deny not in docs, please')
  editor:wait('the refusal', [[
    return table.concat(require('roo.requests').current():text(), '\n'):find('refused by Neovim', 1, true)
  ]])
  has(editor:task_text(), '» Formal: Good day, and no more')
  editor:command('Roo cancel')
  editor:wait('the end', [[return require('roo.requests').current().state == 'cancelled']])
  editor:quit()
end)

case('a number that is no place of a suggestion is an answer in words', function()
  local editor = harness.editor(harness.workspace())
  harness.begin(editor)
  editor:wait_for_question()
  editor:command('Roo answer 0x1')
  editor:wait('the answer', [[
    return table.concat(require('roo.requests').current():text(), '\n'):find('» 0x1', 1, true)
  ]])
  editor:quit()
  local plain = harness.editor(harness.workspace(), { ROO_TEST_PLAIN = '1' })
  plain:open('greeting.sh')
  plain:lua([[
    _G.answers = {}
    require('roo.client').execute = function(_, answer) table.insert(_G.answers, answer) end
  ]])
  for _, answer in ipairs({ '2', '8080', '0x1', '1e1', '07' }) do
    plain:command('Roo answer ' .. answer)
  end
  equal(plain:lua([[return _G.answers]]), { 2, '8080', '0x1', '1e1', '07' })
  plain:quit()
end)

case('an edit is compared side by side, in full', function()
  local editor = harness.editor(harness.workspace())
  harness.begin(editor)
  editor:wait_for_question()
  editor:command('Roo answer 1')
  editor:wait_for_approval('Create docs/greeting.md')
  editor:command('Roo approve')
  editor:wait_for_approval('Edit greeting.sh')
  editor:command('Roo review')
  editor:press('s')
  local sides = editor:wait('both sides', [[
    local sides = {}
    for _, window in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
      if vim.wo[window].diff then
        local lines = vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(window), 0, -1, false)
        sides[vim.wo[window].winbar] = lines[5]
      end
    end
    return vim.tbl_count(sides) == 2 and sides
  ]])
  equal(sides, { ['before: greeting.sh'] = 'echo "hey $name"', ['after: greeting.sh'] = 'echo "Good day, $name."' })
  -- Nothing was decided by it.
  equal(editor:waiting(), 'Edit greeting.sh')
  editor:quit()
end)

case('a file whose type Neovim does not know is edited in its buffer', function()
  local workspace = harness.workspace()
  vim.fn.writefile({ 'first', 'second' }, workspace .. '/NOTES')
  local editor = harness.play(workspace, {
    'turns:',
    '  - calls: [{ tool: read_file, params: { path: NOTES } }]',
    '  - calls: [{ tool: apply_diff, params: { path: NOTES, diff: "<<<<<<< SEARCH\\nfirst\\n=======\\nthe agent\'s\\n>>>>>>> REPLACE" } }]',
    '  - calls: [{ tool: attempt_completion, params: { result: Done. } }]',
  })
  editor:open('NOTES')
  equal(editor:lua([[return vim.bo.filetype]]), '')
  editor:add_unsaved()
  editor:command('edit greeting.sh')
  editor:command('Roo new --mode=code Change NOTES')
  editor:wait_for_approval('Edit NOTES')
  editor:command('Roo approve')
  editor:wait('the end', [[return require('roo.requests').current().state == 'completed']])
  equal(editor:lines('NOTES'), { "the agent's", 'second', '# not saved yet' })
  editor:quit()
end)

case('a workspace of such files alone has a server, and an unnamed buffer one when it is written', function()
  local workspace = harness.workspace()
  vim.fn.writefile({ 'first' }, workspace .. '/NOTES')
  local editor = harness.editor(workspace)
  editor:open('NOTES')
  editor:command('enew')
  equal(editor:lua([[return #vim.lsp.get_clients({ bufnr = 0 })]]), 0)
  editor:command('write MORE')
  editor:wait('its client', [[return #vim.lsp.get_clients({ name = 'roo_lsp', bufnr = 0 }) == 1]])
  editor:quit()
end)

--- An editor that keeps what it tells the server, by the methods.
local function listened()
  local editor = harness.editor(harness.workspace())
  editor:lua([[
    _G.said = {}
    vim.api.nvim_create_autocmd('LspAttach', { callback = function(event)
      local client = vim.lsp.get_client_by_id(event.data.client_id)
      local original = client.notify
      client.notify = function(self, method, params)
        if vim.startswith(method, 'roo/') then
          _G.said[method] = params
        end
        return original(self, method, params)
      end
    end })
  ]])
  return editor
end

local ACTIVE = [[return _G.said['roo/editor/didChange'] and _G.said['roo/editor/didChange'].active]]
local DIAGNOSTIC = [[return _G.said['roo/editor/diagnostics'] and _G.said['roo/editor/diagnostics'].diagnostics[1] ]]
local FIND = [[
  vim.diagnostic.set(vim.api.nvim_create_namespace('linter'), 0, {
    { lnum = 4, col = 5, message = 'impolite', severity = vim.diagnostic.severity.WARN, source = 'manners' },
  })
]]

case('agents are told what has the focus, and what is wrong', function()
  local editor = listened()
  editor:command('edit greeting.sh')
  local active = editor:wait('the active file', ACTIVE)
  has(active.uri, '/greeting.sh')
  editor:lua(FIND)
  local found = editor:wait('the diagnostics', DIAGNOSTIC)
  equal({ found.message, found.severity, found.range.start.line, found.range.start.character }, { 'impolite', 2, 4, 5 })
  editor:quit()
end)

case('a server that is started again is told both, though nothing has changed', function()
  local editor = listened()
  editor:command('edit greeting.sh')
  local active = editor:wait('the active file', ACTIVE)
  editor:lua(FIND)
  local found = editor:wait('the diagnostics', DIAGNOSTIC)
  editor:lua([[_G.said = {}]])
  editor:command('Roo restart')
  equal(editor:wait('the active file, once more', ACTIVE), active)
  equal(editor:wait('the diagnostics, once more', DIAGNOSTIC), found)
  editor:quit()
end)

harness.run()
