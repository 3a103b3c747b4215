-- Choices and input that leave the editor's loop alone. The user's own vim.ui.select and vim.ui.input are used;
-- those that Neovim comes with would stop everything, streaming too, so floats stand in for them.

local M = {}

local namespace = vim.api.nvim_create_namespace('roo_ask')
---@type table<string, string> Text that was put off before it was sent, by what it was written for.
local drafts = {}

--- Whether the function is the one that Neovim comes with.
---@param implementation function
---@return boolean
local function is_stock(implementation)
  local source = debug.getinfo(implementation, 'S').source:gsub('\\', '/')
  return source:find('vim/ui%.lua$') ~= nil
end

---@param lines string[]
---@param title string
---@param height integer
---@param editable boolean
---@param wrap? boolean Whether it is text, which is read in short lines.
---@return integer buffer
---@return integer window
local function float(lines, title, height, editable, wrap)
  local width = vim.api.nvim_strwidth(title) + 4
  for _, line in ipairs(lines) do
    width = math.max(width, vim.api.nvim_strwidth(line))
  end
  width = math.max(20, math.min(editable and math.max(width, 70) or width, vim.o.columns - 4))
  width = wrap and math.min(width, 70) or width
  height = math.min(height, math.max(1, vim.o.lines - 6))
  local client = require('roo.client').get()
  local buffer = vim.api.nvim_create_buf(false, true)
  -- What is completed here is of the workspace that the question is about.
  vim.b[buffer].roo_folder = client and client.root_dir
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  vim.bo[buffer].bufhidden = 'wipe'
  vim.bo[buffer].modifiable = editable
  local window = vim.api.nvim_open_win(buffer, true, {
    relative = 'editor',
    row = math.max(0, math.floor((vim.o.lines - height) / 2) - 1),
    col = math.floor((vim.o.columns - width) / 2),
    width = width,
    height = height,
    style = 'minimal',
    border = 'rounded',
    title = (' %s '):format(title),
    title_pos = 'left',
  })
  vim.wo[window][0].wrap = true
  vim.wo[window][0].linebreak = true
  return buffer, window
end

--- Calls back once, after the float is gone.
---@param buffer integer
---@param window integer
---@param callback fun(answer: any, index?: integer)
---@param on_put_off? fun() Called while the float is still there, if there is no answer.
---@return fun(answer?: any, index?: integer)
local function closer(buffer, window, callback, on_put_off)
  local done = false
  local function finish(answer, index)
    if done then
      return
    end
    done = true
    if answer == nil and on_put_off then
      on_put_off()
    end
    vim.cmd.stopinsert()
    if vim.api.nvim_win_is_valid(window) then
      vim.api.nvim_win_close(window, true)
    end
    -- The mode changes only when this event is over.
    vim.schedule(function()
      callback(answer, index)
    end)
  end
  vim.api.nvim_create_autocmd('WinLeave', {
    buffer = buffer,
    once = true,
    callback = function()
      finish(nil)
    end,
  })
  return finish
end

--- As vim.ui.select.
---@generic T
---@param items T[]
---@param options {prompt?: string, kind?: string, format_item?: fun(item: T): string}
---@param on_choice fun(item?: T, index?: integer)
function M.select(items, options, on_choice)
  if not is_stock(vim.ui.select) then
    vim.ui.select(items, options, on_choice)
    return
  end
  local lines = {}
  for index, item in ipairs(items) do
    local label = (options.format_item or tostring)(item):gsub('%s*\n%s*', ' ')
    table.insert(lines, ('%d  %s'):format(index, label))
  end
  local buffer, window = float(lines, (options.prompt or 'Choose'):gsub('%s*\n%s*', ' '), #lines, false)
  vim.wo[window][0].cursorline = true
  local finish = closer(buffer, window, on_choice)
  local function choose(index)
    finish(items[index], index)
  end
  local function map(key, action)
    vim.keymap.set('n', key, action, { buffer = buffer, nowait = true })
  end
  map('<CR>', function()
    choose(vim.api.nvim_win_get_cursor(window)[1])
  end)
  for index = 1, math.min(9, #items) do
    map(tostring(index), function()
      choose(index)
    end)
  end
  map('q', function()
    finish(nil)
  end)
  map('<Esc>', function()
    finish(nil)
  end)
end

--- As vim.ui.input; <CR> sends, <C-j> begins a new line, <Esc> in Normal mode puts it off.
---@param options {prompt?: string, default?: string, draft: string} What is put off is there again when something is asked
--- for with the same `draft`.
---@param on_confirm fun(text?: string)
function M.input(options, on_confirm)
  if not is_stock(vim.ui.input) then
    vim.ui.input(options, on_confirm)
    return
  end
  local lines = vim.split(drafts[options.draft] or options.default or '', '\n', { plain = true })
  local buffer, window = float(lines, vim.trim(options.prompt or ''), 5, true)
  vim.bo[buffer].filetype = 'rooprompt'
  require('roo.completion').attach(buffer)
  vim.api.nvim_win_set_config(window, {
    footer = ' @ files · / commands · <CR> send · <C-j> new line · <Esc> q later ',
    footer_pos = 'right',
  })
  local function text()
    return table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), '\n')
  end
  local finish = closer(buffer, window, on_confirm, function()
    drafts[options.draft] = text():find('%S') and text() or nil
  end)
  local function send()
    drafts[options.draft] = nil
    finish(text())
  end
  vim.keymap.set('i', '<CR>', function()
    -- Enter takes what the popup menu has selected.
    if vim.fn.complete_info({ 'selected' }).selected >= 0 then
      vim.api.nvim_feedkeys(vim.keycode('<C-y>'), 'n', false)
      return
    end
    send()
  end, { buffer = buffer })
  vim.keymap.set('n', '<CR>', send, { buffer = buffer })
  vim.keymap.set('i', '<C-j>', '<C-g>u<NL>', { buffer = buffer })
  for _, key in ipairs({ 'q', '<Esc>' }) do
    vim.keymap.set('n', key, function()
      finish(nil)
    end, { buffer = buffer, nowait = true })
  end
  vim.api.nvim_win_set_cursor(window, { #lines, 0 })
  vim.cmd.startinsert({ bang = true })
end

--- Says what an answer means, and asks for it; calls back at once.
---@param options {title: string, text: string, yes: string}
---@param on_answer fun(agreed: boolean)
---@return fun() cancel
function M.confirm(options, on_answer)
  local back = vim.api.nvim_get_current_win()
  local lines = { ('y %s · q back'):format(options.yes), '' }
  local width = math.min(70, vim.o.columns - 4)
  vim.list_extend(lines, vim.split(options.text, '\n', { plain = true }))
  local height = 0
  for _, line in ipairs(lines) do
    -- Lines break at words, so that fewer cells are filled.
    height = height + math.max(1, math.ceil(vim.api.nvim_strwidth(line) / (width - 8)))
  end
  local buffer, window = float(lines, options.title, height, false, true)
  vim.bo[buffer].filetype = 'rooreview'
  vim.api.nvim_win_set_config(window, { zindex = 60 })
  vim.hl.range(buffer, namespace, 'RooKey', { 0, 0 }, { 0, #lines[1] })
  local done = false
  local function finish(agreed)
    if done then
      return
    end
    done = true
    if vim.api.nvim_win_is_valid(window) then
      vim.api.nvim_win_close(window, true)
    end
    if vim.api.nvim_win_is_valid(back) then
      vim.api.nvim_set_current_win(back)
    end
    on_answer(agreed)
  end
  local function later()
    finish(false)
  end
  vim.api.nvim_create_autocmd('WinLeave', { buffer = buffer, once = true, callback = later })
  vim.keymap.set('n', 'y', function()
    finish(true)
  end, { buffer = buffer, nowait = true, desc = 'Roo: ' .. options.yes })
  for _, key in ipairs({ 'q', 'n', '<Esc>' }) do
    vim.keymap.set('n', key, later, { buffer = buffer, nowait = true, desc = 'Roo: back' })
  end
  return later
end

--- Lets the user change a few lines; `:write`, or <CR> in Normal mode, takes them, <Esc> in Normal mode doesn't.
---@param options {title: string, lines: string[], filetype: string}
---@param on_confirm fun(text?: string)
function M.edit(options, on_confirm)
  local buffer, window = float(options.lines, options.title, math.max(#options.lines + 1, 5), true)
  vim.api.nvim_buf_set_name(buffer, ('roo://edit/%d'):format(buffer))
  vim.bo[buffer].buftype = 'acwrite'
  vim.bo[buffer].filetype = options.filetype
  vim.bo[buffer].modified = false
  vim.wo[window][0].wrap = false
  vim.api.nvim_win_set_config(window, { footer = ' <CR> or :w accept as edited · <Esc> q back ', footer_pos = 'right' })
  local finish = closer(buffer, window, on_confirm)
  local function take()
    vim.bo[buffer].modified = false
    finish(table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), '\n'))
  end
  vim.api.nvim_create_autocmd('BufWriteCmd', { buffer = buffer, callback = take })
  vim.keymap.set('n', '<CR>', take, { buffer = buffer, nowait = true, desc = 'Roo: accept as edited' })
  for _, key in ipairs({ 'q', '<Esc>' }) do
    vim.keymap.set('n', key, function()
      finish(nil)
    end, { buffer = buffer, nowait = true, desc = 'Roo: back' })
  end
end

return M
