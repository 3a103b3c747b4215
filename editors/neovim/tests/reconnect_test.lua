-- Kills the editor, and the server, at many points of the scenario: whoever attaches again sees the same state, and
-- the request goes on to its end.

local harness = require('harness')
local case, equal, has = harness.case, harness.equal, harness.has

--- Answers whatever waits, as a user without patience would; the state when something has happened `count` times.
local DRIVE = [[
  local until_seq = ...
  local requests = require('roo.requests')
  local request = requests.current()
  if not request then
    return nil
  end
  if request.seq >= until_seq then
    return { root = request.root, seq = request.seq }
  end
  _G.answered = _G.answered or {}
  local question, approval = request.questions[1], request.approvals[1]
  if question and not _G.answered[question.questionId] then
    _G.answered[question.questionId] = true
    require('roo').answer('1')
  elseif approval and not _G.answered[approval.approvalId] then
    _G.answered[approval.approvalId] = true
    require('roo').approve()
  end
]]

local STATE = [[
  local request = require('roo.requests').get(...)
  local function ids(list, field)
    return vim.tbl_map(function(item) return item[field] end, list)
  end
  return {
    seq = request.seq,
    text = vim.api.nvim_buf_get_lines(require('roo.task_buffer').buffer(request), 0, -1, false),
    approvals = ids(request.approvals, 'approvalId'),
    questions = ids(request.questions, 'questionId'),
    nodes = vim.tbl_map(function(node) return node.id .. ' ' .. node.state end, request.nodes),
    state = request.state,
  }
]]

--- Opens a request in an editor that knows nothing of it, and waits until all of it is there.
local function open(editor, root)
  editor:command('edit greeting.sh')
  editor:lua([[require('roo').open_task(...)]], root)
  editor:wait('the replay', [[
    local request = require('roo.requests').get(...)
    local to = request.replayed_to
    return to and to < math.huge and request.seq >= to and #request.nodes > 0
  ]], root)
end

--- What an editor shows of a request, and what its server itself says of it: its branches, and what waits in each.
---@param editor roo.test.Editor
---@param root string
---@return table shown
---@return table served
local function compared(editor, root)
  local shown, served = unpack(editor:lua([[
    local root = ...
    local client = vim.lsp.get_clients({ name = 'roo_lsp' })[1]
    local function ask(method, id)
      local answer = client:request_sync(method, { taskId = id }, 60000)
      return assert(answer and answer.result, vim.inspect(answer))
    end
    local request = require('roo.requests').get(root)
    local shown = { nodes = {}, waits = {}, state = request.state }
    local served = { nodes = {}, waits = {}, state = ask('roo/task/get', root).state }
    for _, node in ipairs(request.nodes) do
      table.insert(shown.nodes, { node.id, node.parentId, node.mode, node.title, node.state })
    end
    for _, node in ipairs(ask('roo/tree/get', root).nodes) do
      table.insert(served.nodes, { node.id, node.parentId, node.mode, node.title, node.state })
      local task = ask('roo/task/get', node.id)
      if type(task.approval) == 'table' then
        table.insert(served.waits, { task.approval.approvalId, task.approval.digest, task.approval.title })
      end
      if type(task.question) == 'table' then
        table.insert(served.waits, { task.question.questionId, task.question.text })
      end
    end
    for _, one in ipairs(request.approvals) do
      table.insert(shown.waits, { one.approvalId, one.digest, one.title })
    end
    for _, one in ipairs(request.questions) do
      table.insert(shown.waits, { one.questionId, one.text })
    end
    return { shown, served }
  ]], root))
  table.sort(shown.waits, function(a, b) return a[1] < b[1] end)
  table.sort(served.waits, function(a, b) return a[1] < b[1] end)
  return shown, served
end

--- Fails unless an editor comes to show what its server says. A server that has just read a log may still have events of
--- it on their way.
---@param editor roo.test.Editor
---@param root string
local function agrees(editor, root)
  local shown, served
  vim.wait(5000, function()
    shown, served = compared(editor, root)
    return vim.deep_equal(shown, served)
  end, 50)
  equal(shown, served, 'the editor shows something else than its server says')
end

-- The slow text takes too long to be played to its end.
local script = vim.fn.readfile(harness.root .. '/tests/editors/scenario/turns.yaml')
for index, line in ipairs(script) do
  script[index] = line:gsub('delayMs: %d+', 'delayMs: 2')
end
local quick = vim.fn.tempname()
vim.fn.writefile(script, quick)
local environment = { ROO_TEST_SCRIPT = quick }

--- What an editor that begins now shows of a request.
local function fresh(workspace, root)
  local editor = harness.editor(workspace, environment)
  open(editor, root)
  local seen = editor:lua(STATE, root)
  return editor, seen
end

--- Goes on until the request has ended, however often something waits.
local function finish(editor, root)
  editor:command('Roo resume')
  editor:wait('the end', [[
    local root = ...
    local request = require('roo.requests').get(root)
    if request.state == 'completed' then
      return true
    end
    require('roo.requests').use(request)
    local function drive(...) ]] .. DRIVE .. [[ end
    drive(math.huge)
  ]], root)
  -- What commands have printed, and the tree as it is in the end, are fetched after it.
  editor:wait('the output and the tree', [[
    local request = require('roo.requests').get(...)
    for _, node in ipairs(request.nodes) do
      if node.state ~= 'completed' then
        return false
      end
    end
    return table.concat(request:text(), '\n'):find('Good day, world.\n', 1, true)
  ]], root)
end

local seed = tonumber(vim.env.ROO_TEST_SEED) or os.time()
math.randomseed(seed)
io.stdout:write(('# seed %d (ROO_TEST_SEED)\n'):format(seed))

local function save_unsaved(editor)
  -- The line that was not saved went with the editor; the user writes it again.
  editor:lua([[
    local buffer = vim.fn.bufnr('greeting.sh')
    local lines = vim.api.nvim_buf_get_lines(buffer, 0, -1, false)
    if lines[#lines] ~= '# not saved yet' then
      vim.api.nvim_buf_set_lines(buffer, -1, -1, false, { '# not saved yet' })
    end
  ]])
end

-- From here on the buffer may have the agent's edit.
local EDITED = 65

-- Once while each of the parts is at work, at a random place.
for _, range in ipairs({ { 2, 9 }, { 12, 30 }, { 31, 46 }, { 54, 68 }, { 70, 88 } }) do
  local at = math.random(range[1], range[2])
  case(('an editor killed at event %d is replaced by another one'):format(at), function()
    local workspace = harness.workspace()
    local first = harness.editor(workspace, environment)
    harness.begin(first)
    local reached = first:wait('event ' .. at, DRIVE, at)
    if at > EDITED then
      -- What was edited in a buffer and not saved goes with the editor, whoever has edited it.
      first:command('silent wall')
    end
    first:kill()
    local second, seen = fresh(workspace, reached.root)
    assert(seen.seq >= reached.seq, 'events were lost')
    has(table.concat(seen.text, '\n'), '» Greet politely')
    agrees(second, reached.root)
    save_unsaved(second)
    finish(second, reached.root)
    local ended = second:lua(STATE, reached.root)
    second:quit()
    local third, replayed = fresh(workspace, reached.root)
    finish(third, reached.root)
    agrees(third, reached.root)
    replayed = third:lua(STATE, reached.root)
    third:quit()
    equal(replayed.text, ended.text, 'the replay differs from what was shown live')
    equal(replayed.nodes, ended.nodes)
    has(table.concat(ended.text, '\n'), '✔ greeting.sh greets formally')
  end)
end

case('what waits when the editor is killed waits in the next one', function()
  local workspace = harness.workspace()
  local first = harness.editor(workspace, environment)
  harness.begin(first)
  local root = first:wait('the question', [[
    local request = require('roo.requests').current()
    return request and request.questions[1] and request.root
  ]])
  local before = first:lua(STATE, root)
  first:kill()
  local second, after = fresh(workspace, root)
  equal(after.questions, before.questions)
  equal(after.approvals, before.approvals)
  equal(#after.nodes, #before.nodes)
  agrees(second, root)
  -- The heading tells that the request stands still, and nothing else differs.
  equal(vim.list_slice(after.text, 2), vim.list_slice(before.text, 2))
  second:quit()
end)

local KILL_SERVER = [[
  for _, pid in ipairs(vim.api.nvim_get_proc_children(vim.fn.getpid())) do
    vim.uv.kill(pid, 'sigkill')
  end
]]

for _, range in ipairs({ { 2, 9 }, { 31, 46 }, { 60, 88 } }) do
  local at = tonumber(vim.env.ROO_TEST_AT) or math.random(range[1], range[2])
  case(('a server killed at event %d is started again, and attached to'):format(at), function()
    local workspace = harness.workspace()
    local editor = harness.editor(workspace, environment)
    harness.begin(editor)
    local reached = editor:wait('event ' .. at, DRIVE, at)
    local old = editor:lua([[return vim.lsp.get_clients({ name = 'roo_lsp' })[1].id]])
    editor:lua(KILL_SERVER)
    editor:wait('another server', [[
      local old = ...
      local client = vim.lsp.get_clients({ name = 'roo_lsp', bufnr = vim.fn.bufnr('greeting.sh') })[1]
      return client and client.id ~= old and client.initialized and require('roo.requests').is_connected()
    ]], old)
    -- By the last events it may have come to its end before the server does.
    editor:wait('the request as its log has it', [[
      local state = require('roo.requests').current().state
      return state == 'interrupted' or state == 'completed'
    ]])
    agrees(editor, reached.root)
    editor:lua([[_G.answered = {}]])
    finish(editor, reached.root)
    local ended = editor:lua(STATE, reached.root)
    editor:quit()
    local other = fresh(workspace, reached.root)
    finish(other, reached.root)
    local replayed = other:lua(STATE, reached.root)
    other:quit()
    equal(replayed.text, ended.text, 'the replay differs from what was shown live')
  end)
end

case('a server that does not answer is ended and started again, once', function()
  local server = vim.fn.tempname()
  local pids = server .. '.pids'
  -- It is asked to end, and goes on.
  vim.fn.writefile({
    '#!/usr/bin/env python3',
    'import json, os, sys',
    ('open(%q, "a").write(str(os.getpid()) + "\\n")'):format(pids),
    'answers = {"seq": 1, "nodes": [], "trusted": True, "brings": [], "pendingApprovals": []}',
    'while True:',
    '    length = 0',
    '    while (line := sys.stdin.buffer.readline().strip()):',
    '        name, value = line.split(b":")',
    '        length = int(value) if name.lower() == b"content-length" else length',
    '    request = json.loads(sys.stdin.buffer.read(length))',
    '    if "id" not in request or request.get("method") in (None, "shutdown"):',
    '        continue',
    '    roo = {"capabilities": {"experimental": {"roo": {"protocolVersion": 1}}}}',
    '    result = roo if request["method"] == "initialize" else answers',
    '    body = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode()',
    '    sys.stdout.buffer.write(b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body)',
    '    sys.stdout.buffer.flush()',
  }, server)
  assert(vim.uv.fs_chmod(server, 448))
  local editor = harness.editor(harness.workspace(), { ROO_LSP = server })
  editor:open('greeting.sh')
  local old = editor:lua([[
    local function told(event)
      require('roo.requests').on_event({ rootId = 't', taskId = 't', event = event, seq = event.seq })
    end
    told({ seq = 1, type = 'task.created', urid = 'u', mode = 'code', title = 'Go' })
    told({ type = 'message.delta', id = 'r1.b0', say = 'text', offset = 0, text = 'half' })
    return vim.lsp.get_clients({ name = 'roo_lsp' })[1].id
  ]])
  editor:command('Roo restart')
  equal(editor:lua([[return { require('roo.requests').is_connected(), #require('roo.requests').get('t'):text() }]]), { false, 1 }, 'what was being written is forgotten')
  editor:command('Roo restart')
  editor:wait('another server', [[
    local old = ...
    local client = vim.lsp.get_clients({ name = 'roo_lsp', bufnr = vim.fn.bufnr('greeting.sh') })[1]
    return client and client.id ~= old and client.initialized and require('roo.requests').is_connected()
  ]], old)
  has(editor:lua([[return vim.fn.execute('messages')]]), 'the server does not respond, and is ended')
  equal(editor:lua([[return #vim.lsp.get_clients({ name = 'roo_lsp' })]]), 1)
  equal(#vim.fn.readfile(pids), 2, 'one server was started in the place of the other')
  editor:kill()
end)

case('a server that ends again and again is left alone', function()
  local editor = harness.editor(harness.workspace(), { ROO_LSP = '/bin/false' })
  editor:command('edit greeting.sh')
  editor:wait('the last word', [[return vim.fn.execute('messages'):find(':Roo restart', 1, true)]])
  editor:quit()
end)

--- An editor whose task waits for an approval.
---@param workspace string
---@return roo.test.Editor
local function waiting(workspace)
  local editor = harness.play(workspace, {
    'turns:',
    '  - calls: [{ tool: execute_command, params: { command: "echo here" } }]',
    '  - calls: [{ tool: attempt_completion, params: { result: Done. } }]',
  })
  editor:command('Roo new --mode=code Go')
  editor:wait_for_approval('Run echo here')
  return editor
end

-- As Neovim's help has it, and as the commands of nvim-lspconfig do it.
for name, restart in pairs({
  ['at once'] = [[
    vim.lsp.enable('roo_lsp', false)
    vim.lsp.enable('roo_lsp', true)
  ]],
  ['after its end'] = [[
    local client = vim.lsp.get_clients({ name = 'roo_lsp' })[1]
    vim.lsp.enable('roo_lsp', false)
    vim.wait(60000, function() return client.rpc.is_closing() end, 10)
    vim.defer_fn(function() vim.lsp.enable('roo_lsp', true) end, 100)
  ]],
}) do
  case('a server that is restarted by others is followed again: ' .. name, function()
    local editor = waiting(harness.workspace())
    local old = editor:lua([[return vim.lsp.get_clients({ name = 'roo_lsp' })[1].id]])
    editor:lua(restart)
    editor:wait('another server', [[
      local old = ...
      local client = vim.lsp.get_clients({ name = 'roo_lsp', bufnr = vim.fn.bufnr('greeting.sh') })[1]
      return client and client.id ~= old and client.initialized and require('roo.requests').is_connected()
    ]], old)
    editor:wait('the request as its log has it', [[return require('roo.requests').current().state == 'interrupted']])
    equal(editor:lua([[return require('roo').statusline()]]), 'roo: interrupted')
    editor:command('Roo resume')
    editor:wait_for_approval('Run echo here')
    editor:command('Roo approve')
    editor:wait('the end', [[return require('roo.requests').current().state == 'completed']])
    -- What would be said of the end comes later.
    vim.wait(3000)
    local messages = editor:lua([[return vim.fn.execute('messages')]])
    assert(not messages:find('the server exited', 1, true), messages)
    editor:quit()
  end)
end

case('the end of one server leaves the tasks of another one as they are', function()
  local first, second = harness.workspace(), harness.workspace()
  vim.fn.mkdir(first .. '/.git')
  vim.fn.mkdir(second .. '/.git')
  local editor = waiting(first)
  editor:open(second .. '/greeting.sh')
  editor:lua([[
    vim.lsp.get_clients({ name = 'roo_lsp', bufnr = 0 })[1]:stop()
  ]])
  has(editor:wait('the word of its end', [[
    local messages = vim.fn.execute('messages')
    return messages:find('the server exited with code 0', 1, true) and messages
  ]]), ':Roo restart')
  equal(editor:lua([[return require('roo.requests').is_connected()]]), true)
  has(editor:lua([[return require('roo').statusline()]]), '1 waiting for you')
  editor:command('Roo approve')
  editor:wait('the end', [[return require('roo.requests').current().state == 'completed']])
  editor:quit()
end)

harness.run()
