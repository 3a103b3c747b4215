-- The fold of events into blocks, and the buffer that shows them; without a server.

local harness = require('harness')
local Request = require('roo.request')
local case, equal = harness.case, harness.equal

local requests = 0

local function created(id, parent, title)
  requests = requests + 1
  return { type = 'task.created', parentId = parent, urid = 'u' .. requests, mode = 'code', title = title or id }, id
end

--- Numbers events that have to be numbered, and applies them.
local function feed(request, list)
  for _, pair in ipairs(list) do
    local event, task = pair[1], pair[2] or 't'
    local live = event.type == 'message.delta' or event.type == 'tool.output' or event.type == 'tree.changed'
    local seq = not live and request.seq + 1 or nil
    equal(request:apply({ rootId = 't', taskId = task, seq = seq, event = event }), 'applied')
  end
  return request
end

local function delta(id, offset, text)
  return { type = 'message.delta', id = id, say = 'text', offset = offset, text = text }
end

local function message(id, say, text)
  return { type = 'message', message = { id = id, say = say, text = text } }
end

--- A buffer and the model must always say the same.
local function same(request)
  local buffer = require('roo.task_buffer').buffer(request)
  equal(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), request:text(), 'buffer and model differ')
  return buffer
end

case('a fork has a title and an id of its own, and says where it begins', function()
  local request = feed(Request.new('t'), {
    { created('t', nil, 'Go') },
    {
      {
        type = 'task.forked',
        urid = 'v',
        title = 'Go another way',
        from = { taskId = 'other', urid = 'u', seq = 1, usage = {} },
      },
    },
  })
  equal({ request.urid, request.title }, { 'v', 'Go another way' })
  local text = table.concat(request:text(), '\n')
  equal(text:find('⑂ forked from u at event 1', 1, true) ~= nil, true, text)
  same(request)
end)

case('an imported request says where it is from', function()
  local request = feed(Request.new('t'), {
    { created('t', nil, 'Go') },
    { { type = 'task.imported', from = { program = 'Roo Code', taskId = 'other' } } },
  })
  local text = table.concat(request:text(), '\n')
  equal(text:find('imported from Roo Code, task other', 1, true) ~= nil, true, text)
  same(request)
end)

case('running text grows, and its end replaces it', function()
  local request = Request.new('t')
  same(feed(request, { { (created('t')) } }))
  feed(request, { { delta('r1.b0', 0, 'One') }, { delta('r1.b0', 3, ' and\ntwo') } })
  same(request)
  equal(request:text(), { 't — code, running', '', 'One and', 'two' })
  -- A piece that overlaps what is there, and one after a gap.
  feed(request, { { delta('r1.b0', 9, 'wo, three') }, { delta('r1.b0', 99, 'far away') } })
  equal(request:text()[4], 'two, three')
  feed(request, { { message('r1.b0', 'text', 'One and\ntwo, three, four') } })
  equal(request:text()[4], 'two, three, four')
  same(request)
  -- Closed is closed.
  feed(request, { { delta('r1.b0', 24, ' five') } })
  equal(request:text()[4], 'two, three, four')
end)

case('branches that stream at the same time stay apart', function()
  local request = Request.new('t')
  same(feed(request, { { (created('t')) }, { created('t.2', 't', 'left') }, { created('t.3', 't', 'right') } }))
  local texts = { ['t.2'] = '', ['t.3'] = '' }
  math.randomseed(7)
  for step = 1, 200 do
    local task = math.random() < 0.5 and 't.2' or 't.3'
    local piece = math.random() < 0.2 and '\n' .. step or ' ' .. step
    feed(request, { { delta('r1.b0', #texts[task], piece), task } })
    texts[task] = texts[task] .. piece
    if step % 20 == 0 then
      same(request)
    end
  end
  local buffer = same(request)
  local lines = vim.api.nvim_buf_get_lines(buffer, 0, -1, false)
  local right
  for index, line in ipairs(lines) do
    right = line:find('right — code', 1, true) and index or right
  end
  local expected = {}
  for _, line in ipairs(vim.split(texts['t.3'], '\n')) do
    table.insert(expected, line == '' and '' or '  ' .. line)
  end
  equal(vim.list_slice(lines, right + 2), expected)
end)

case('what a failed model request said is void, of its own task alone', function()
  local request = Request.new('t')
  local payload = '{"request":1,"cancelReason":"streaming_failed"}'
  feed(request, {
    { (created('t')) },
    { created('t.2', 't') },
    { message('r1.b0', 'text', 'mine') },
    { message('r1.b0', 'text', 'its'), 't.2' },
    { delta('r1.b1', 0, 'unfinished') },
    { message('r1', 'api_req_started', payload) },
  })
  local text = table.concat(request:text(), '\n')
  harness.has(text, '  its')
  assert(not text:find('mine') and not text:find('unfinished'), text)
end)

case('what was being written when the server ended is forgotten, what was closed stays', function()
  local request = Request.new('t')
  feed(request, {
    { (created('t')) },
    { delta('r1.b0', 0, 'clo') },
    { message('r1.b0', 'text', 'closed') },
    { delta('r2.b0', 0, 'open') },
    { { type = 'message.delta', id = 'r2.b1', say = 'tool', offset = 0, text = 'read_file\na' } },
  })
  request:forget_live()
  equal(request:text(), { 't — code, running', '', 'closed' })
  -- It is written once more, from the beginning.
  feed(request, { { delta('r2.b0', 0, 'again') } })
  equal(request:text()[5], 'again')
  same(request)
end)

local function output(offset, text)
  return { type = 'tool.output', toolCallId = 'c1', offset = offset, text = text }
end

--- A request whose command runs.
local function running()
  local request = Request.new('t')
  feed(request, {
    { (created('t')) },
    { { type = 'tool.started', toolCallId = 'c1', name = 'execute_command', subject = 'make' } },
  })
  return request
end

case('output has its place: what is told again after attaching again is known', function()
  local request = running()
  same(request)
  feed(request, { { output(0, 'one\ntw') }, { output(6, 'o\n') }, { output(8, 'three') } })
  equal({ unpack(request:text(), 3) }, { 'one', 'two', 'three' })
  request:forget_live()
  feed(request, { { output(0, 'one\ntwo\nthree') }, { output(8, 'three, four\n') } })
  equal({ unpack(request:text(), 3) }, { 'one', 'two', 'three, four' })
  local buffer = same(request)
  local marks = vim.api.nvim_buf_get_extmarks(buffer, -1, { 2, 0 }, { 4, -1 }, { details = true })
  local coloured = vim.tbl_map(function(mark)
    return { mark[2], mark[4].end_col }
  end, marks)
  equal(coloured, { { 2, 3 }, { 3, 3 }, { 4, 11 } }, 'each line is highlighted once')
  -- A call that is run again prints from its begin.
  feed(request, {
    { { type = 'tool.started', toolCallId = 'c1', name = 'execute_command', subject = 'make' } },
    { output(0, 'again') },
  })
  equal({ unpack(request:text(), 3) }, { 'again' })
  same(request)
end)

case('what a command in the background prints is shown after the result of its call', function()
  local request = running()
  feed(request, {
    { output(0, 'begun\n') },
    { { type = 'command.backgrounded', commandId = 'x1', toolCallId = 'c1', command = 'make' } },
    { { type = 'tool.finished', toolCallId = 'c1', status = 'ok', summary = 'Runs on' } },
  })
  request:show_output(request.tasks.t, 'c1', 'It runs on.\nOutput:\nbegun\n')
  feed(request, { { output(6, 'more\n') } })
  -- The end of any other command shows the outputs of all again.
  request:show_output(request.tasks.t, 'c1', 'It runs on.\nOutput:\nbegun\n')
  local text = table.concat(request:text(), '\n')
  equal(text:find('begun\nmore', 1, true) ~= nil, true, text)
  same(request)
end)

case('a call that is being written is told again without growing', function()
  local request = feed(Request.new('t'), { { (created('t')) } })
  local function piece(offset, text)
    return { type = 'message.delta', id = 'r1.b0', say = 'tool', offset = offset, text = text }
  end
  feed(request, { { piece(0, 'write_to') }, { piece(8, '_file\na.md\none\n') } })
  equal(request:text()[2], '… write_to_file a.md (2 lines)')
  feed(request, { { piece(0, 'write_to_file\na.md\none\n') }, { piece(15, '.md\none\ntwo\n') } })
  equal(request:text()[2], '… write_to_file a.md (3 lines)')
  -- Of one that is met half-written nothing can be said.
  feed(request, { { { type = 'message.delta', id = 'r1.b1', say = 'tool', offset = 9, text = 'x\n' } } })
  equal(#request:text(), 2)
end)

case('of a long output the end is shown, and pieces are only appended', function()
  local request = running()
  same(request)
  local replaced, view = 0, request.view
  request.view = setmetatable({
    replaced = function(block)
      replaced = replaced + 1
      view.replaced(block)
    end,
  }, { __index = view })
  local piece = (('x'):rep(1023) .. '\n'):rep(10)
  for index = 0, 9999 do
    feed(request, { { output(index * #piece, piece) } })
  end
  local lines = { unpack(request:text(), 3) }
  equal(lines[1], '… earlier output left out')
  equal(lines[2], ('x'):rep(1023), 'it begins with a whole line')
  assert(#table.concat(lines, '\n') <= 64 * 1024 + 100, 'too much is kept')
  -- Half of what is kept is let go at a time: three pieces and more between two of these.
  assert(replaced <= 3334, ('%d of 10000 pieces replaced all of it'):format(replaced))
  same(request)
  local line = running()
  feed(line, { { output(0, ('é'):rep(5 * 1024 * 1024)) } })
  equal(line:text()[3], '… earlier output left out')
  assert(line:text()[4]:match('^[é]+$') and #line:text()[4] <= 64 * 1024)
  -- What the server left out for a slow client is missing before what comes.
  feed(line, { { output(20 * 1024 * 1024, 'end') } })
  assert(vim.endswith(line:text()[4], 'éend'))
end)

case('a context that is shortened, kept or restored is a line of its own, with the summary folded', function()
  local request = Request.new('t')
  feed(request, {
    { (created('t')) },
    { { type = 'context.shortening', method = 'summary' } },
  })
  equal(request:text()[2], '… shortening the context, a summary is being written')
  feed(request, {
    { { type = 'context.shortened', method = 'summary', tokensBefore = 31200, tokensAfter = 900, summary = 'So far:\n- one\n', costUsd = 0.01 } },
    { { type = 'context.kept', reason = 'the summary was longer' } },
    { { type = 'context.restored', seq = 3, tokensBefore = 900, tokensAfter = 1031200 } },
    { { type = 'usage', tokensIn = 10, tokensOut = 5, costUsd = 0, context = { used = 12400, window = 200000 } } },
  })
  equal({ unpack(request:text(), 2) }, {
    '⇣ context shortened: 31,200 → 900 tokens, earlier turns summarized',
    'So far:',
    '- one',
    '– context not shortened: the summary was longer',
    '⇡ context restored: 900 → 1,031,200 tokens',
  })
  equal(request.by_key['t/summary3'].quiet, true)
  local _, right = require('roo.winbar').parts(request, nil, 80)
  harness.has(right, '12.4k of 200k context')
  same(request)
end)

case('a restore is shown, with what it brings back and what came of it', function()
  local request = Request.new('t')
  local files = { { path = 'a', change = 'changed' }, { path = 'b', change = 'created' } }
  feed(request, {
    { (created('t')) },
    { { type = 'restore.started', seq = 5, what = 'both', files = files, by = 'Neovim' } },
    { { type = 'restore.finished', seq = 2, done = true, conversationBefore = 5 } },
    { { type = 'restore.started', seq = 5, what = 'files', files = {}, by = 'cli' } },
    { { type = 'restore.finished', seq = 4, done = false, reason = 'a has changed' } },
  })
  equal({ unpack(request:text(), 2) }, {
    '',
    '⟲ Neovim restores files and the conversation, 2 files',
    '✓ restored; the model no longer sees what was said since',
    '',
    '⟲ cli restores files',
    '✗ nothing was restored: a has changed',
  })
  -- What failed leaves nothing to undo.
  equal(request.restored, 2)
  same(request)
end)

case('what a restore would do is described before it is done', function()
  local lines, groups = require('roo.checkpoints').describe({
    files = { { path = 'a', uri = 'file:///a', before = 'x\n', after = 'y\n', diff = '--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n' } },
    conflicts = { { path = 'b', reason = 'you have changed line 3', marked = false } },
    leftOut = { { path = 'c', reason = 'it is too large' } },
    conversation = { before = 5, dropped = 2 },
    digest = 'd',
  })
  equal(lines, {
    'y restore, but for these files · m restore, with conflict markers · q back',
    'b stays as it is: you have changed line 3',
    "c can't be restored: it is too large",
    'the model no longer sees 2 messages and results',
    '',
    '--- a/a',
    '+++ b/a',
    '@@ -1 +1 @@',
    '-x',
    '+y',
  })
  equal({ groups[1], groups[2], groups[4], groups[9], groups[10] }, { 'RooKey', 'RooWaiting', 'RooQuiet', 'RooRemoved', 'RooAdded' })
end)

case('numbers are taken once, and a gap is told', function()
  local request = Request.new('t')
  feed(request, { { (created('t')) }, { message('m1', 'text', 'prompt') } })
  local function apply(seq, from)
    return request:apply({ rootId = 't', taskId = 't', seq = seq, from = from, event = message('x', 'text', 'x') })
  end
  equal(apply(2), 'known')
  equal(apply(5), 'gap')
  equal(request.seq, 2)
  equal(apply(5, 3), 'applied')
  equal(request.seq, 5)
  equal(request:apply({ rootId = 't', taskId = 't', seq = 6, event = { type = 'from.the.future' } }), 'applied')
end)

case('approvals and questions wait until they are answered or void', function()
  local request = Request.new('t')
  local approval = {
    type = 'approval.requested',
    approvalId = 'a1',
    toolCallId = 'c1',
    digest = 'd',
    title = 'Edit a',
    subject = '--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n',
    reason = 'why',
    options = { { id = 'no', name = 'Deny', kind = 'reject_once' }, { id = 'yes', name = 'Allow', kind = 'allow_once' } },
  }
  feed(request, { { (created('t')) }, { approval } })
  equal(request:waiting(), 1)
  feed(request, { { { type = 'approval.resolved', approvalId = 'a1', by = 'Helix', optionId = 'no' } } })
  equal(request:waiting(), 0)
  harness.has(table.concat(request:text(), '\n'), '✗ Edit a — refused by Helix')
  local question = { type = 'question.asked', questionId = 'q1', kind = 'followup', text = 'Which?', suggestions = { { text = 'this' } } }
  feed(request, { { question } })
  equal(request:waiting(), 1)
  feed(request, { { { type = 'question.answered', questionId = 'q1', by = 'server' } } })
  equal(request:waiting(), 0)
  assert(not table.concat(request:text(), '\n'):find('to answer'), 'it still asks')
  same(request)
end)

case('each branch is a fold, and so is what is quiet', function()
  local request = Request.new('t')
  feed(request, {
    { (created('t')) },
    { message('m1', 'text', 'prompt') },
    { created('t.2', 't', 'child') },
    { message('brief', 'text', 'do\nthis\nnow'), 't.2' },
    { message('r1.b0', 'text', 'inside'), 't.2' },
    { message('r1.b0', 'text', 'after') },
  })
  local task_buffer = require('roo.task_buffer')
  local window = task_buffer.show(request, true)
  local levels = {}
  for line = 1, vim.api.nvim_buf_line_count(0) do
    local text = vim.fn.getline(line)
    if text ~= '' then
      table.insert(levels, ('%d %s'):format(vim.fn.foldlevel(line), vim.trim(text)))
    end
  end
  equal(levels, {
    '1 t — code, running',
    '1 » prompt',
    '2 child — code, running',
    '3 brief: do',
    '3 this',
    '3 now',
    '2 inside',
    '1 after',
  })
  -- The brief is closed, and nothing else is.
  local closed = {}
  for line = 1, vim.api.nvim_buf_line_count(0) do
    if vim.fn.foldclosed(line) == line then
      table.insert(closed, vim.trim(vim.fn.getline(line)))
    end
  end
  equal(closed, { 'brief: do' })
  -- It stays so for what comes later.
  feed(request, { { message('r2.b0', 'reasoning', 'hm\nso'), 't.2' } })
  local found = vim.fn.search('thinking: hm', 'w')
  equal(vim.fn.foldclosed(found), found)
  equal(vim.fn.foldclosed(vim.fn.search('inside', 'w')), -1)
  vim.api.nvim_win_close(window, true)
end)

case('a buffer that was deleted is made again', function()
  local request = Request.new('t')
  local first = same(feed(request, { { (created('t')) } }))
  vim.cmd.bdelete(first)
  feed(request, { { message('r1.b0', 'text', 'meanwhile') } })
  local second = same(request)
  assert(second ~= first)
  harness.has(vim.api.nvim_buf_get_name(second), 'roo://task/u')
end)

case('a window at the end follows, one that was moved away stays', function()
  local request = Request.new('t')
  feed(request, { { (created('t')) } })
  local window = require('roo.task_buffer').show(request, true)
  feed(request, { { delta('r1.b0', 0, 'a\nb\nc') } })
  equal(vim.api.nvim_win_get_cursor(window)[1], 5)
  vim.api.nvim_win_set_cursor(window, { 2, 0 })
  feed(request, { { delta('r1.b0', 5, '\nd\ne') } })
  equal(vim.api.nvim_win_get_cursor(window)[1], 2)
  vim.api.nvim_win_close(window, true)
end)

case('the tree is drawn with its branches', function()
  local function node(id, parent, title)
    return { id = id, parentId = parent, title = title, emoji = '*', state = 'running', tokens = 0, costUsd = 0, mode = 'code' }
  end
  local lines = require('roo.tree_buffer').draw({
    node('a', nil, 'root'),
    node('b', 'a', 'one'),
    node('c', 'a', 'two'),
    node('d', 'b', 'deep'),
  })
  equal(lines, { '* root — running', '├── * one — running', '│   └── * deep — running', '└── * two — running' })
end)

case('options stand before the prompt, and nothing in it is an option', function()
  local read = require('roo.command').read_options
  local prompt, options = read('--mode=code --profile=x fix --mode=y')
  equal({ prompt, options }, { 'fix --mode=y', { mode = 'code', profile = 'x' } })
  equal({ read('--force it') }, { '--force it', {} })
end)

case('a prompt is completed with files as they are typed, and with what can be pointed at', function()
  vim.cmd.cd(harness.workspace())
  local complete = require('roo.command').complete
  equal(complete('@gre', 'Roo new fix @gre'), { '@greeting.sh' })
  equal(complete('@/gre', 'Roo new fix @/gre'), { '@/greeting.sh' })
  vim.fn.writefile({}, 'my notes.md')
  equal(complete('@my', 'Roo new see @my'), { '@my\\ notes.md' })
  equal(complete('@prob', 'Roo send see @prob'), { '@problems' })
  equal(complete('re', 'Roo re'), { 'restart', 'resume', 'review' })
  equal(complete('--mode=ar', 'Roo new --mode=ar'), { '--mode=architect' })
end)

case('an unknown subcommand is told, and starts nothing', function()
  vim.cmd('Roo greet everybody')
  harness.has(vim.fn.execute('messages'), 'there is no :Roo greet')
  equal(#vim.lsp.get_clients({ name = 'roo_lsp' }), 0)
end)

case('no key is mapped, and every action has its <Plug>', function()
  for _, mode in ipairs({ 'n', 'x', 'i' }) do
    for _, map in ipairs(vim.api.nvim_get_keymap(mode)) do
      local ours = (map.desc or ''):find('^Roo: ')
      assert(not ours or map.lhs:find('^<Plug>%(roo%-'), ('%s is mapped'):format(map.lhs))
    end
  end
  equal(vim.fn.hasmapto('<Plug>(roo-new)'), 0)
  assert(vim.fn.maparg('<Plug>(roo-review)', 'n', false, true).callback)
end)

case('a choice of the own kind blocks nothing, and is made by number', function()
  local chosen, ticks = nil, 0
  local timer = vim.uv.new_timer()
  timer:start(0, 1, function()
    ticks = ticks + 1
  end)
  require('roo.ask').select({ 'a', 'b' }, { prompt = 'Which?' }, function(item)
    chosen = item
  end)
  local before = ticks
  harness.wait('the loop', function()
    return ticks > before + 3
  end)
  equal(chosen, nil)
  vim.api.nvim_feedkeys('2', 'x', false)
  harness.wait('the choice', function()
    return chosen == 'b'
  end)
  timer:close()
end)

case("the user's own vim.ui.select is used", function()
  local stock, seen = vim.ui.select, nil
  vim.ui.select = function(items, options, on_choice)
    seen = options.prompt
    on_choice(items[1], 1)
  end
  local chosen
  require('roo.ask').select({ 'a' }, { prompt = 'Which?' }, function(item)
    chosen = item
  end)
  vim.ui.select = stock
  equal({ seen, chosen }, { 'Which?', 'a' })
end)

case('a long message is one line that fits', function()
  local shown
  local stock = vim.notify
  vim.notify = function(text)
    shown = text
  end
  require('roo.client').notify(('ä\n'):rep(400))
  vim.notify = stock
  assert(not shown:find('\n') and vim.api.nvim_strwidth(shown) <= vim.v.echospace, shown)
end)

harness.run()
