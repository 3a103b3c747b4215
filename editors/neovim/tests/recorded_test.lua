-- The recorded requests in tests/fixtures/events: a request and its buffer show of them what every other front end sees.

local harness = require('harness')
local Request = require('roo.request')
local case, equal = harness.case, harness.equal

local directory = harness.root .. '/tests/fixtures/events/'

local function read(name)
  local file = assert(io.open(directory .. name))
  local text = file:read('*a')
  file:close()
  return text
end

local decode = { luanil = { object = true, array = true } }
local function first_line(text)
  return (text:match('^[^\n]*'))
end

--- The blocks of a task that are of these kinds, as id and lines.
local function blocks(request, task, kinds)
  local found = {}
  for _, block in ipairs(request.blocks) do
    if block.task == task and vim.list_contains(kinds, block.kind) then
      local lines = vim.list_slice(block.lines, block.gap and 2 or 1)
      table.insert(found, { id = block.key:sub(#task.id + 2), lines = lines })
    end
  end
  return found
end

--- How this client begins a message.
local function beginning(message)
  if message.say == 'text' then
    return message.id == 'm1' and '» ' or message.id == 'brief' and 'brief: ' or ''
  end
  return ({ reasoning = 'thinking: ', user_feedback = '» ', error = '✗ ', completion_result = '✔ ' })[message.say]
end

local function messages(seen)
  return vim.tbl_map(function(message)
    local text = message.streams and message.text or message.text:gsub('%s+$', '')
    return { id = message.id, lines = vim.split(beginning(message) .. text, '\n', { plain = true }) }
  end, seen)
end

local marks = { ok = '✓', failed = '✗', denied = '✗', skipped = '–', interrupted = '–' }

local function calls(seen)
  return vim.tbl_map(function(call)
    local label = call.name and ('%s %s'):format(call.name, first_line(call.subject)) or 'call'
    local mark = call.status == 'ok' and (call.exitCode or 0) ~= 0 and '!' or marks[call.status]
    local line = call.status and ('%s %s — %s'):format(mark, label, first_line(call.summary)) or '▸ ' .. label
    return { id = call.id, lines = { line } }
  end, seen)
end

local function approvals(seen)
  return vim.tbl_map(function(approval)
    local answer = approval.answer
    if not answer then
      return { id = approval.id, title = '? ' .. approval.title }
    end
    local rule = answer.by:match('^rule .*')
    if answer.allowed == nil and rule then
      -- Neovim waits for the verdict, which is the rule's.
      return { id = approval.id, title = ('✓ %s — allowed by the standing %s'):format(approval.title, rule) }
    end
    local how = answer.allowed == nil and 'no longer asked'
      or ('%s by %s'):format(answer.allowed and 'allowed' or 'refused', answer.by)
    local mark = answer.allowed == nil and '–' or answer.allowed and '✓' or '✗'
    return { id = approval.id, title = ('%s %s — %s'):format(mark, approval.title, how) }
  end, seen)
end

--- Compares a task with what is to be seen of it.
local function check_task(request, seen, where)
  local task = assert(request.tasks[seen.id], where .. ': the task is not known')
  equal(task.mode, seen.mode, where .. ': the mode')
  equal(task.title, seen.title, where .. ': the title')
  equal(task.state, seen.state, where .. ': the state')
  equal(task.parent and task.parent.id, seen.parentId, where .. ': the parent')
  harness.has(table.concat(task.header.lines, '\n'), ('%s — %s, %s'):format(seen.title, seen.mode, seen.state))
  local says = { 'text', 'reasoning', 'user_feedback', 'error', 'completion_result' }
  equal(blocks(request, task, says), messages(seen.messages), where .. ': the messages')
  -- Commands in the background have a block of the same kind.
  local own = vim.tbl_filter(function(block)
    return not vim.startswith(block.id, 'cmd-')
  end, blocks(request, task, { 'tool' }))
  equal(own, calls(seen.calls), where .. ': the calls')
  local asked = vim.tbl_map(function(block)
    local line = block.lines[1]
    -- While it waits, the reason is shown behind the title.
    return { id = block.id, title = vim.startswith(line, '? ') and line:gsub(' — .*', '') or line }
  end, blocks(request, task, { 'approval' }))
  equal(asked, approvals(seen.approvals), where .. ': the approvals')
  local boxes = { pending = '[ ]', in_progress = '[-]', completed = '[x]' }
  local todo = vim.tbl_map(function(item)
    return boxes[item.status] .. ' ' .. item.content
  end, seen.todo)
  equal((blocks(request, task, { 'todo' })[1] or { lines = {} }).lines, todo, where .. ': the to-do list')
  local queue = vim.tbl_map(function(text)
    return '… queued: ' .. first_line(text)
  end, seen.queue)
  equal((blocks(request, task, { 'queue' })[1] or { lines = {} }).lines, queue, where .. ': the queue')
end

local function check(request, seen, where)
  equal(request.title, seen.title, where .. ': the title')
  equal(request.state, seen.tree[1].state, where .. ': the state')
  equal(vim.tbl_count(request.tasks), #seen.tasks, where .. ': the number of tasks')
  for _, task in ipairs(seen.tasks) do
    check_task(request, task, ('%s, %s'):format(where, task.id))
  end
  local tokens = 0
  local tree = vim.tbl_map(function(node)
    tokens = tokens + node.tokens
    local kept = { 'id', 'parentId', 'mode', 'title', 'state', 'tokens', 'costUsd' }
    local shown = {}
    for _, field in ipairs(kept) do
      shown[field] = node[field]
    end
    return shown
  end, request.nodes)
  equal(tree, seen.tree, where .. ': the tree')
  equal(tokens, seen.total.tokens, where .. ': the sum')
  local waiting = {}
  for _, approval in ipairs(request.approvals) do
    table.insert(waiting, approval.approvalId)
  end
  for _, question in ipairs(request.questions) do
    table.insert(waiting, question.questionId)
  end
  equal(waiting, seen.waiting, where .. ': what waits')
  equal(next(request.commands) and request.commands or {}, next(seen.commands) and seen.commands or {}, where .. ': the commands')
  local buffer = require('roo.task_buffer').buffer(request)
  equal(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), request:text(), where .. ': buffer and model differ')
end

local recordings = {}
for file in vim.fs.dir(directory) do
  table.insert(recordings, file:match('^(.*)%.jsonl$'))
end
assert(#recordings > 1)

for _, name in ipairs(recordings) do
  case(('the recorded request %s is seen as by every front end'):format(name), function()
    local events = vim.split(vim.trim(read(name .. '.jsonl')), '\n', { plain = true })
    local checkpoints = vim.json.decode(read(name .. '.view.json'), decode)
    assert(#checkpoints > 0)
    local request = Request.new('request')
    local applied = 0
    for _, checkpoint in ipairs(checkpoints) do
      while applied < checkpoint.after do
        applied = applied + 1
        equal(request:apply(vim.json.decode(events[applied], decode)), 'applied', ('%s, line %d'):format(name, applied))
      end
      check(request, checkpoint.view, ('%s after line %d'):format(name, applied))
    end
    equal(applied, #events, 'all of it is looked at')
    -- Both have the same id, by which buffers are named.
    vim.api.nvim_buf_delete(require('roo.task_buffer').buffer(request), { force = true })
  end)
end

harness.run()
