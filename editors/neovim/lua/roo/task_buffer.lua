-- The buffer of a request: its blocks as lines, changed in place while text streams, with a fold for each branch.

local markdown = require('roo.markdown')

local M = {}

-- How long, in milliseconds, a text that is being written waits for its highlights.
local LATER = 100

local namespace = vim.api.nvim_create_namespace('roo_task')
---@type table<integer, roo.Request> By buffer.
local shown = {}
---@type table<roo.Block, true> Blocks that are to be highlighted.
local due = {}
---@type table<integer, {starts: integer[], valid: boolean}> By buffer: at which line each block begins.
local places = {}

---@param block roo.Block
---@return string
local function indent(block)
  return ('  '):rep(block.task.depth)
end

--- The lines of a block as the buffer has them.
---@param block roo.Block
---@return string[]
local function render(block)
  local prefix = indent(block)
  local lines = {}
  for index, line in ipairs(block.lines) do
    lines[index] = line == '' and '' or prefix .. line
  end
  return lines
end

--- The first row of the block at this index. It counts from the end, where the changes are.
---@param buffer integer
---@param blocks roo.Block[]
---@param index integer
---@return integer
local function row_of(buffer, blocks, index)
  local row = vim.api.nvim_buf_line_count(buffer)
  for place = #blocks, index, -1 do
    row = row - (blocks[place].rows or 0)
  end
  return row
end

---@param buffer integer
---@param block roo.Block
---@param row integer
---@param index integer
---@param group string
local function colour_line(buffer, block, row, index, group)
  local line = block.lines[index]
  if line and line ~= '' then
    local from = #indent(block)
    vim.api.nvim_buf_set_extmark(buffer, namespace, row + index - 1, from, {
      end_col = from + #line,
      hl_group = group,
      priority = 110,
    })
  end
end

---@param buffer integer
---@param block roo.Block
---@param row integer
local function colour(buffer, block, row)
  for index, group in pairs(block.groups or {}) do
    colour_line(buffer, block, row, index, group)
  end
end

--- Highlights the Markdown of a block, soon: it may be written on.
---@param buffer integer
---@param request roo.Request
---@param block roo.Block
local function decorate_later(buffer, request, block)
  if not block.markdown or due[block] then
    return
  end
  due[block] = true
  vim.defer_fn(function()
    due[block] = nil
    if shown[buffer] == request and request.by_key[block.key] == block then
      markdown.decorate(buffer, block, row_of(buffer, request.blocks, request:index_of(block)), #indent(block))
    end
  end, LATER)
end

--- Changes the buffer, and keeps windows at its end that were there.
---@param buffer integer
---@param change fun()
local function edit(buffer, change)
  local last = vim.api.nvim_buf_line_count(buffer)
  local following = {}
  for _, window in ipairs(vim.fn.win_findbuf(buffer)) do
    if vim.api.nvim_win_get_cursor(window)[1] >= last then
      table.insert(following, window)
    end
  end
  vim.bo[buffer].modifiable = true
  change()
  vim.bo[buffer].modifiable = false
  vim.bo[buffer].modified = false
  local now = vim.api.nvim_buf_line_count(buffer)
  if now ~= last then
    for _, window in ipairs(following) do
      vim.api.nvim_win_set_cursor(window, { now, 0 })
    end
  end
end

--- Closes the fold of a quiet block in the current window. The branch's own fold, around it, is left alone.
---@param block roo.Block
---@param row integer Where its text begins.
local function close_here(block, row)
  if vim.fn.foldclosed(row + 1) == -1 and vim.fn.foldlevel(row + 1) == block.task.depth + 2 then
    vim.cmd.foldclose({ range = { row + 1 } })
  end
end

--- Closes the fold of a quiet block in every window that shows the buffer.
---@param buffer integer
---@param block roo.Block
---@param row integer Where its text begins.
local function close_fold(buffer, block, row)
  for _, window in ipairs(vim.fn.win_findbuf(buffer)) do
    vim.api.nvim_win_call(window, function()
      close_here(block, row)
    end)
  end
end

---@param block roo.Block
---@return boolean
local function is_closed(block)
  return block.quiet and not block.open and #block.lines > (block.gap and 2 or 1)
end

--- The row after the empty line that sets a block off.
---@param block roo.Block
---@param row integer
---@return integer
local function text_row(block, row)
  return block.gap and row + 1 or row
end

--- Names the buffer as soon as the request has a name; to rename it would leave another buffer behind.
---@param buffer integer
---@param request roo.Request
local function name(buffer, request)
  if request.urid == '' or vim.api.nvim_buf_get_name(buffer) ~= '' then
    return
  end
  local wanted = 'roo://task/' .. request.urid
  for _, other in ipairs(vim.api.nvim_list_bufs()) do
    -- What a :bdelete has left.
    if vim.api.nvim_buf_get_name(other) == wanted and not shown[other] then
      vim.api.nvim_buf_delete(other, { force = true })
    end
  end
  vim.api.nvim_buf_set_name(buffer, wanted)
end

---@param buffer integer
---@param request roo.Request
---@return roo.View
local function view_of(buffer, request)
  local blocks = request.blocks
  ---@type roo.View
  return {
    inserted = function(block, index)
      local row = row_of(buffer, blocks, index)
      -- A buffer is never without a line; the first block takes the place of that one.
      local is_first = #blocks == 1
      local lines = render(block)
      -- Folds are computed while the lines change, by what stands here.
      block.rows = #lines
      places[buffer].valid = false
      edit(buffer, function()
        vim.api.nvim_buf_set_lines(buffer, is_first and 0 or row, is_first and -1 or row, false, lines)
      end)
      row = is_first and 0 or row
      name(buffer, request)
      colour(buffer, block, row)
      decorate_later(buffer, request, block)
      if is_closed(block) then
        close_fold(buffer, block, text_row(block, row))
      end
    end,
    appended = function(block, pieces)
      local index = request:index_of(block)
      local row = row_of(buffer, blocks, index) + block.rows - 1
      local prefix = indent(block)
      local lines = { pieces[1] }
      for place = 2, #pieces do
        lines[place] = pieces[place] == '' and '' or prefix .. pieces[place]
      end
      local line = vim.api.nvim_buf_get_lines(buffer, row, row + 1, true)[1]
      if line == '' and lines[1] ~= '' then
        lines[1] = prefix .. lines[1]
      end
      block.rows = block.rows + #lines - 1
      if #lines > 1 then
        places[buffer].valid = false
      end
      edit(buffer, function()
        vim.api.nvim_buf_set_text(buffer, row, #line, row, #line, lines)
      end)
      if block.groups then
        vim.api.nvim_buf_clear_namespace(buffer, namespace, row, row + 1)
        local first = #block.lines - #lines + 1
        for place = first, #block.lines do
          if block.groups[place] then
            colour_line(buffer, block, row - first + 1, place, block.groups[place])
          end
        end
      end
      decorate_later(buffer, request, block)
    end,
    replaced = function(block)
      local row = row_of(buffer, blocks, request:index_of(block))
      local lines, old = render(block), block.rows
      if old ~= #lines then
        places[buffer].valid = false
      end
      block.rows = #lines
      edit(buffer, function()
        vim.api.nvim_buf_clear_namespace(buffer, namespace, row, row + old)
        markdown.clear(buffer, row, old)
        vim.api.nvim_buf_set_lines(buffer, row, row + old, false, lines)
      end)
      colour(buffer, block, row)
      decorate_later(buffer, request, block)
    end,
    removed = function(block, index)
      local row = row_of(buffer, blocks, index) - block.rows
      places[buffer].valid = false
      edit(buffer, function()
        vim.api.nvim_buf_clear_namespace(buffer, namespace, row, row + block.rows)
        markdown.clear(buffer, row, block.rows)
        vim.api.nvim_buf_set_lines(buffer, row, row + block.rows, false, {})
      end)
    end,
    folded = function(block)
      if is_closed(block) then
        close_fold(buffer, block, text_row(block, row_of(buffer, blocks, request:index_of(block))))
      end
    end,
  }
end

--- The request that a buffer shows.
---@param buffer integer
---@return roo.Request?
function M.request_of(buffer)
  return shown[buffer]
end

--- The block that a line of the buffer belongs to, and the line's place in it.
---@param buffer integer
---@param line integer From 1.
---@return roo.Block?
---@return integer? place From 1.
function M.block_at(buffer, line)
  local request, place = shown[buffer], places[buffer]
  if not request or not place then
    return
  end
  if not place.valid then
    place.starts, place.valid = {}, true
    local start = 1
    for index, block in ipairs(request.blocks) do
      place.starts[index] = start
      start = start + (block.rows or 0)
    end
  end
  local starts = place.starts
  local low, high = 1, #starts
  while low < high do
    local middle = math.floor((low + high + 1) / 2)
    if starts[middle] <= line then
      low = middle
    else
      high = middle - 1
    end
  end
  local block = request.blocks[low]
  if block then
    return block, line - starts[low] + 1
  end
end

--- The level of a line: one for each branch, and one for what is quiet.
---@return string|integer
function M.foldexpr()
  local block, place = M.block_at(vim.api.nvim_get_current_buf(), vim.v.lnum)
  if not block then
    return 0
  end
  local task = block.task
  local level = task.depth + 1
  if block.gap and place == 1 then
    -- The line above a heading belongs to what is before it.
    return block.kind == 'header' and task.depth or level
  elseif block.kind == 'header' then
    return '>' .. level
  elseif block.quiet and #block.lines > (block.gap and 2 or 1) then
    return place == (block.gap and 2 or 1) and '>' .. (level + 1) or level + 1
  end
  return level
end

--- What a closed fold says: its first line, shortened so that what is hidden can be read.
---@return string
function M.foldtext()
  local buffer = vim.api.nvim_get_current_buf()
  local line = vim.fn.getbufoneline(buffer, vim.v.foldstart)
  local block = M.block_at(buffer, vim.v.foldstart)
  local hidden = (' [+%d lines]'):format(vim.v.foldend - vim.v.foldstart)
  if block and block.kind == 'subject' then
    -- The first line of a diff says less than what the approval above it does.
    local is_diff = block.lines[1]:find('^%-%-%- ')
    line = indent(block) .. (is_diff and 'diff' or block.lines[1])
  end
  local room = vim.api.nvim_win_get_width(0) - vim.api.nvim_strwidth(hidden) - 1
  if vim.api.nvim_strwidth(line) > room then
    line = vim.fn.strcharpart(line, 0, math.max(1, room - 1), true) .. '…'
  end
  return line .. hidden
end

--- Decides or answers what the cursor is on; opens or closes the fold anywhere else.
function M.act()
  local buffer = vim.api.nvim_get_current_buf()
  local line = vim.api.nvim_win_get_cursor(0)[1]
  local block = M.block_at(buffer, line)
  if not block then
    return
  end
  local request = shown[buffer]
  if block.approval and vim.list_contains(request.approvals, block.approval) then
    require('roo.review').open(request, block.approval)
  elseif block.question and vim.list_contains(request.questions, block.question) then
    require('roo.question').ask(block.question)
  elseif vim.fn.foldlevel(line) > 0 then
    vim.cmd.normal({ 'za', bang = true })
  end
end

--- Moves to the next or the last heading of a branch.
---@param step 1|-1
function M.move(step)
  local buffer = vim.api.nvim_get_current_buf()
  local line = vim.api.nvim_win_get_cursor(0)[1] + step
  while line >= 1 and line <= vim.api.nvim_buf_line_count(buffer) do
    local block, place = M.block_at(buffer, line)
    if block and block.kind == 'header' and place == #block.lines then
      vim.api.nvim_win_set_cursor(0, { line, 0 })
      return
    end
    line = line + step
  end
end

---@param buffer integer
local function set_maps(buffer)
  local function map(key, name, action, description)
    local plug = ('<Plug>(roo-task-%s)'):format(name)
    vim.keymap.set('n', plug, action, { buffer = buffer, desc = 'Roo: ' .. description })
    if vim.fn.hasmapto(plug, 'n') == 0 then
      vim.keymap.set('n', key, plug, { buffer = buffer, remap = true, desc = 'Roo: ' .. description })
    end
  end
  map('<CR>', 'act', M.act, 'decide, answer or fold what is under the cursor')
  map(']]', 'next', function()
    M.move(1)
  end, 'next branch')
  map('[[', 'previous', function()
    M.move(-1)
  end, 'previous branch')
end

---@param window integer
local function set_up_window(window)
  local wo = vim.wo[window][0]
  wo.foldmethod = 'expr'
  wo.foldexpr = "v:lua.require'roo.task_buffer'.foldexpr()"
  wo.foldtext = "v:lua.require'roo.task_buffer'.foldtext()"
  wo.foldlevel = 99
  wo.foldenable = true
  wo.wrap = true
  wo.linebreak = true
  wo.breakindent = true
  wo.number = false
  wo.relativenumber = false
  wo.signcolumn = 'no'
  wo.fillchars = 'fold: '
  wo.winbar = "%{%v:lua.require'roo.winbar'.text()%}"
  if markdown.is_available() then
    wo.conceallevel = 2
  end
end

--- Closes what is quiet in a window that begins to show the buffer.
---@param buffer integer
---@param window integer
local function close_quiet(buffer, window)
  vim.api.nvim_win_call(window, function()
    vim.cmd('normal! zX')
    local line = 1
    for _, block in ipairs(shown[buffer].blocks) do
      local at = line + (block.gap and 1 or 0)
      if is_closed(block) then
        close_here(block, at - 1)
      end
      line = line + (block.rows or 0)
    end
  end)
end

--- The buffer of a request; made when there is none.
---@param request roo.Request
---@return integer
function M.buffer(request)
  for buffer, other in pairs(shown) do
    if other == request and vim.api.nvim_buf_is_valid(buffer) then
      return buffer
    end
  end
  local buffer = vim.api.nvim_create_buf(true, true)
  vim.b[buffer].roo_request = request.root
  local bo = vim.bo[buffer]
  bo.undolevels = -1
  bo.swapfile = false
  bo.bufhidden = 'hide'
  bo.modifiable = false
  bo.filetype = 'roo'
  shown[buffer], places[buffer] = request, { starts = {}, valid = false }
  name(buffer, request)
  set_maps(buffer)
  request.view = view_of(buffer, request)
  local lines = {}
  for _, block in ipairs(request.blocks) do
    local rendered = render(block)
    block.rows = #rendered
    vim.list_extend(lines, rendered)
  end
  edit(buffer, function()
    vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  end)
  local row = 0
  for _, block in ipairs(request.blocks) do
    colour(buffer, block, row)
    markdown.decorate(buffer, block, row, #indent(block))
    row = row + block.rows
  end
  vim.api.nvim_create_autocmd('BufWinEnter', {
    buffer = buffer,
    callback = function()
      local window = vim.api.nvim_get_current_win()
      set_up_window(window)
      close_quiet(buffer, window)
    end,
  })
  vim.api.nvim_create_autocmd('BufEnter', {
    buffer = buffer,
    callback = function()
      require('roo.requests').use(request)
    end,
  })
  vim.api.nvim_create_autocmd({ 'BufWipeout', 'BufUnload' }, {
    buffer = buffer,
    callback = function()
      request.view, shown[buffer], places[buffer] = nil, nil, nil
      for _, block in ipairs(request.blocks) do
        block.rows = nil
      end
    end,
  })
  return buffer
end

--- Shows a request in a window, and gives that window.
---@param request roo.Request
---@param enter boolean Whether the cursor goes there.
---@return integer window
function M.show(request, enter)
  local buffer = M.buffer(request)
  local window = vim.fn.bufwinid(buffer)
  if window == -1 then
    local options = require('roo.options').get()
    local is_wide = options.split == 'right' or options.split == 'left'
    local whole = is_wide and vim.o.columns or vim.o.lines
    -- Another request's window is taken over, so that they don't pile up.
    for _, other in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
      if shown[vim.api.nvim_win_get_buf(other)] then
        vim.api.nvim_win_set_buf(other, buffer)
        window = other
      end
    end
    if window == -1 then
      local size = math.max(10, math.floor(whole * options.size))
      window = vim.api.nvim_open_win(buffer, false, {
        split = options.split,
        win = -1,
        width = is_wide and size or nil,
        height = not is_wide and size or nil,
      })
      set_up_window(window)
      close_quiet(buffer, window)
    end
    vim.api.nvim_win_set_cursor(window, { vim.api.nvim_buf_line_count(buffer), 0 })
  end
  if enter then
    vim.api.nvim_set_current_win(window)
  end
  return window
end

--- Puts the cursor on the heading of a branch.
---@param request roo.Request
---@param task_id string
function M.jump(request, task_id)
  local task = request.tasks[task_id]
  if not task then
    return
  end
  local window = M.show(request, true)
  local buffer = M.buffer(request)
  local row = row_of(buffer, request.blocks, request:index_of(task.header))
  vim.api.nvim_win_set_cursor(window, { text_row(task.header, row) + 1, 0 })
  vim.cmd('normal! zvzt')
end

return M
