-- The line above a task: the branch that the cursor is in, who is at work, and what it costs.

local M = {}

-- How much of a parent's title is shown, in cells.
local SHORT = 24

---@param text string
---@param cells integer
---@return string
local function shortened(text, cells)
  if vim.api.nvim_strwidth(text) <= cells then
    return text
  end
  local kept = text
  while kept ~= '' and vim.api.nvim_strwidth(kept) > cells - 1 do
    kept = vim.fn.strcharpart(kept, 0, vim.fn.strchars(kept, true) - 1, true)
  end
  return kept .. '…'
end

--- Tokens in a few characters.
---@param count integer
---@return string
function M.tokens(count)
  if count < 1000 then
    return tostring(count)
  elseif count < 1000000 then
    return (('%.1fk'):format(count / 1000):gsub('%.0k', 'k'))
  end
  return (('%.1fM'):format(count / 1000000):gsub('%.0M', 'M'))
end

--- Money in a few characters; nothing when nothing is known.
---@param dollars number
---@return string?
function M.cost(dollars)
  if dollars <= 0 then
    return nil
  elseif dollars < 0.01 then
    return ('$%.4f'):format(dollars)
  end
  return ('$%.2f'):format(dollars)
end

--- The branch and those above it, as far as there is room: the branch itself is what is cut last.
---@param task roo.Task
---@param room integer In cells.
---@return string
local function path(task, room)
  local text
  local at = task
  while at do
    local emoji = at.emoji ~= '' and at.emoji .. ' ' or ''
    local name = emoji .. (at == task and at.title or shortened(at.title, SHORT))
    local longer = text and ('%s › %s'):format(name, text) or name
    -- Those above that are left out take two cells more.
    local cells = vim.api.nvim_strwidth(longer) + (at.parent and 4 or 0)
    if text and cells > room then
      return '… › ' .. text
    end
    text, at = text and longer or shortened(longer, math.max(room, 8)), at.parent
  end
  return text
end

--- Who is at work, or what became of the request.
---@param request roo.Request
---@return string
local function work(request)
  local running = {}
  for _, node in ipairs(request.nodes) do
    if node.state == 'running' then
      table.insert(running, node)
    end
  end
  if request.state == 'completed' or request.state == 'failed' or request.state == 'cancelled' then
    return request.state
  elseif #running == 1 then
    return ('%s %s running'):format(running[1].emoji, running[1].mode)
  elseif #running > 1 then
    return ('%d branches running'):format(#running)
  end
  return request.state
end

--- The text for a request and the branch that the cursor is in.
---@param request roo.Request
---@param task? roo.Task
---@param width integer
---@return string left
---@return string right
function M.parts(request, task, width)
  task = task or request.tasks[request.root]
  local waiting = request:waiting()
  local right = { waiting > 0 and ('%d waiting for you'):format(waiting) or work(request) }
  if task and task.context then
    local of = task.window and ' of ' .. M.tokens(task.window) or ''
    table.insert(right, ('%s%s context'):format(M.tokens(task.context), of))
  end
  local cost = 0
  for _, node in ipairs(request.nodes) do
    cost = cost + node.costUsd
  end
  table.insert(right, M.cost(cost))
  local said = table.concat(right, ' · ')
  return task and path(task, width - vim.api.nvim_strwidth(said) - 4) or request.title, said
end

--- For 'winbar'.
---@return string
function M.text()
  -- It is evaluated in the window that it belongs to.
  local window = vim.api.nvim_get_current_win()
  local buffer = vim.api.nvim_win_get_buf(window)
  local task_buffer = require('roo.task_buffer')
  local request = task_buffer.request_of(buffer)
  if not request then
    return ''
  end
  local block = task_buffer.block_at(buffer, vim.api.nvim_win_get_cursor(window)[1])
  local left, right = M.parts(request, block and block.task, vim.api.nvim_win_get_width(window))
  local function escaped(text)
    return (text:gsub('%%', '%%%%'))
  end
  return (' %s %%= %s '):format(escaped(left), escaped(right))
end

return M
