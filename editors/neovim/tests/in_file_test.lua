-- An edit in the user's own buffer, change by change: what is drawn, each decision, and what the server makes of them.

local harness = require('harness')
local case, equal, has = harness.case, harness.equal, harness.has

local BEFORE = {}
for number = 1, 40 do
  BEFORE[number] = ('line %d'):format(number)
end
local AFTER = vim.list_extend({}, BEFORE)
AFTER[3] = 'third'
AFTER[20] = 'twentieth\\n\\tindented'
table.remove(AFTER, 38)

--- An editor with a file that a model wants to change in three places, another one, and a new one.
---@return roo.test.Editor
---@return string workspace
local function begin()
  local workspace = harness.workspace()
  vim.fn.writefile(BEFORE, workspace .. '/poem.txt')
  vim.fn.writefile({ 'one', 'two' }, workspace .. '/note.txt')
  local editor = harness.play(workspace, {
    'turns:',
    '  - when: { contains: Change the poem }',
    '    calls: [{ tool: read_file, params: { files: [{ path: poem.txt }] } }]',
    '  - when: { contains: line 40 }',
    '    calls:',
    ('      - { tool: write_to_file, params: { path: poem.txt, content: "%s\\n" } }'):format(table.concat(AFTER, '\\n')),
    '  - when: { contains: Change the note }',
    '    calls: [{ tool: read_file, params: { files: [{ path: note.txt }] } }]',
    '  - when: { contains: two }',
    '    calls:',
    '      - { tool: write_to_file, params: { path: note.txt, content: "zero\\none\\ntwo\\n" } }',
    '  - when: { contains: Write the page }',
    '    calls:',
    '      - { tool: write_to_file, params: { path: page.md, content: "# Page\\n\\nText.\\n" } }',
    '  - when: { contains: ".txt" }',
    '    calls: [{ tool: attempt_completion, params: { result: Done. } }]',
    '    repeat: true',
    '  - when: { contains: page.md }',
    '    calls: [{ tool: attempt_completion, params: { result: Done. } }]',
    '    repeat: true',
    '  - when: { status: denied }',
    '    calls: [{ tool: attempt_completion, params: { result: Left as it was. } }]',
    '    repeat: true',
  })
  editor:lua([[vim.o.columns, vim.o.lines = 160, 50]])
  return editor, workspace
end

--- Starts a request and waits until so many approvals wait.
local function ask(editor, prompt, count)
  editor:command('Roo new --mode=code ' .. prompt)
  editor:wait('an approval', [[
    local waiting = 0
    for _, request in ipairs(require('roo.requests').all()) do
      waiting = waiting + #request.approvals
    end
    return waiting == ...
  ]], count or 1)
end

--- What is drawn below the lines of a buffer: its text by line, from 1.
local DRAWN = [[
  local buffer = vim.api.nvim_get_current_buf()
  local found = {}
  local marks = vim.api.nvim_buf_get_extmarks(buffer, vim.api.nvim_get_namespaces().roo_in_file, 0, -1, { details = true })
  for _, mark in ipairs(marks) do
    for _, line in ipairs(mark[4].virt_lines or {}) do
      local text = table.concat(vim.tbl_map(function(part) return part[1] end, line))
      table.insert(found, ('%d %s'):format(mark[2] + 1, (text:gsub('%s+$', ''))))
    end
  end
  return found
]]

--- Waits until the review is in the file, takes answers, and what is drawn has this text.
local function drawn(editor, part)
  return editor:wait(('%q in the file'):format(part), [[
    local function drawn() ]] .. DRAWN .. [[ end
    local namespace = vim.api.nvim_get_namespaces().roo_in_file
    local text = namespace and table.concat(drawn(), '\n') or ''
    return text:find(..., 1, true) and require('roo.review').is_settled() and text
  ]], part)
end

local function completed(editor)
  editor:wait('the end', [[return require('roo.requests').current().state == 'completed']])
end

local function buffer_text(editor, name)
  return table.concat(editor:lines(name), '\n')
end

--- The result of the last tool call, as the model got it.
local function result(editor)
  return editor:wait('the result of the call', [[
    local request = require('roo.requests').current()
    local client = vim.lsp.get_clients({ name = 'roo_lsp' })[1]
    local text = table.concat(request:text(), '\n')
    return text:find('Edit poem.txt — allowed', 1, true) and text
  ]])
end

case('one change is accepted, one edited, one refused with words; the buffer has exactly that, and it can be undone', function()
  local editor = begin()
  editor:command('edit poem.txt')
  ask(editor, 'Change the poem')
  editor:command('Roo review')
  editor:wait('the float', [[return vim.bo.filetype == 'rooreview' and require('roo.review').is_settled()]])
  has(editor:shown(), 'f in the file')
  editor:press('f')
  local text = drawn(editor, 'change 1 of 3')
  has(text, '3 third')
  has(text, 'Edit poem.txt · change 1 of 3')
  has(text, 'a accept')
  has(text, '20 twentieth\n20         indented')
  equal(editor:lua([[return vim.fn.bufname()]]), 'poem.txt')
  equal(buffer_text(editor, 'poem.txt'), table.concat(BEFORE, '\n'))
  -- What is pressed by mistake changes nothing.
  equal(editor:lua([[return vim.bo.modifiable]]), false)
  editor:lua([[pcall(vim.cmd, 'normal! x')]])
  equal(buffer_text(editor, 'poem.txt'), table.concat(BEFORE, '\n'))
  editor:press('a')
  has(drawn(editor, 'Edit poem.txt · change 2 of 3'), 'change 1 of 3: accepted')
  equal(editor:lua([[return vim.api.nvim_win_get_cursor(0)[1] ]]), 20)
  -- A decision can be taken back, and the keys are about the change at the cursor.
  editor:press('[c')
  drawn(editor, 'Edit poem.txt · change 1 of 3: accepted')
  editor:press('u')
  has(drawn(editor, 'Edit poem.txt · change 1 of 3'), 'a accept')
  editor:press('a')
  drawn(editor, 'Edit poem.txt · change 2 of 3')
  -- Whoever closes the lines that they edit has decided nothing.
  editor:press('e')
  editor:wait('the lines', [[return vim.api.nvim_win_get_config(0).relative ~= '' and vim.bo.modifiable]])
  equal(editor:shown(), 'twentieth\n\tindented')
  editor:press('<Esc>')
  drawn(editor, 'Edit poem.txt · change 2 of 3')
  editor:press('e')
  editor:wait('the lines', [[return vim.api.nvim_win_get_config(0).relative ~= '' and vim.bo.modifiable]])
  editor:lua([[vim.api.nvim_buf_set_lines(0, 0, -1, false, { 'the twentieth' })]])
  editor:command('write')
  has(drawn(editor, 'Edit poem.txt · change 3 of 3'), 'change 2 of 3: accepted as edited')
  editor:press('t')
  editor:wait('the prompt', [[return vim.bo.filetype == 'rooprompt']])
  editor:press('iKeep 38<CR>')
  completed(editor)
  local wanted = vim.list_extend({}, BEFORE)
  wanted[3], wanted[20] = 'third', 'the twentieth'
  equal(editor:lines('poem.txt'), wanted)
  equal(editor:lua([[return vim.bo[vim.fn.bufnr('poem.txt')].modifiable]]), true)
  text = result(editor)
  has(text, '✓ Edit poem.txt — allowed by Neovim: 1 accepted, 1 edited, 1 refused')
  has(text, '✎ poem.txt:20 — with your lines')
  has(text, '✗ poem.txt:38 — Keep 38')
  -- Nothing of the review is left in the buffer, its keys included.
  editor:wait('the closed review', [[return vim.api.nvim_win_get_config(0).relative == '' and vim.fn.bufname() == 'poem.txt']])
  equal(editor:lua(DRAWN), {})
  equal(editor:lua([[return vim.fn.maparg('a', 'n') .. vim.fn.maparg(']c', 'n')]]), '')
  editor:command('undo')
  equal(editor:lines('poem.txt'), BEFORE)
  editor:quit()
end)

case('keys of the user come back, what is undecided stays open, and the float and both texts know what was decided', function()
  local editor, workspace = begin()
  editor:command('edit poem.txt')
  editor:lua([[vim.keymap.set('n', 'a', 'ggdd', { buffer = 0 })]])
  ask(editor, 'Change the poem')
  editor:lua([[vim.g.roo = { review = 'file' }]])
  editor:command('Roo review')
  drawn(editor, 'change 1 of 3')
  editor:press('d')
  drawn(editor, 'Edit poem.txt · change 2 of 3')
  editor:press('s')
  editor:wait('both texts', [[return vim.wo.diff and require('roo.review').is_settled()]])
  equal(editor:lua([[return vim.fn.maparg('a', 'n', false, true).desc]]), 'Roo: allow once')
  editor:press('f')
  has(drawn(editor, 'Edit poem.txt · change 2 of 3'), 'change 1 of 3: refused')
  editor:press('f')
  editor:wait('the float', [[return vim.bo.filetype == 'rooreview' and require('roo.review').is_settled()]])
  has(editor:shown(), '1 change is decided in the file; a and d answer the others')
  equal(editor:lua([[return vim.fn.maparg('a', 'n', false, true).desc]]), 'Roo: allow once')
  editor:press('q')
  equal(editor:lua([[return vim.fn.maparg('a', 'n')]]), 'ggdd')
  equal(editor:lua([[return vim.bo.modifiable]]), true)
  -- Later it starts over.
  editor:command('Roo review')
  drawn(editor, 'Edit poem.txt · change 1 of 3')
  editor:press('d')
  drawn(editor, 'Edit poem.txt · change 2 of 3')
  editor:press('<CR>')
  completed(editor)
  local wanted = vim.list_extend({}, BEFORE)
  wanted[20] = 'twentieth'
  table.insert(wanted, 21, '\tindented')
  table.remove(wanted, 39)
  equal(editor:lines('poem.txt'), wanted)
  equal(vim.fn.readfile(workspace .. '/poem.txt'), BEFORE)
  editor:quit()
end)

case('an answer in the float is about the changes that are not decided in the file', function()
  local editor = begin()
  editor:command('edit poem.txt')
  ask(editor, 'Change the poem')
  editor:lua([[vim.g.roo = { review = 'file' }]])
  editor:command('Roo review')
  drawn(editor, 'change 1 of 3')
  editor:press('a')
  drawn(editor, 'Edit poem.txt · change 2 of 3')
  editor:press('f')
  editor:wait('the float', [[return vim.bo.filetype == 'rooreview' and require('roo.review').is_settled()]])
  -- A permanent answer is about the whole edit, and says so.
  editor:press('A')
  editor:wait('the scope', [[
    return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\n'):find('It answers the whole edit', 1, true)
  ]])
  editor:press('q')
  editor:press('d')
  completed(editor)
  local wanted = vim.list_extend({}, BEFORE)
  wanted[3] = 'third'
  equal(editor:lines('poem.txt'), wanted)
  has(editor:task_text(), '— allowed by Neovim: 1 accepted, 2 refused')
  editor:quit()
end)

case('a file that is not open is opened for it, what is added above the first line is seen, and a new file has a buffer of its own', function()
  local editor, workspace = begin()
  local files = editor:lua([[return vim.api.nvim_get_current_win()]])
  ask(editor, 'Change the note', 1)
  ask(editor, 'Write the page', 2)
  editor:lua([[vim.g.roo = { review = 'file' }]])
  editor:command('Roo review')
  -- The request used last comes first.
  drawn(editor, 'Create page.md (2 of 2) · change 1 of 1')
  equal(editor:shown(), '# Page\n\nText.')
  equal(editor:lua([[return vim.api.nvim_get_current_win()]]), files)
  editor:press('aa')
  local text = drawn(editor, 'Edit note.txt · change 1 of 1')
  has(text, '1 zero')
  equal(editor:lua([[return vim.fn.bufname()]]), 'note.txt')
  -- It is on the screen, above the first line.
  equal(editor:lua([[return vim.fn.winsaveview().topfill > 0]]), true)
  equal(vim.fn.readfile(workspace .. '/page.md'), { '# Page', '', 'Text.' })
  editor:press('a')
  editor:wait('the closed review', [[return vim.fn.bufname() == 'note.txt' and vim.fn.maparg('a', 'n') == '']])
  editor:wait('the edited buffer', [[return vim.fn.getbufoneline('note.txt', 1) == 'zero']])
  equal(editor:lua([[return vim.bo.modifiable]]), true)
  equal(editor:lua([[return vim.tbl_filter(function(buffer)
    return vim.api.nvim_buf_get_name(buffer):find('roo://review', 1, true) ~= nil
  end, vim.api.nvim_list_bufs())]]), {})
  editor:quit()
end)

case('a patch of several files is answered file by file: one changed, one deleted, one new, one moved', function()
  local workspace = harness.workspace()
  for _, name in ipairs({ 'a', 'b', 'c' }) do
    vim.fn.writefile({ name .. ' one', name .. ' two' }, ('%s/%s.txt'):format(workspace, name))
  end
  local editor = harness.play(workspace, {
    'turns:',
    '  - calls: [{ tool: read_file, params: { files: [{ path: a.txt }, { path: b.txt }, { path: c.txt }] } }]',
    '  - calls:',
    '      - tool: apply_patch',
    '        params:',
    '          patch: |',
    '            *** Begin Patch',
    '            *** Update File: a.txt',
    '            @@',
    '             a one',
    '            -a two',
    '            +a second',
    '            *** Delete File: b.txt',
    '            *** Update File: c.txt',
    '            *** Move to: d.txt',
    '            @@',
    '             c one',
    '            -c two',
    '            +c second',
    '            *** Add File: e.txt',
    '            +e one',
    '            *** End Patch',
    '  - calls: [{ tool: attempt_completion, params: { result: Done. } }]',
    '    repeat: true',
  })
  editor:lua([[vim.o.columns, vim.o.lines = 160, 50]])
  ask(editor, 'Patch it')
  editor:lua([[vim.g.roo = { review = 'file' }]])
  editor:command('Roo review')
  drawn(editor, 'change 1 of 5')
  editor:press('s')
  local names = editor:wait('a tab page for each file', [[
    local names = {}
    for _, window in ipairs(vim.api.nvim_list_wins()) do
      local name = vim.wo[window].diff and vim.wo[window].winbar:match('^after: (.*)')
      table.insert(names, name or nil)
    end
    table.sort(names)
    return #names == 4 and require('roo.review').is_settled() and names
  ]])
  equal(names, { 'a.txt', 'b.txt', 'd.txt', 'e.txt' })
  editor:press('f')
  drawn(editor, 'change 1 of 5')
  equal(editor:lua([[return #vim.api.nvim_list_tabpages()]]), 1)
  equal(editor:lua([[return vim.fn.bufname()]]), 'a.txt')
  editor:press('a')
  has(drawn(editor, '· change 2 of 5'), 'the file is deleted')
  equal(editor:lua([[return vim.fn.bufname()]]), 'b.txt')
  -- There are no lines to edit.
  editor:press('e')
  equal(editor:lua([[return vim.fn.bufname()]]), 'b.txt')
  editor:press('d')
  has(drawn(editor, '· change 3 of 5'), 'the file is moved to d.txt')
  equal(editor:lua([[return vim.fn.bufname()]]), 'c.txt')
  editor:press('a')
  has(drawn(editor, '· change 4 of 5'), 'c second')
  editor:press('a')
  drawn(editor, '· change 5 of 5')
  equal(editor:shown(), 'e one')
  editor:press('a')
  completed(editor)
  local function read(name)
    local path = workspace .. '/' .. name
    return vim.uv.fs_stat(path) and table.concat(vim.fn.readfile(path), ' ') or nil
  end
  has(editor:task_text(), ': 4 accepted, 1 refused')
  equal({ read('b.txt'), read('c.txt'), read('e.txt') }, { 'b one b two', nil, 'e one' })
  equal(editor:lines('a.txt')[2], 'a second')
  equal(read('d.txt'), 'c one c second')
  editor:quit()
end)

case('an edit that does not fit its file any more leaves the file, and nothing of it is written', function()
  local editor = begin()
  editor:command('edit poem.txt')
  ask(editor, 'Change the poem')
  editor:lua([[vim.g.roo = { review = 'file' }]])
  editor:command('Roo review')
  drawn(editor, 'change 1 of 3')
  editor:press('a')
  drawn(editor, 'Edit poem.txt · change 2 of 3')
  -- As another agent would.
  editor:lua([[require('roo.in_file').unlocked(function() vim.api.nvim_buf_set_lines(0, 10, 10, false, { 'new' }) end)]])
  editor:wait('the float', [[return vim.bo.filetype == 'rooreview' and require('roo.review').is_settled()]])
  has(editor:lua([[return vim.fn.execute('messages')]]), 'has changed')
  equal(editor:lua([[return vim.bo[vim.fn.bufnr('poem.txt')].modifiable]]), true)
  -- What was decided counts for nothing of it, and nothing is answered by half of it.
  editor:press('a')
  editor:wait('the word that it is gone', [[
    return vim.fn.execute('messages'):find('your decisions on single changes are gone', 1, true)
      and require('roo.review').is_settled()
  ]])
  equal(editor:waiting(), 'Edit poem.txt')
  editor:press('a')
  completed(editor)
  has(editor:task_text(), 'refused — poem.txt has changed since you read it')
  equal(editor:lines('poem.txt')[3], 'line 3')
  editor:quit()
end)

case('a buffer that is removed ends the review, and one that could not be changed before stays so', function()
  local editor = begin()
  editor:command('view poem.txt')
  editor:command('setlocal nomodifiable')
  ask(editor, 'Change the poem')
  editor:lua([[vim.g.roo = { review = 'file' }]])
  editor:command('Roo review')
  drawn(editor, 'change 1 of 3')
  editor:press('q')
  equal(editor:lua([[return vim.bo.modifiable]]), false)
  editor:command('Roo review')
  drawn(editor, 'change 1 of 3')
  editor:command('bwipeout')
  editor:wait('the end of the review', [[return not require('roo.review').is_settled()]])
  equal(editor:waiting(), 'Edit poem.txt')
  equal(editor:lua([[return vim.fn.execute('messages'):match('E%d+:[^\n]*')]]), vim.NIL)
  -- It can be opened again.
  editor:command('Roo review')
  drawn(editor, 'change 1 of 3')
  editor:quit()
end)

harness.run()
