-- What needs permission: a float with the whole diff or command and a key for each answer. It is opened by the user
-- alone, so that no key that was meant for something else can allow anything.

local client = require('roo.client')
local highlight = require('roo.highlight')

local M = {}

local namespace = vim.api.nvim_create_namespace('roo_review')
---@type {window: integer, buffer: integer, request: roo.Request, approval: roo.Approval}? What is open.
local open

--- The key of each answer: the first of its kind, or the one of this id.
local keys = {
  { kind = 'allow_once', key = 'a' },
  { kind = 'allow_always', key = 'A' },
  { id = 'allow_commands', key = 'C' },
  { id = 'allow_everywhere', key = 'E' },
  { id = 'allow_preset', key = 'P' },
  { kind = 'reject_once', key = 'd' },
  { kind = 'reject_always', key = 'D' },
}

--- The option of this id, or the first of this kind.
---@param approval roo.Approval
---@param wanted {id?: string, kind?: string}
---@return {id: string, name: string, kind: string}?
local function option_of(approval, wanted)
  for _, option in ipairs(approval.options) do
    if option.id == wanted.id or option.kind == wanted.kind then
      return option
    end
  end
end

--- Closes the float. The question stays.
function M.close()
  local was = open
  open = nil
  if was and vim.api.nvim_win_is_valid(was.window) then
    vim.api.nvim_win_close(was.window, true)
  end
end

--- Answers with the first option of a kind, or with the option of an id.
---@param approval roo.Approval
---@param wanted string|{id?: string, kind?: string} The kind, or one of them by name.
---@param text? string What the model is told with it.
---@param opened? boolean Whether the user has the whole subject before them.
function M.respond(approval, wanted, text, opened)
  local option = option_of(approval, type(wanted) == 'string' and { kind = wanted } or wanted)
  if not option then
    client.notify(('this approval has no such option: %s'):format(approval.title), vim.log.levels.WARN)
    return
  end
  client.request('roo/approval/respond', {
    approvalId = approval.approvalId,
    digest = approval.digest,
    optionId = option.id,
    text = text,
    opened = opened,
  }, function(result)
    if not result.accepted then
      client.notify(('%s answered first: %s'):format(result.by, approval.title))
    elseif result.interrupted then
      client.notify('your answer is saved; the request is interrupted, continue it with :Roo resume', vim.log.levels.WARN)
    end
  end)
end

--- Compares the texts before and after in two windows of a new tab page.
---@param approval roo.Approval
function M.compare(approval)
  client.request('roo/approval/preview', { approvalId = approval.approvalId }, function(result)
    for _, file in ipairs(result.files) do
      vim.cmd.tabnew()
      local filetype = vim.filetype.match({ filename = vim.uri_to_fname(file.uri) }) or ''
      for index, side in ipairs({ 'before', 'after' }) do
        if index == 2 then
          vim.cmd('rightbelow vsplit')
        end
        local buffer = vim.api.nvim_create_buf(false, true)
        vim.api.nvim_buf_set_lines(buffer, 0, -1, false, vim.split(file[side] or '', '\n', { plain = true }))
        vim.bo[buffer].bufhidden = 'wipe'
        vim.bo[buffer].filetype = filetype
        vim.bo[buffer].modifiable = false
        vim.api.nvim_win_set_buf(0, buffer)
        vim.wo[0][0].winbar = ('%s: %s'):format(side, vim.fn.fnamemodify(vim.uri_to_fname(file.uri), ':.'))
        vim.cmd.diffthis()
      end
    end
    if #result.files == 0 then
      client.notify('this is not about files')
    end
  end, function()
    client.notify("this server can't show both versions; the float has the diff")
  end)
end

---@param approval roo.Approval
---@return string
local function answers(approval)
  local parts = {}
  for _, answer in ipairs(keys) do
    local option = option_of(approval, answer)
    if option then
      table.insert(parts, ('%s %s'):format(answer.key, option.name))
    end
  end
  table.insert(parts, 't refuse, with words')
  if approval.subject:find('^%-%-%- ') then
    table.insert(parts, 's side by side')
  end
  table.insert(parts, 'q later')
  return table.concat(parts, ' · ')
end

---@param approval roo.Approval
---@param width integer
---@return string[] lines
---@return table<integer, string> groups
local function contents(approval, width)
  local lines, groups = {}, {}
  local function add(line, group)
    table.insert(lines, line)
    groups[#lines] = group
  end
  add(('%s asks: %s'):format(approval.task.mode, approval.reason), 'RooQuiet')
  -- The keys stand above what may be longer than the screen, and not on the border, which would cut them.
  local row = ''
  for _, part in ipairs(vim.split(answers(approval), ' · ', { plain = true })) do
    local longer = row == '' and part or row .. ' · ' .. part
    if vim.api.nvim_strwidth(longer) > width and row ~= '' then
      add(row, 'RooKey')
      row = part
    else
      row = longer
    end
  end
  add(row, 'RooKey')
  add('')
  for _, line in ipairs(vim.split((approval.subject:gsub('\n$', '')), '\n', { plain = true })) do
    add(line, highlight.of_diff(line))
  end
  return lines, groups
end

--- Opens the float for one approval.
---@param request roo.Request
---@param approval roo.Approval
function M.open(request, approval)
  M.close()
  local width = math.min(math.max(60, math.floor(vim.o.columns * 0.8)), vim.o.columns - 4, 110)
  local lines, groups = contents(approval, width)
  local height = 0
  for _, line in ipairs(lines) do
    height = height + math.max(1, math.ceil(vim.api.nvim_strwidth(line) / width))
  end
  height = math.min(height, math.max(3, vim.o.lines - 6))
  local buffer = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  vim.bo[buffer].bufhidden = 'wipe'
  vim.bo[buffer].modifiable = false
  vim.bo[buffer].filetype = 'rooreview'
  for index, group in pairs(groups) do
    vim.api.nvim_buf_set_extmark(buffer, namespace, index - 1, 0, {
      end_row = index - 1,
      end_col = #lines[index],
      hl_group = group,
    })
  end
  local more = #request.approvals > 1 and (' (1 of %d)'):format(#request.approvals) or ''
  local window = vim.api.nvim_open_win(buffer, true, {
    relative = 'editor',
    row = math.floor((vim.o.lines - height) / 2) - 1,
    col = math.floor((vim.o.columns - width) / 2),
    width = width,
    height = height,
    style = 'minimal',
    border = 'rounded',
    title = (' %s%s '):format(approval.title, more),
    title_pos = 'center',
  })
  vim.wo[window][0].wrap = true
  vim.wo[window][0].linebreak = true
  open = { window = window, buffer = buffer, request = request, approval = approval }

  local function map(key, action, description)
    vim.keymap.set('n', key, action, { buffer = buffer, nowait = true, desc = 'Roo: ' .. description })
  end
  for _, answer in ipairs(keys) do
    local option = option_of(approval, answer)
    if option then
      map(answer.key, function()
        M.close()
        M.respond(approval, answer, nil, true)
      end, option.name)
    end
  end
  map('t', function()
    M.close()
    require('roo.ask').input({ prompt = 'Why not, or what instead? ' }, function(text)
      if text and text ~= '' then
        M.respond(approval, 'reject_once', text)
      end
    end)
  end, 'refuse, and say why')
  map('s', function()
    M.close()
    M.compare(approval)
  end, 'compare both texts side by side')
  map('<Tab>', function()
    local at = 1
    for index, other in ipairs(request.approvals) do
      if other == approval then
        at = index
      end
    end
    M.open(request, request.approvals[at % #request.approvals + 1])
  end, 'the next that waits')
  map('q', M.close, 'decide later')
  map('<Esc>', M.close, 'decide later')
  vim.api.nvim_create_autocmd('WinLeave', { buffer = buffer, once = true, callback = M.close })
end

--- Closes the float when what it shows was answered elsewhere.
---@param request roo.Request
function M.refresh(request)
  if open and open.request == request and not vim.list_contains(request.approvals, open.approval) then
    M.close()
    client.notify('this was decided elsewhere or is no longer open')
  end
end

return M
