-- What is chosen from lists and offered for completion: prompts, approvals, changes; and the set-up of a model.

local harness = require('harness')
local case, equal, has = harness.case, harness.equal, harness.has

--- An editor whose model makes these calls one after the other.
---@param calls string[]
---@return roo.test.Editor
---@return string workspace
local function begin(calls)
  local workspace = harness.workspace()
  vim.fn.mkdir(workspace .. '/shop/__pycache__', 'p')
  vim.fn.writefile({ 'print("cart")' }, workspace .. '/shop/cart.py')
  vim.fn.writefile({ '' }, workspace .. '/shop/discart.md')
  vim.fn.writefile({ '' }, workspace .. '/shop/__pycache__/cart.pyc')
  vim.fn.writefile({ '__pycache__/' }, workspace .. '/.gitignore')
  local turns = { 'turns:' }
  for _, call in ipairs(calls) do
    table.insert(turns, ('  - calls: [%s]'):format(call))
  end
  return harness.play(workspace, turns), workspace
end

--- The words that the popup menu of a prompt offers.
local function offered(editor)
  return editor:wait('completions', [[
    local items = vim.fn.complete_info({ 'items' }).items
    return #items > 0 and vim.tbl_map(function(item) return item.word end, items)
  ]])
end

--- Types in the editor as a terminal does, without waiting for the end of what follows.
local function type_keys(editor, keys)
  vim.rpcrequest(editor.channel, 'nvim_input', keys)
end

case('a prompt completes files wherever the word stands in their path, the best first, and modes and commands', function()
  local editor = begin({})
  editor:lua([[require('roo').new()]])
  editor:wait('the prompt', [[return vim.bo.filetype == 'rooprompt']])
  type_keys(editor, 'see @car')
  equal(offered(editor), { '@shop/cart.py', '@shop/discart.md' })
  -- Nothing is selected by itself; Tab selects, Enter takes it, and nothing is sent.
  type_keys(editor, '<Tab><CR>')
  editor:wait('the file', [[return vim.api.nvim_get_current_line() == 'see @shop/cart.py']])
  equal(editor:lua([[return vim.bo.filetype]]), 'rooprompt')
  type_keys(editor, '<Esc>')
  editor:wait('normal mode', [[return vim.api.nvim_get_mode().mode == 'n']])
  type_keys(editor, '<Esc>')
  editor:wait('the closed prompt', [[return vim.bo.filetype ~= 'rooprompt']])
  editor:lua([[require('roo').new()]])
  editor:wait('the prompt', [[return vim.bo.filetype == 'rooprompt']])
  -- What was put off is still there.
  equal(editor:lua([[return vim.api.nvim_get_current_line()]]), 'see @shop/cart.py')
  type_keys(editor, '<C-u>/arch')
  assert(vim.list_contains(offered(editor), '/architect'))
  editor:quit()
end)

case('a prompt that was open before the server is completed by it as soon as it is there', function()
  local workspace = harness.workspace()
  vim.fn.mkdir(workspace .. '/shop', 'p')
  vim.fn.writefile({ 'print("cart")' }, workspace .. '/shop/cart.py')
  local editor = harness.editor(workspace)
  editor:lua([[require('roo').new()]])
  editor:wait('the prompt', [[return vim.bo.filetype == 'rooprompt']])
  type_keys(editor, 'see @car')
  editor:wait('what was typed', [[return vim.api.nvim_get_current_line() == 'see @car']])
  equal(editor:lua([[return #vim.lsp.get_clients({ name = 'roo_lsp' })]]), 0)
  editor:lua([[vim.fn.bufload(vim.fn.bufadd('greeting.sh'))
    local config = vim.deepcopy(vim.lsp.config.roo_lsp)
    config.root_dir = vim.fn.getcwd()
    vim.lsp.start(config, { bufnr = vim.fn.bufnr('greeting.sh') })]])
  equal(offered(editor), { '@shop/cart.py' })
  editor:quit()
end)

case("the command line completes the same, and a user's own completion plugin by 'omnifunc'", function()
  local editor = begin({})
  -- The command line waits half a second for the server, and goes without it then: whoever completes again gets it.
  local function completes(lead, line, expected)
    editor:wait(('%s to be completed'):format(line), [[
      local lead, line, expected = ...
      return vim.deep_equal(require('roo.command').complete(lead, line), expected)
    ]], lead, line, expected)
  end
  completes('@car', 'Roo new --mode=code see @car', { '@shop/cart.py', '@shop/discart.md' })
  completes('/arch', 'Roo new /arch', { '/architect' })
  completes('sc', 'Roo profile sc', { 'scenario' })
  completes('--profile=s', 'Roo new --profile=s', { '--profile=scenario' })
  completes('x', 'Roo cancel x', {})
  local found = editor:wait('the words of omnifunc', [[
    vim.cmd.enew()
    vim.api.nvim_set_current_line('see @car')
    vim.api.nvim_win_set_cursor(0, { 1, 8 })
    vim.cmd.startinsert({ bang = true })
    vim.api.nvim_win_set_cursor(0, { 1, 7 })
    local omnifunc = require('roo.completion').omnifunc
    local start, words = omnifunc(1, ''), omnifunc(0, '@ca')
    return words[1] and { start, words[1].word }
  ]])
  equal(found, { 4, '@shop/cart.py' })
  editor:quit()
end)

case('approvals are chosen from a list, by any picker that replaces vim.ui.select', function()
  local editor, workspace = begin({ '{ tool: execute_command, params: { command: "touch a" } }', '{ tool: execute_command, params: { command: "touch b" } }' })
  editor:lua([[
    vim.ui.select = function(items, options, on_choice)
      _G.asked = { prompt = options.prompt, kind = options.kind, items = vim.tbl_map(options.format_item, items) }
      _G.choose = function(index) on_choice(items[index], index) end
    end
  ]])
  editor:command('Roo approvals')
  editor:wait('the word that there is nothing', [[return vim.fn.execute('messages'):find('nothing needs permission', 1, true)]])
  editor:command('Roo new --mode=code One')
  editor:wait('an approval', [[
    local request = require('roo.requests').all()[1]
    return request and #request.approvals == 1
  ]])
  editor:command('Roo new --mode=code Two')
  editor:wait('two of them', [[
    local all = require('roo.requests').all()
    return #all == 2 and #all[1].approvals == 1
  ]])
  editor:command('Roo approvals')
  local asked = editor:wait('the list', [[return _G.asked]])
  equal({ asked.prompt, asked.kind }, { 'Approvals', 'roo_approval' })
  -- In the order of all editors: the oldest task first.
  equal(asked.items, { 'Run touch a — One', 'Run touch a — Two' })
  editor:lua([[_G.choose(1)]])
  editor:wait('the review of the first one', [[
    local config = vim.api.nvim_win_get_config(0)
    return config.title and vim.trim(config.title[1][1]) == 'Run touch a (1 of 2)'
  ]])
  editor:press('q')
  editor:command('Roo tasks')
  asked = editor:wait('the tasks', [[return _G.asked.kind == 'roo_task' and _G.asked]])
  has(asked.items[1], 'Two — waiting, ')
  -- Another editor lists them too, and opens the task of what it is asked about.
  editor:kill()
  editor = harness.editor(workspace, { ROO_TEST_SCRIPT = '/nowhere' })
  editor:open('greeting.sh')
  editor:command('Roo approvals')
  local offered_lines = editor:wait('the list', [[
    return vim.api.nvim_win_get_config(0).relative ~= '' and vim.api.nvim_buf_get_lines(0, 0, -1, false)
  ]])
  equal(offered_lines, { '1  Run touch a — One, interrupted', '2  Run touch a — Two, interrupted' })
  editor:press('2')
  editor:wait('the task', [[
    local request = require('roo.requests').current()
    return request and request.title == 'Two' and #request.approvals == 1
  ]])
  editor:quit()
end)

case('what a task has changed is a quickfix list, changes of commands too', function()
  local editor, workspace = begin({
    '{ tool: read_file, params: { files: [{ path: greeting.sh }] } }',
    '{ tool: search_and_replace, params: { path: greeting.sh, search: hey, replace: Good day } }',
    '{ tool: insert_content, params: { path: greeting.sh, line: 2, content: "# Politely" } }',
    '{ tool: execute_command, params: { command: "echo x > made.txt; rm README.md" } }',
    '{ tool: attempt_completion, params: { result: Done. } }',
  })
  editor:command('Roo new --mode=code Change it')
  for _ = 1, 3 do
    editor:wait('an approval', [[
      local request = require('roo.requests').current()
      local approval = request and request.approvals[1]
      if approval and approval.approvalId ~= _G.answered then
        _G.answered = approval.approvalId
        require('roo.review').respond(approval, 'allow_once', { opened = true })
        return true
      end
    ]])
  end
  editor:wait('the end', [[return require('roo.requests').current().state == 'completed']])
  editor:command('Roo changes')
  local list = editor:wait('the list', [[
    local list = vim.fn.getqflist({ title = 0, items = 0 })
    return vim.bo.buftype == 'quickfix' and { list.title, vim.tbl_map(function(item)
      local name = vim.fn.fnamemodify(vim.fn.bufname(item.bufnr), ':t')
      return ('%s %d-%d %d %s'):format(name, item.lnum, item.end_lnum, item.valid, item.text)
    end, list.items) }
  ]])
  equal(list[1], 'Roo: changes of Change it')
  equal(list[2], {
    'README.md 0-0 0 deleted (code, execute_command)',
    'greeting.sh 2-2 1 changed (code, insert_content)',
    -- One line further down than when it was changed.
    'greeting.sh 6-6 1 changed (code, search_and_replace)',
    'made.txt 1-1 1 created (code, execute_command)',
  })
  -- A change is undone in the list; the others are where they are by now.
  local function listed(count)
    return editor:wait(('a list of %d'):format(count), [[
      local items = vim.fn.getqflist()
      return #items == ... and vim.tbl_map(function(item)
        return ('%s %d'):format(vim.fn.fnamemodify(vim.fn.bufname(item.bufnr), ':t'), item.lnum)
      end, items)
    ]], count)
  end
  editor:command('2Roo undo')
  equal(listed(3), { 'README.md 0', 'greeting.sh 5', 'made.txt 1' })
  equal(editor:lines('greeting.sh')[2], '# Greets whoever is named, or the world.')
  has(editor:lua([[return vim.fn.execute('messages')]]), '1 change undone')
  -- And in the file itself, where the cursor is.
  editor:command('wincmd p')
  editor:command('buffer greeting.sh')
  editor:command('5')
  editor:command('Roo undo')
  equal(listed(2), { 'README.md 0', 'made.txt 1' })
  equal(editor:lines('greeting.sh')[5], 'echo "hey $name"')
  editor:command('Roo undo')
  editor:wait('the word that there is nothing', [[return vim.fn.execute('messages'):find('no task has changed these lines', 1, true)]])
  -- A deleted file comes back.
  editor:command('copen')
  editor:command('1Roo undo')
  equal(listed(1), { 'made.txt 1' })
  equal(vim.fn.readfile(workspace .. '/README.md')[1], '# Greeting')
  editor:quit()
end)

case('a model is set up in a terminal, and the next task uses it', function()
  local port = harness.wait('the port of the model server', function()
    return _G.port
  end)
  local config = vim.fn.tempname()
  local editor = harness.editor(harness.workspace(), { XDG_CONFIG_HOME = config, ROO_TEST_NO_MODEL = '1' })
  editor:open('greeting.sh')
  editor:command(('Roo setup --provider ollama --base-url http://127.0.0.1:%d/v1'):format(port))
  editor:wait('the list of models', [[
    return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\n'):find('tiny', 1, true)
  ]])
  type_keys(editor, '1<CR>')
  editor:wait('the word that it is set up', [[return vim.fn.execute('messages'):find('the model is set up', 1, true)]])
  equal(editor:lua([[return #vim.api.nvim_tabpage_list_wins(0)]]), 1)
  editor:wait('the server that knows it', [[return vim.list_contains(require('roo.command').profiles(), 'default')]])
  editor:command('Roo new --mode=ask Say hello')
  editor:wait('the answer', [[
    local request = require('roo.requests').current()
    return request and table.concat(request:text(), '\n'):find('Hello from tiny', 1, true)
  ]])
  editor:quit()
end)

-- A server that speaks OpenAI's Chat Completions, with one model.
local server = vim.fn.jobstart({ 'python3', harness.root .. '/editors/neovim/tests/model_server' }, {
  on_stdout = function(_, lines)
    _G.port = _G.port or tonumber(lines[1])
  end,
})
assert(server > 0)

harness.run()
