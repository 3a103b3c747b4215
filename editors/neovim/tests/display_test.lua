-- How a task is shown: Markdown that models write, and the line above it with branch, context and cost; without a server.

local harness = require('harness')
local Request = require('roo.request')
local task_buffer = require('roo.task_buffer')
local winbar = require('roo.winbar')
local case, equal, has = harness.case, harness.equal, harness.has

--- A request with two branches that is shown in a window.
---@return roo.Request
---@return integer buffer
---@return integer window
local function begin(name)
  local request = Request.new(name)
  local function feed(task, event)
    local live = event.type == 'message.delta' or event.type == 'tree.changed'
    local seq = not live and request.seq + 1 or nil
    equal(request:apply({ rootId = name, taskId = task, seq = seq, event = event }), 'applied')
  end
  request.feed = feed
  feed(name, { type = 'task.created', urid = name, mode = 'new-task', title = 'Greet 100% politely, whatever it takes' })
  feed(name .. '.2', { type = 'task.created', urid = name, mode = 'code', title = 'Change it', parentId = name })
  local window = task_buffer.show(request, true)
  return request, task_buffer.buffer(request), window
end

local function message(id, say, text)
  return { type = 'message', message = { id = id, say = say, text = text } }
end

--- The text that a Markdown group covers, with what is concealed, in the order of the buffer.
---@return string[]
local function marked(buffer, group)
  local namespace = vim.api.nvim_get_namespaces()['roo_markdown']
  local found = {}
  for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(buffer, namespace, 0, -1, { details = true })) do
    local details = mark[4]
    if details.hl_group == group then
      local text = vim.api.nvim_buf_get_text(buffer, mark[2], mark[3], details.end_row, details.end_col, {})
      table.insert(found, (table.concat(text, '\n'):gsub('\n%s*$', '')))
    end
  end
  return found
end

local function wait_for_marks(buffer, group, expected)
  local ok = vim.wait(10000, function()
    return vim.deep_equal(marked(buffer, group), expected)
  end, 5)
  if not ok then
    equal(marked(buffer, group), expected, group)
  end
end

case('what a model writes is Markdown, indented branches too, and what it runs is not', function()
  local request, buffer = begin('markdown')
  local text = '# Plan\n\nUse **care** and `sh greeting.sh`:\n\n```lua\nlocal x = 1\n```\n'
  request.feed('markdown.2', message('r1.b0', 'text', text))
  request.feed('markdown.2', { type = 'tool.started', toolCallId = 'c', name = 'execute_command', subject = 'echo **no** `code`' })
  wait_for_marks(buffer, '@markup.heading.1.markdown', { '# Plan' })
  wait_for_marks(buffer, '@markup.strong.markdown_inline', { '**care**' })
  wait_for_marks(buffer, '@markup.raw.markdown_inline', { '`sh greeting.sh`' })
  -- Code in fences by its own parser.
  wait_for_marks(buffer, '@keyword.lua', { 'local' })
  equal(vim.wo.conceallevel, 2)
  -- The buffer itself holds what was written.
  has(table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), '\n'), '  Use **care** and `sh greeting.sh`:')
end)

case('text is highlighted while it is written, and again when it is replaced', function()
  local request, buffer = begin('stream')
  local function delta(offset, text)
    request.feed('stream', { type = 'message.delta', id = 'r1.b0', say = 'text', offset = offset, text = text })
  end
  delta(0, 'One **bo')
  delta(8, 'ld** word')
  wait_for_marks(buffer, '@markup.strong.markdown_inline', { '**bold**' })
  delta(17, '\nand `code`')
  wait_for_marks(buffer, '@markup.raw.markdown_inline', { '`code`' })
  request.feed('stream', message('r1.b0', 'text', 'Other **words**'))
  wait_for_marks(buffer, '@markup.strong.markdown_inline', { '**words**' })
  wait_for_marks(buffer, '@markup.raw.markdown_inline', {})
end)

case("a result's mark is no part of its Markdown, and the user's words are none", function()
  local request, buffer = begin('result')
  request.feed('result', message('m1', 'text', 'Do **this**'))
  request.feed('result.2', message('end', 'completion_result', '- `one`\n- two'))
  wait_for_marks(buffer, '@markup.raw.markdown_inline', { '`one`' })
  equal(marked(buffer, '@markup.strong.markdown_inline'), {})
end)

case('the line above says the branch under the cursor, who is at work, its context and the cost', function()
  vim.o.columns = 300
  local request, _, window = begin('bar')
  local function node(id, mode, state, cost, parent)
    local emoji = mode == 'code' and '💻' or '🆕'
    local title = parent and 'Change it' or 'Greet 100% politely, whatever it takes'
    return { id = id, parentId = parent, mode = mode, emoji = emoji, title = title, state = state, tokens = 9, costUsd = cost, startedAt = 0 }
  end
  -- What was used in all; the second request is what came to it.
  request.feed('bar', { type = 'usage', tokensIn = 1000, tokensOut = 100 })
  request.feed('bar', { type = 'usage', tokensIn = 2800, tokensOut = 300, cacheReads = 10000 })
  request.feed('bar', { type = 'tree.changed', nodes = { node('bar', 'new-task', 'paused', 0.004), node('bar.2', 'code', 'running', 0.02, 'bar') } })
  request.feed('bar', { type = 'question.asked', questionId = 'q', kind = 'followup', text = 'Which?', suggestions = {} })
  local function shown()
    vim.cmd('redraw!')
    return vim.api.nvim_eval_statusline(vim.wo[window].winbar, { winid = window, use_winbar = true, maxwidth = 200 }).str
  end
  vim.api.nvim_win_set_cursor(window, { 1, 0 })
  has(shown(), '🆕 Greet 100% politely, whatever it takes ')
  has(shown(), ' 1 waiting for you · 12k context · $0.02')
  request.feed('bar', { type = 'question.answered', questionId = 'q', by = 'x', text = 'This' })
  has(shown(), ' 💻 code running · 12k context · $0.02')
  request.feed('bar.2', message('r1.b0', 'text', 'At work'))
  vim.fn.search('At work', 'w')
  has(shown(), '🆕 Greet 100% politely, wh… › 💻 Change it ')
  -- Without room the branches above go first.
  local left = winbar.parts(request, request.tasks['bar.2'], 50)
  equal(left, '… › 💻 Change it')
  equal((winbar.parts(request, request.tasks.bar, 60)), '🆕 Greet 100% poli…')
  request.feed('bar', { type = 'tree.changed', nodes = { node('bar', 'new-task', 'completed', 0, nil) } })
  has(shown(), ' completed ')
  equal({ winbar.tokens(999), winbar.tokens(1000), winbar.tokens(12345), winbar.tokens(2000000) }, { '999', '1k', '12.3k', '2M' })
  equal({ winbar.cost(0.00123), winbar.cost(1.5) }, { '$0.0012', '$1.50' })
  equal(winbar.cost(0), nil)
end)

harness.run()
