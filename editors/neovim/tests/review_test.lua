-- The review: one approval after the other in one float, or side by side, and no key that reaches anything else.

local harness = require('harness')
local case, equal, has = harness.case, harness.equal, harness.has

local NAMES = { 'one', 'two', 'three' }

--- An editor in a workspace with these files, and a model that edits one of them in each request.
---@return roo.test.Editor
---@return string workspace
local function begin()
  local workspace = harness.workspace()
  local turns = { 'turns:' }
  for _, name in ipairs(NAMES) do
    vim.fn.writefile({ 'first ' .. name, 'hello', 'last ' .. name }, ('%s/%s.txt'):format(workspace, name))
    vim.list_extend(turns, {
      ('  - when: { contains: "Change %s.txt" }'):format(name),
      ('    calls: [{ tool: read_file, params: { files: [{ path: %s.txt }] } }]'):format(name),
      ('  - when: { contains: ["first %s", hello] }'):format(name),
      '    calls:',
      ('      - { tool: write_to_file, params: { path: %s.txt, content: "first %s\\ngoodbye\\nlast %s\\n" } }'):format(name, name, name),
      ('  - when: { contains: "%s.txt" }'):format(name),
      ('    calls: [{ tool: attempt_completion, params: { result: "Done with %s.txt." } }]'):format(name),
    })
  end
  vim.list_extend(turns, {
    '  - when: { status: denied }',
    '    calls: [{ tool: attempt_completion, params: { result: Left as it was. } }]',
    '    repeat: true',
  })
  return harness.play(workspace, turns), workspace
end

--- Starts requests until so many approvals wait.
---@param editor roo.test.Editor
---@param count integer
local function ask(editor, count)
  for index = 1, count do
    editor:command(('Roo new --mode=code Change %s.txt'):format(NAMES[index]))
    editor:wait('an approval more', [[
      local waiting = 0
      for _, request in ipairs(require('roo.requests').all()) do
        waiting = waiting + #request.approvals
      end
      return waiting == ...
    ]], index)
  end
end

--- The title of the float in front, without the spaces around it.
---@param editor roo.test.Editor
local function title(editor)
  return editor:lua([[
    local config = vim.api.nvim_win_get_config(0)
    return config.title and vim.trim(config.title[1][1]) or ''
  ]])
end

--- Waits until the float has this title and takes answers.
local function shown(editor, wanted)
  editor:wait(('the float %q'):format(wanted), [[
    local config = vim.api.nvim_win_get_config(0)
    return config.title and vim.trim(config.title[1][1]) == ... and require('roo.review').is_settled()
  ]], wanted)
end

--- The titles of all approvals that wait.
local function waiting(editor)
  return editor:lua([[
    local titles = {}
    for _, request in ipairs(require('roo.requests').all()) do
      for _, approval in ipairs(request.approvals) do
        table.insert(titles, approval.title)
      end
    end
    table.sort(titles)
    return titles
  ]])
end

local function completed(editor, count)
  editor:wait(('%d completed'):format(count), [[
    local done = 0
    for _, request in ipairs(require('roo.requests').all()) do
      done = done + (request.state == 'completed' and 1 or 0)
    end
    return done == ...
  ]], count)
end

case('one after the other in one float, with the place of each; a key that is pressed twice answers once', function()
  local editor, workspace = begin()
  ask(editor, 3)
  editor:command('Roo review')
  -- The request used last is shown first, at its place in the order of all clients: the oldest first.
  shown(editor, 'Edit three.txt (3 of 3)')
  has(editor:shown(), '-hello\n+goodbye')
  local window = editor:lua([[return vim.api.nvim_get_current_win()]])
  editor:press('<S-Tab>')
  equal(title(editor), 'Edit two.txt (2 of 3)')
  editor:press('<S-Tab><S-Tab>')
  equal(title(editor), 'Edit three.txt (3 of 3)')
  editor:press('<Tab><Tab>')
  equal(title(editor), 'Edit two.txt (2 of 3)')
  editor:press('<Tab>')
  editor:press('aa')
  shown(editor, 'Edit one.txt (1 of 2)')
  equal(waiting(editor), { 'Edit one.txt', 'Edit two.txt' })
  equal(editor:lua([[return vim.api.nvim_get_current_win()]]), window)
  editor:press('a')
  shown(editor, 'Edit two.txt')
  -- The last float closes when the test says so, and not while it looks.
  editor:lua([[
    local defer = vim.defer_fn
    vim.defer_fn = function(run, delay)
      if delay == 500 then
        _G.close = run
      else
        return defer(run, delay)
      end
    end
  ]])
  editor:press('d')
  -- What comes too late is typed into no file.
  editor:wait('the word that nothing is left', [[
    local config = vim.api.nvim_win_get_config(0)
    return config.title and vim.trim(config.title[1][1]) == 'Nothing else waits'
  ]])
  editor:press('aAd')
  editor:lua([[_G.close()]])
  editor:wait('the closed float', [[return vim.api.nvim_win_get_config(0).relative == '']])
  equal(editor:lua([[return vim.api.nvim_get_mode().mode]]), 'n')
  equal(editor:lua([[return vim.bo.modified]]), false)
  completed(editor, 3)
  equal(vim.fn.readfile(workspace .. '/three.txt')[2], 'goodbye')
  equal(vim.fn.readfile(workspace .. '/two.txt')[2], 'hello')
  equal(vim.fn.readfile(workspace .. '/one.txt')[2], 'goodbye')
  editor:quit()
end)

case('side by side has the same keys, goes on to the next, and leads back to where the user was', function()
  local editor, workspace = begin()
  ask(editor, 2)
  -- A tab page behind it must not come to the front.
  editor:command('tabnew')
  editor:command('tabfirst')
  local home = editor:lua([[return vim.api.nvim_get_current_tabpage()]])
  editor:command('Roo review')
  shown(editor, 'Edit two.txt (2 of 2)')
  editor:press('s')
  local head = [[
    local text = {}
    for _, window in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
      local buffer = vim.api.nvim_win_get_buf(window)
      if vim.bo[buffer].filetype == 'rooreview' then
        text = vim.api.nvim_buf_get_lines(buffer, 0, -1, false)
      end
    end
    return vim.wo.diff and text[1] == ... and require('roo.review').is_settled() and table.concat(text, '\n')
  ]]
  local keys = editor:wait('both texts', head, 'Edit two.txt (2 of 2)')
  has(keys, 'a Allow')
  has(keys, 's as a diff')
  equal(editor:shown(), 'first two\ngoodbye\nlast two\n')
  -- The cursor is on the change, and keys that would edit or record do nothing.
  equal(editor:lua([[return vim.api.nvim_win_get_cursor(0)[1] ]]), 2)
  equal(editor:lua([[return vim.bo.modifiable]]), false)
  editor:press('a')
  editor:wait('the next one side by side', head, 'Edit one.txt')
  -- Back to the float, and to both texts again.
  editor:press('s')
  shown(editor, 'Edit one.txt')
  equal(editor:lua([[return vim.api.nvim_get_current_tabpage()]]), home)
  editor:press('s')
  editor:wait('both texts again', head, 'Edit one.txt')
  editor:press('d')
  editor:wait('the end of the review', [[
    return vim.api.nvim_win_get_config(0).relative == '' and not vim.wo.diff and #vim.api.nvim_list_tabpages() == 2
  ]])
  equal(editor:lua([[return vim.api.nvim_get_current_tabpage()]]), home)
  completed(editor, 2)
  equal(vim.fn.readfile(workspace .. '/two.txt')[2], 'goodbye')
  equal(vim.fn.readfile(workspace .. '/one.txt')[2], 'hello')
  -- Nothing is left behind.
  equal(editor:lua([[return vim.tbl_filter(function(buffer)
    return vim.api.nvim_buf_get_name(buffer):find('roo://review', 1, true) ~= nil
  end, vim.api.nvim_list_bufs())]]), {})
  editor:quit()
end)

case('words of a refusal are asked for, and the review goes on behind them', function()
  local editor = begin()
  ask(editor, 2)
  editor:command('Roo review')
  shown(editor, 'Edit two.txt (2 of 2)')
  editor:press('t')
  editor:wait('the prompt', [[return vim.bo.filetype == 'rooprompt']])
  -- Whoever thinks better of it is where they were.
  editor:press('<Esc>')
  shown(editor, 'Edit two.txt (2 of 2)')
  editor:press('t')
  editor:wait('the prompt', [[return vim.bo.filetype == 'rooprompt']])
  editor:press('iKeep the greeting<CR>')
  shown(editor, 'Edit one.txt')
  equal(waiting(editor), { 'Edit one.txt' })
  editor:press('q')
  equal(waiting(editor), { 'Edit one.txt' })
  editor:quit()
end)

case('words of a refusal side by side lead to the next side by side', function()
  local editor = begin()
  ask(editor, 2)
  editor:command('Roo review')
  shown(editor, 'Edit two.txt (2 of 2)')
  local after = [[return vim.wo.diff and vim.api.nvim_buf_get_lines(0, 0, 1, false)[1] == ... and require('roo.review').is_settled()]]
  editor:press('s')
  editor:wait('both texts', after, 'first two')
  editor:press('t')
  editor:wait('the prompt', [[return vim.bo.filetype == 'rooprompt']])
  editor:press('iKeep the greeting<CR>')
  editor:wait('the next one', after, 'first one')
  equal(waiting(editor), { 'Edit one.txt' })
  editor:press('q')
  equal(editor:lua([[return #vim.api.nvim_list_tabpages()]]), 1)
  editor:quit()
end)

case('what is decided elsewhere makes room for the next; a review that was left stays closed', function()
  local editor = begin()
  ask(editor, 3)
  editor:command('Roo review')
  shown(editor, 'Edit three.txt (3 of 3)')
  -- As by another client.
  local decide = [[
    local titles, kind = ...
    for _, request in ipairs(require('roo.requests').all()) do
      for _, approval in ipairs(request.approvals) do
        if approval.title == titles then
          require('roo.review').respond(approval, kind)
        end
      end
    end
  ]]
  editor:lua(decide, 'Edit three.txt', 'reject_once')
  shown(editor, 'Edit one.txt (1 of 2)')
  editor:press('s')
  editor:wait('both texts', [[return vim.wo.diff and #vim.api.nvim_list_tabpages() == 2]])
  editor:command('tabprevious')
  editor:lua(decide, 'Edit one.txt', 'reject_once')
  editor:wait('the closed tab page', [[return #vim.api.nvim_list_tabpages() == 1]])
  equal(waiting(editor), { 'Edit two.txt' })
  equal(editor:lua([[return vim.api.nvim_win_get_config(0).relative]]), '')
  editor:quit()
end)

case('what an answer allows from now on is shown before it counts, and what it decides besides is said', function()
  local editor = begin()
  ask(editor, 3)
  editor:command('Roo review')
  shown(editor, 'Edit three.txt (3 of 3)')
  local asks = [[
    local config = vim.api.nvim_win_get_config(0)
    local title = config.title and vim.trim(config.title[1][1]) or ''
    return title == "Always allow edits of this workspace's files?" and table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\n')
  ]]
  editor:press('A')
  has(editor:wait('the scope', asks), 'y yes, from now on · q back')
  -- The scope is a sentence of the server's.
  local scope = editor:lua([[
    for _, option in ipairs(require('roo.requests').current().approvals[1].options) do
      if option.kind == 'allow_always' then
        return option.scope
      end
    end
  ]])
  assert(#scope > 20, scope)
  has(editor:shown(), scope)
  -- Not the same key twice, and whoever goes back has decided nothing.
  editor:press('A')
  editor:press('q')
  shown(editor, 'Edit three.txt (3 of 3)')
  equal(#waiting(editor), 3)
  editor:press('A')
  editor:wait('the scope', asks)
  editor:press('y')
  completed(editor, 3)
  local texts = editor:lua([[
    local lines = {}
    for _, request in ipairs(require('roo.requests').all()) do
      for _, line in ipairs(request:text()) do
        table.insert(lines, line)
      end
    end
    return table.concat(lines, '\n')
  ]])
  has(texts, '✓ Edit three.txt — allowed by Neovim')
  has(texts, '✓ Edit two.txt — allowed by the standing rule r1')
  has(texts, '✓ Edit one.txt — allowed by the standing rule r1')
  editor:quit()
end)

case('an answer that comes too late is told which rule was faster', function()
  local editor = begin()
  ask(editor, 2)
  editor:lua([[
    local approvals = {}
    for _, request in ipairs(require('roo.requests').all()) do
      table.insert(approvals, request.approvals[1])
    end
    _G.late = approvals[2]
    require('roo.review').respond(approvals[1], 'allow_always', {}, function()
      _G.done = true
    end)
  ]])
  editor:wait('the rule', [[return _G.done]])
  completed(editor, 2)
  editor:lua([[require('roo.review').respond(_G.late, 'reject_once')]])
  editor:wait('the word', [[return vim.fn.execute('messages'):find('the standing rule r1 has decided this: Edit one.txt', 1, true)]])
  editor:quit()
end)

--- An editor with two projects, and a server for each; a task of the second one has run into its approval.
---@return roo.test.Editor
---@return string first
---@return string second
local function two_projects()
  local first, second = harness.workspace(), harness.workspace()
  vim.fn.mkdir(first .. '/.git')
  vim.fn.mkdir(second .. '/.git')
  local editor = harness.play(first, {
    'turns:',
    '  - calls: [{ tool: execute_command, params: { command: "echo second" } }]',
    '  - calls: [{ tool: ask_followup_question, params: { question: Go on?, follow_up: [{ text: Yes }] } }]',
    '    repeat: true',
  })
  editor:open(second .. '/greeting.sh')
  equal(editor:lua([[return #vim.lsp.get_clients({ name = 'roo_lsp' })]]), 2)
  editor:command('Roo new --mode=code Go')
  editor:wait_for_approval('Run echo second')
  return editor, first, second
end

case('with two projects each answer and order goes to the server of its task', function()
  local editor, first, second = two_projects()
  -- Neither the float nor the task's window belongs to a server, and this file to the other one.
  editor:command('edit ' .. first .. '/greeting.sh')
  editor:command('Roo review')
  shown(editor, 'Run echo second')
  editor:press('a')
  editor:wait_for_question()
  editor:command('Roo open')
  editor:command('Roo answer Yes')
  editor:wait('the next question', [[
    local request = require('roo.requests').current()
    return #request.questions == 1 and table.concat(request:text(), '\n'):find('» Yes', 1, true)
  ]])
  equal(editor:lua([[return require('roo.client').get().root_dir]]), second, 'a task\'s window is of its project')
  editor:command('wincmd p')
  editor:command('Roo cancel')
  editor:wait('the end', [[return require('roo.requests').current().state == 'cancelled']])
  local messages = editor:lua([[return vim.fn.execute('messages')]])
  assert(not messages:find('there is no', 1, true), messages)
  editor:quit()
end)

case('with two projects each server hears of the files of its own', function()
  local editor, first, second = two_projects()
  editor:command('edit ' .. first .. '/greeting.sh')
  editor:lua([[
    _G.said = {}
    for _, client in ipairs(vim.lsp.get_clients({ name = 'roo_lsp' })) do
      local original = client.notify
      client.notify = function(self, method, params)
        if method == 'roo/editor/diagnostics' then
          table.insert(_G.said, { client.root_dir, vim.uri_to_fname(params.uri) })
        end
        return original(self, method, params)
      end
    end
    local finding = { { lnum = 0, col = 0, message = 'impolite' } }
    vim.diagnostic.set(vim.api.nvim_create_namespace('linter'), vim.fn.bufnr(...), finding)
  ]], second .. '/greeting.sh')
  local said = editor:wait('the diagnostics', [[return _G.said[1] ]])
  equal(said, { second, second .. '/greeting.sh' })
  editor:quit()
end)

harness.run()
