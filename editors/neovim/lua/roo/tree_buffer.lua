-- The tree of a request's branches: one line each, <CR> goes to the branch.

local highlight = require('roo.highlight')
local winbar = require('roo.winbar')

local M = {}

local namespace = vim.api.nvim_create_namespace('roo_tree')
---@type table<string, integer> Buffers, by request.
local buffers = {}

--- The tree as lines, and the task of each line.
---@param nodes table[] Parents before children.
---@return string[] lines
---@return table[] tasks
function M.draw(nodes)
  local children, roots = {}, {}
  for _, node in ipairs(nodes) do
    if node.parentId then
      children[node.parentId] = children[node.parentId] or {}
      table.insert(children[node.parentId], node)
    else
      table.insert(roots, node)
    end
  end
  local lines, tasks = {}, {}
  local function add(node, branch, below)
    local tokens = node.tokens > 0 and (', %d tokens'):format(node.tokens) or ''
    local cost = winbar.cost(node.costUsd)
    local spent = tokens .. (cost and ', ' .. cost or '')
    table.insert(lines, ('%s%s %s — %s%s'):format(branch, node.emoji, node.title, node.state, spent))
    table.insert(tasks, node)
    local own = children[node.id] or {}
    for index, child in ipairs(own) do
      local last = index == #own
      add(child, below .. (last and '└── ' or '├── '), below .. (last and '    ' or '│   '))
    end
  end
  for _, root in ipairs(roots) do
    add(root, '', '')
  end
  return lines, tasks
end

---@param request roo.Request
---@param buffer integer
local function fill(request, buffer)
  local lines, tasks = M.draw(request.nodes)
  vim.bo[buffer].modifiable = true
  vim.api.nvim_buf_clear_namespace(buffer, namespace, 0, -1)
  local old = vim.api.nvim_buf_line_count(buffer)
  -- Line by line, so that cursors stay where they are.
  vim.api.nvim_buf_set_lines(buffer, 0, math.min(old, #lines), false, vim.list_slice(lines, 1, math.min(old, #lines)))
  vim.api.nvim_buf_set_lines(buffer, math.min(old, #lines), -1, false, vim.list_slice(lines, old + 1))
  for index, line in ipairs(lines) do
    local state = tasks[index].state
    local from = line:find(' — ' .. state, 1, true)
    if from then
      local first = from - 1 + #' — '
      vim.api.nvim_buf_set_extmark(buffer, namespace, index - 1, first, {
        end_col = first + #state,
        hl_group = highlight.of_state(state),
      })
    end
  end
  vim.bo[buffer].modifiable = false
  vim.bo[buffer].modified = false
end

--- Redraws a tree that is shown.
---@param request roo.Request
function M.refresh(request)
  local buffer = buffers[request.root]
  if buffer and vim.api.nvim_buf_is_loaded(buffer) then
    fill(request, buffer)
  end
end

--- Shows the tree of a request below its task, and puts the cursor there.
---@param request roo.Request
---@return integer window
function M.show(request)
  local buffer = buffers[request.root]
  if not buffer or not vim.api.nvim_buf_is_loaded(buffer) then
    buffer = vim.api.nvim_create_buf(false, true)
    buffers[request.root] = buffer
    vim.api.nvim_buf_set_name(buffer, 'roo://tree/' .. (request.urid ~= '' and request.urid or request.root))
    vim.b[buffer].roo_request = request.root
    vim.bo[buffer].undolevels = -1
    vim.bo[buffer].bufhidden = 'wipe'
    vim.bo[buffer].filetype = 'rootree'
    local function open()
      local _, tasks = M.draw(request.nodes)
      local task = tasks[vim.api.nvim_win_get_cursor(0)[1]]
      if task then
        require('roo.task_buffer').jump(request, task.id)
      end
    end
    vim.keymap.set('n', '<Plug>(roo-tree-open)', open, { buffer = buffer, desc = 'Roo: go to the branch' })
    if vim.fn.hasmapto('<Plug>(roo-tree-open)', 'n') == 0 then
      local settings = { buffer = buffer, remap = true, desc = 'Roo: go to the branch' }
      vim.keymap.set('n', '<CR>', '<Plug>(roo-tree-open)', settings)
    end
  end
  fill(request, buffer)
  local window = vim.fn.bufwinid(buffer)
  if window == -1 then
    local task_window = require('roo.task_buffer').show(request, false)
    window = vim.api.nvim_open_win(buffer, false, {
      split = 'below',
      win = task_window,
      height = math.min(12, math.max(4, #request.nodes)),
    })
    local wo = vim.wo[window][0]
    wo.number, wo.relativenumber, wo.signcolumn = false, false, 'no'
    -- In a narrow window nothing is cut.
    wo.wrap, wo.linebreak, wo.breakindent = true, true, true
    wo.winfixheight, wo.cursorline = true, true
  end
  vim.api.nvim_set_current_win(window)
  return window
end

return M
