-- An edit that needs permission, in the files themselves: its changes as extmarks, with a decision on each. Nothing
-- of it is text of the user's buffers, and they can't be changed while they are under review.

local M = {}

local namespace = vim.api.nvim_create_namespace('roo_in_file')

---@class roo.Decision
---@field decision 'accept'|'refuse'|'edit'
---@field text? string Why it is refused, or the lines in place of the proposed ones.

---@class roo.Change One change of the edit.
---@field hunk table As `roo/approval/preview` has it.
---@field number integer
---@field file table
---@field buffer integer
---@field row integer Its first line there, from 0.
---@field rows integer How many lines of the buffer it replaces or removes; for a new file, all of it.

---@class roo.InFile What is open.
---@field changes roo.Change[]
---@field buffers integer[]
---@field current roo.Change
---@field window integer
---@field context roo.InFileContext
---@field restore fun()[] What gives buffers and windows back as they were.
---@field measured? boolean Whether the window has been drawn with the signs.
---@field closed boolean

---@class roo.InFileContext What the review gives.
---@field window integer Where files are shown, if it is a window for files.
---@field drafts table<string, roo.Decision> By the digests of changes.
---@field at? string The digest of the change to begin with.
---@field keys string[] The keys that `map` maps.
---@field map fun(buffer: integer)
---@field heading fun(): string
---@field rows fun(width: integer, change: roo.Change, opened: roo.InFile): string[] The keys, in rows that fit.
---@field changed fun() Called when a buffer has other lines than those that were shown.
---@field gone fun() Called when a buffer is removed.

---@type table<integer, boolean> The buffers that can't be changed for now, and whether they could before.
local locked = {}

---@param buffer integer
local function lock(buffer)
  locked[buffer] = vim.bo[buffer].modifiable
  vim.bo[buffer].modifiable = false
end

---@param buffer integer
local function unlock(buffer)
  if vim.api.nvim_buf_is_valid(buffer) then
    vim.bo[buffer].modifiable = locked[buffer]
  end
  locked[buffer] = nil
end

--- Calls a function while all buffers can be changed: what the server edits is edited during a review too.
---@generic T
---@param edit fun(): T
---@return T
function M.unlocked(edit)
  local function each(set)
    for buffer, could in pairs(locked) do
      if vim.api.nvim_buf_is_valid(buffer) then
        vim.bo[buffer].modifiable = set(could)
      end
    end
  end
  each(function(could)
    return could
  end)
  local ok, result = pcall(edit)
  each(function()
    return false
  end)
  if not ok then
    error(result, 0)
  end
  return result
end

--- The lines of a text, without their ends.
---@param text string
---@return string[]
local function lines_of(text)
  local lines = vim.split(text:gsub('\r\n', '\n'), '\n', { plain = true })
  if lines[#lines] == '' then
    table.remove(lines)
  end
  return lines
end
M.lines_of = lines_of

--- The buffer of a file; for a new one a buffer with its text.
---@param file table
---@param restore fun()[]
---@return integer
local function buffer_of(file, restore)
  if file.before then
    local buffer = vim.fn.bufadd(vim.fn.fnamemodify(vim.uri_to_fname(file.uri), ':.'))
    vim.fn.bufload(buffer)
    vim.bo[buffer].buflisted = true
    lock(buffer)
    table.insert(restore, function()
      unlock(buffer)
    end)
    return buffer
  end
  local path = vim.uri_to_fname(file.uri)
  local buffer = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_name(buffer, ('roo://review/new/%d/%s'):format(buffer, vim.fn.fnamemodify(path, ':.')))
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines_of(file.after))
  vim.bo[buffer].filetype = vim.filetype.match({ filename = path }) or ''
  vim.bo[buffer].modifiable = false
  table.insert(restore, function()
    if vim.api.nvim_buf_is_valid(buffer) then
      vim.api.nvim_buf_delete(buffer, { force = true })
    end
  end)
  return buffer
end

--- Where a change stands in its buffer; nothing if the buffer holds something else.
---@param change roo.Change
---@return integer? row
---@return integer? rows
local function place(change)
  local hunk, count = change.hunk, vim.api.nvim_buf_line_count(change.buffer)
  if hunk.kind == 'create' or hunk.kind == 'delete' then
    return 0, count
  elseif hunk.kind == 'move' then
    return 0, 0
  end
  local old = lines_of(hunk.oldText)
  local row = hunk.oldRange.start
  if vim.deep_equal(vim.api.nvim_buf_get_lines(change.buffer, row, row + #old, false), old) then
    return row, #old
  end
end

--- Maps the keys in a buffer, and remembers what the user has there.
---@param opened roo.InFile
---@param buffer integer
local function map(opened, buffer)
  local before = {}
  vim.api.nvim_buf_call(buffer, function()
    for _, key in ipairs(opened.context.keys) do
      local mapping = vim.fn.maparg(key, 'n', false, true)
      before[key] = mapping.buffer == 1 and mapping or false
    end
  end)
  opened.context.map(buffer)
  table.insert(opened.restore, 1, function()
    if not vim.api.nvim_buf_is_valid(buffer) then
      return
    end
    vim.api.nvim_buf_call(buffer, function()
      for key, mapping in pairs(before) do
        pcall(vim.keymap.del, 'n', key, { buffer = buffer })
        if mapping then
          vim.fn.mapset('n', false, mapping)
        end
      end
    end)
  end)
end

--- A line in pieces that fit, with spaces in place of tabs: virtual lines are neither wrapped nor expanded.
---@param line string
---@param width integer
---@param tabstop integer
---@return string[]
local function pieces(line, width, tabstop)
  local found, text, cells = {}, {}, 0
  for _, character in ipairs(vim.fn.split(line, '\\zs')) do
    if character == '\t' then
      character = (' '):rep(tabstop - cells % tabstop)
    else
      character = vim.fn.strtrans(character)
    end
    local wide = vim.api.nvim_strwidth(character)
    if cells + wide > width and cells > 0 then
      table.insert(found, table.concat(text))
      text, cells = {}, 0
    end
    table.insert(text, character)
    cells = cells + wide
  end
  table.insert(found, table.concat(text))
  return found
end

---@param opened roo.InFile
---@param change roo.Change
---@return string
local function label(opened, change)
  local text = ('change %d of %d'):format(change.number, #opened.changes)
  local decision = opened.context.drafts[change.hunk.digest]
  if not decision then
    return text
  elseif decision.decision == 'accept' then
    return text .. ': accepted'
  elseif decision.decision == 'edit' then
    return text .. ': accepted as edited'
  end
  return text .. ': refused' .. (decision.text and (', “%s”'):format(vim.fn.strtrans(decision.text)) or '')
end

--- The lines below a change: what is proposed, and what can be done.
---@param opened roo.InFile
---@param change roo.Change
---@param width integer
---@return [string, string][][]
local function below(opened, change, width)
  local decision = opened.context.drafts[change.hunk.digest]
  local virtual = {}
  local function add(text, group)
    -- To the end of the window: what is proposed looks like a line.
    local rest = width - vim.api.nvim_strwidth(text)
    table.insert(virtual, { { text .. (' '):rep(math.max(rest, 0)), group } })
  end
  local hunk = change.hunk
  local is_edited = decision and decision.decision == 'edit'
  if hunk.kind == 'edit' or is_edited then
    local group = decision and decision.decision == 'refuse' and 'RooChangeRefused' or 'RooChangeNew'
    for _, line in ipairs(lines_of(is_edited and decision.text or hunk.newText)) do
      for _, piece in ipairs(pieces(line, width, vim.bo[change.buffer].tabstop)) do
        add(piece, group)
      end
    end
  elseif hunk.kind == 'delete' then
    add('the file is deleted', 'RooChangeOld')
  elseif hunk.kind == 'move' then
    add('the file is moved to ' .. vim.fn.fnamemodify(vim.uri_to_fname(change.file.movedTo), ':.'), 'RooChangeNew')
  end
  local is_current = change == opened.current
  local heading = label(opened, change)
  if is_current then
    heading = ('%s · %s'):format(opened.context.heading(), heading)
  end
  for _, piece in ipairs(pieces(heading, width, 8)) do
    add(piece, is_current and 'RooKey' or 'RooQuiet')
  end
  if is_current then
    for _, row in ipairs(opened.context.rows(width, change, opened)) do
      add(row, 'RooKey')
    end
  end
  return virtual
end

local signs = { accept = { '✓', 'RooTool' }, edit = { '✓', 'RooTool' }, refuse = { '✗', 'RooToolFailed' } }

--- Where what is below a change is shown, and whether that is above this line.
---@param change roo.Change
---@return integer row
---@return boolean above
local function anchor(change)
  if change.rows > 0 then
    return change.row + change.rows - 1, false
  elseif change.row > 0 then
    return change.row - 1, false
  end
  return 0, true
end

--- Draws all changes.
---@param opened roo.InFile
function M.draw(opened)
  local info = vim.fn.getwininfo(opened.window)[1]
  local width = math.max(20, info and info.width - info.textoff or 80)
  for _, buffer in ipairs(opened.buffers) do
    vim.api.nvim_buf_clear_namespace(buffer, namespace, 0, -1)
  end
  for _, change in ipairs(opened.changes) do
    local decision = opened.context.drafts[change.hunk.digest]
    local refused = decision and decision.decision == 'refuse'
    local group = change.hunk.kind == 'create' and 'RooChangeNew' or 'RooChangeOld'
    for row = change.row, change.row + change.rows - 1 do
      vim.api.nvim_buf_set_extmark(change.buffer, namespace, row, 0, {
        line_hl_group = not refused and group or nil,
        priority = 120,
      })
    end
    local row, above = anchor(change)
    local sign = decision and signs[decision.decision] or { '?', 'RooWaiting' }
    vim.api.nvim_buf_set_extmark(change.buffer, namespace, row, 0, {
      virt_lines = below(opened, change, width),
      virt_lines_above = above,
      sign_text = sign[1],
      sign_hl_group = sign[2],
      priority = 120,
    })
  end
end

---@param window integer
---@return boolean
local function is_for_files(window)
  return vim.api.nvim_win_is_valid(window)
    and vim.api.nvim_win_get_tabpage(window) == vim.api.nvim_get_current_tabpage()
    and vim.api.nvim_win_get_config(window).relative == ''
    and vim.bo[vim.api.nvim_win_get_buf(window)].buftype == ''
    and not vim.wo[window].winfixbuf
end

--- The window in which files are shown.
---@param context roo.InFileContext
---@param buffer integer The first one to be shown.
---@return integer
local function window_for(context, buffer)
  if is_for_files(context.window) then
    return context.window
  end
  local shown = vim.fn.bufwinid(buffer)
  if shown ~= -1 and is_for_files(shown) then
    return shown
  end
  for _, window in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
    if is_for_files(window) then
      return window
    end
  end
  return vim.api.nvim_open_win(buffer, false, { split = 'left', win = -1 })
end

--- Whether all lines that tell about a change are in the window.
---@param opened roo.InFile
---@param change roo.Change
---@return boolean
local function is_in_sight(opened, change)
  local row = anchor(change) + 1
  local info = vim.fn.getwininfo(opened.window)[1]
  return info ~= nil and vim.api.nvim_win_get_buf(opened.window) == change.buffer and row >= info.topline and row <= info.botline
end

--- Goes to a change.
---@param opened roo.InFile
---@param change roo.Change
function M.go(opened, change)
  if not vim.api.nvim_win_is_valid(opened.window) then
    opened.window = window_for(opened.context, change.buffer)
  end
  opened.current = change
  vim.api.nvim_set_current_win(opened.window)
  if vim.api.nvim_win_get_buf(opened.window) ~= change.buffer then
    vim.cmd("normal! m'")
    vim.api.nvim_win_set_buf(opened.window, change.buffer)
  end
  local last = vim.api.nvim_buf_line_count(change.buffer)
  vim.api.nvim_win_set_cursor(opened.window, { math.min(change.row + 1, last), 0 })
  vim.cmd('normal! zvzz')
  M.draw(opened)
  if not opened.measured then
    -- The signs may have made a column of their own, which leaves less room.
    opened.measured = true
    vim.cmd.redraw()
    M.draw(opened)
  end
  local row, above = anchor(change)
  if above and row == 0 then
    -- What is above the first line is out of sight otherwise.
    vim.fn.winrestview({ topline = 1, topfill = #below(opened, change, 80) })
  end
end

--- The change that keys are about. Nothing if it is out of sight; it is gone to then.
---@param opened roo.InFile
---@return roo.Change?
function M.aim(opened)
  if is_in_sight(opened, opened.current) then
    return opened.current
  end
  M.go(opened, opened.current)
end

--- The next change in either direction; with `open` the next on which nothing is decided.
---@param opened roo.InFile
---@param step 1|-1
---@param open? boolean
---@return roo.Change?
function M.next(opened, step, open)
  local count = #opened.changes
  for distance = 1, count do
    local change = opened.changes[(opened.current.number - 1 + step * distance) % count + 1]
    if not open or not opened.context.drafts[change.hunk.digest] then
      return change
    end
  end
end

--- Makes the change at the cursor the one that keys are about.
---@param opened roo.InFile
---@param buffer integer
local function follow(opened, buffer)
  if opened.closed or vim.api.nvim_get_current_buf() ~= buffer then
    return
  end
  local row = vim.api.nvim_win_get_cursor(0)[1] - 1
  local nearest, least
  for _, change in ipairs(opened.changes) do
    if change.buffer == buffer then
      local distance = math.max(change.row - row, row - math.max(change.row + change.rows - 1, change.row), 0)
      if not least or distance < least then
        nearest, least = change, distance
      end
    end
  end
  if nearest and nearest ~= opened.current then
    opened.current = nearest
    M.draw(opened)
  end
end

--- Opens the files of an edit at its changes. Nothing is opened where a buffer holds something else than the server says.
---@param files table[] As `roo/approval/preview` has them.
---@param context roo.InFileContext
---@return roo.InFile?
function M.open(files, context)
  ---@type roo.InFile
  local opened = { changes = {}, buffers = {}, context = context, restore = {}, closed = false }
  for _, file in ipairs(files) do
    local ok, buffer = pcall(buffer_of, file, opened.restore)
    if not ok then
      M.close(opened)
      return nil
    end
    table.insert(opened.buffers, buffer)
    for _, hunk in ipairs(file.hunks or {}) do
      local change = { hunk = hunk, number = #opened.changes + 1, file = file, buffer = buffer }
      change.row, change.rows = place(change)
      if not change.row then
        M.close(opened)
        return nil
      end
      table.insert(opened.changes, change)
    end
  end
  local first
  for _, change in ipairs(opened.changes) do
    if change.hunk.digest == context.at then
      first = change
    end
  end
  for _, change in ipairs(opened.changes) do
    first = first or not context.drafts[change.hunk.digest] and change or nil
  end
  first = first or opened.changes[1]
  if not first then
    M.close(opened)
    return nil
  end
  opened.window = window_for(context, first.buffer)
  local window, before = opened.window, vim.api.nvim_win_get_buf(opened.window)
  table.insert(opened.restore, 1, function()
    -- A new file's window shows again what it showed.
    local is_ours = vim.api.nvim_win_is_valid(window) and vim.api.nvim_buf_get_name(vim.api.nvim_win_get_buf(window)):find('^roo://review/new/')
    if is_ours and vim.api.nvim_buf_is_valid(before) then
      vim.api.nvim_win_set_buf(window, before)
    end
  end)
  local group = vim.api.nvim_create_augroup('roo_in_file', {})
  for _, buffer in ipairs(opened.buffers) do
    map(opened, buffer)
    vim.api.nvim_create_autocmd('CursorMoved', {
      group = group,
      buffer = buffer,
      callback = function()
        follow(opened, buffer)
      end,
    })
    vim.api.nvim_create_autocmd({ 'BufUnload', 'BufWipeout' }, {
      group = group,
      buffer = buffer,
      callback = vim.schedule_wrap(function()
        if not opened.closed then
          context.gone()
        end
      end),
    })
    vim.api.nvim_buf_attach(buffer, false, {
      on_lines = function()
        if opened.closed then
          return true
        end
        vim.schedule(function()
          if not opened.closed then
            context.changed()
          end
        end)
      end,
    })
  end
  vim.api.nvim_create_autocmd('WinResized', {
    group = group,
    callback = function()
      if not opened.closed then
        M.draw(opened)
      end
    end,
  })
  M.go(opened, first)
  return opened
end

--- Takes what is drawn away. The keys stay, and so does the lock, until it is closed.
---@param opened roo.InFile
function M.clear(opened)
  for _, buffer in ipairs(opened.buffers) do
    if vim.api.nvim_buf_is_valid(buffer) then
      vim.api.nvim_buf_clear_namespace(buffer, namespace, 0, -1)
    end
  end
end

---@param opened roo.InFile
function M.close(opened)
  if opened.closed then
    return
  end
  opened.closed = true
  pcall(vim.api.nvim_del_augroup_by_name, 'roo_in_file')
  M.clear(opened)
  for _, restore in ipairs(opened.restore) do
    restore()
  end
end

--- Draws it again: the title is another one.
---@param opened roo.InFile
function M.retitle(opened)
  M.draw(opened)
end

--- Whether one of its files is in front.
---@param opened roo.InFile
---@return boolean
function M.is_in_front(opened)
  return vim.list_contains(opened.buffers, vim.api.nvim_get_current_buf())
end

--- The answers to send once every change has its decision: nothing before.
---@param opened roo.InFile
---@return {hunkId: string, digest: string, decision: string, text?: string}[]?
function M.answers(opened)
  local answers = {}
  for _, change in ipairs(opened.changes) do
    local decision = opened.context.drafts[change.hunk.digest]
    if not decision then
      return nil
    end
    table.insert(answers, {
      hunkId = change.hunk.hunkId,
      digest = change.hunk.digest,
      decision = decision.decision,
      text = decision.text,
    })
  end
  return answers
end

return M
