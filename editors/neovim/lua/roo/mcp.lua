-- The MCP servers of the workspace: one line each with its state, below it what the user opens, and keys to restart and
-- switch them.

local client = require('roo.client')
local highlight = require('roo.highlight')

local M = {}

local namespace = vim.api.nvim_create_namespace('roo_mcp')
-- How much of a server's log is shown.
local LOG_LINES = 15

---@type integer? The buffer with the list.
local buffer
---@type string? The folder of the workspace whose servers are listed.
local folder
---@type table[] The servers, as they were told last.
local servers = {}
---@type table<string, {tools?: table, log?: string[]}> What is shown of the servers that are opened.
local opened = {}
---@type table<integer, string> Names of servers, by line.
local on_line = {}

local states = {
  disabled = { mark = '○', text = 'switched off', group = 'RooQuiet' },
  waitingForApproval = { mark = '?', text = 'waits for your approval (:Roo trust)', group = 'RooWaiting' },
  notStarted = { mark = '…', text = 'starts at its first call', group = 'RooQuiet' },
  starting = { mark = '…', text = 'starting', group = 'RooRunning' },
  needsLogin = { mark = '!', text = 'needs login', group = 'RooWaiting' },
  connected = { mark = '✓', text = 'connected', group = 'RooCompleted' },
  failed = { mark = '✗', text = 'failed', group = 'RooFailed' },
}

---@param count integer
---@param what string
---@return string
local function counted(count, what)
  return ('%d %s%s'):format(count, what, count == 1 and '' or 's')
end

--- The list as lines, with their groups and the server of each line.
---@param list table[]
---@param details table<string, {tools?: table, log?: string[]}>
---@return string[] lines
---@return table<integer, string> groups
---@return table<integer, string> names
function M.draw(list, details)
  local lines, groups, names = {}, {}, {}
  local function add(line, group, name)
    -- What servers say is text of others.
    table.insert(lines, (line:gsub('%c', ' ')))
    groups[#lines], names[#lines] = group, name
  end
  add('<CR> tools and log · r restart · e switch on or off · q close', 'RooKey')
  if #list == 0 then
    add('no MCP servers are configured here (roo-lsp mcp add)', 'RooQuiet')
  end
  for _, server in ipairs(list) do
    local state = states[server.state] or { mark = '?', text = server.state, group = 'RooWaiting' }
    local text = state.text
    if server.state == 'connected' then
      local parts = { counted(server.tools, 'tool') }
      if server.resources > 0 then
        table.insert(parts, counted(server.resources, 'resource'))
      end
      if server.prompts > 0 then
        table.insert(parts, counted(server.prompts, 'prompt'))
      end
      text = ('%s, %s'):format(text, table.concat(parts, ', '))
    elseif server.reason then
      text = ('%s: %s'):format(text, server.reason)
    end
    if server.retryAfter then
      text = ('%s; started again after %d s'):format(text, server.retryAfter)
    end
    local owner = server.owner == 'workspace' and ' (of the workspace)' or ''
    add(('%s %s%s — %s'):format(state.mark, server.name, owner, text), state.group, server.name)
    local detail = details[server.name]
    if detail then
      add('    ' .. server.target, 'RooQuiet', server.name)
      for _, tool in ipairs(detail.tools and detail.tools.tools or {}) do
        add(('    %s: %s'):format(tool.name, tool.description), 'RooTool', server.name)
      end
      for _, tool in ipairs(detail.tools and detail.tools.leftOut or {}) do
        add(('    %s is left out: %s'):format(tool.name, tool.reason), 'RooWaiting', server.name)
      end
      local log = detail.log or {}
      for index = math.max(1, #log - LOG_LINES + 1), #log do
        add('    │ ' .. log[index], 'RooQuiet', server.name)
      end
    end
  end
  return lines, groups, names
end

---@return boolean
local function is_shown()
  return buffer ~= nil and vim.api.nvim_buf_is_loaded(buffer)
end

local function fill()
  if not is_shown() then
    return
  end
  local lines, groups, names = M.draw(servers, opened)
  on_line = names
  vim.bo[buffer].modifiable = true
  vim.api.nvim_buf_clear_namespace(buffer, namespace, 0, -1)
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  for line, group in pairs(groups) do
    vim.api.nvim_buf_set_extmark(buffer, namespace, line - 1, 0, { end_row = line, hl_group = group, hl_eol = false })
  end
  vim.bo[buffer].modifiable = false
  vim.bo[buffer].modified = false
end

--- Asks for the tools and the log of a server that is opened.
---@param name string
local function look_into(name)
  local detail = opened[name]
  if not detail then
    return
  end
  -- A server that is gone meanwhile has neither.
  local function ignore() end
  client.request_in(folder, 'roo/mcp/tools', { server = name }, function(tools)
    detail.tools = tools
    fill()
  end, ignore)
  client.request_in(folder, 'roo/mcp/log', { server = name }, function(log)
    detail.log = log.lines
    fill()
  end, ignore)
end

--- Takes `roo/mcp/changed`, and the first list.
---@param params table
---@param from? string The folder of the workspace that it is about.
function M.on_changed(params, from)
  if from ~= folder then
    return
  end
  servers = params.servers
  if is_shown() then
    fill()
    vim.iter(vim.tbl_keys(opened)):each(look_into)
  end
end

--- The server that the cursor is on.
---@return table?
local function here()
  local name = on_line[vim.api.nvim_win_get_cursor(0)[1]]
  return vim.iter(servers):find(function(server)
    return server.name == name
  end)
end

local actions = {
  open = {
    key = '<CR>',
    desc = 'Roo: show tools and log of the server, or hide them',
    run = function(server)
      opened[server.name] = not opened[server.name] and {} or nil
      fill()
      look_into(server.name)
    end,
  },
  restart = {
    key = 'r',
    desc = 'Roo: restart the server',
    run = function(server)
      client.request_in(folder, 'roo/mcp/restart', { server = server.name })
    end,
  },
  enable = {
    key = 'e',
    desc = 'Roo: switch the server on or off',
    run = function(server)
      client.request_in(folder, 'roo/mcp/enable', { server = server.name, enabled = server.state == 'disabled' })
    end,
  },
}

--- Makes the buffer and its keys.
---@return integer
local function create()
  local made = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_name(made, 'roo://mcp')
  vim.bo[made].undolevels = -1
  vim.bo[made].bufhidden = 'wipe'
  vim.bo[made].filetype = 'roomcp'
  for name, action in pairs(actions) do
    local plug = ('<Plug>(roo-mcp-%s)'):format(name)
    vim.keymap.set('n', plug, function()
      local server = here()
      if server then
        action.run(server)
      end
    end, { buffer = made, desc = action.desc })
    if vim.fn.hasmapto(plug, 'n') == 0 then
      vim.keymap.set('n', action.key, plug, { buffer = made, remap = true, nowait = true, desc = action.desc })
    end
  end
  vim.keymap.set('n', 'q', '<Cmd>close<CR>', { buffer = made, nowait = true, desc = 'Roo: close the list' })
  return made
end

--- Shows the list of a workspace, and puts the cursor there.
---@param of? string Its folder.
function M.show(of)
  client.request_in(of, 'roo/mcp/list', vim.empty_dict(), function(result)
    if not is_shown() then
      buffer, opened = create(), {}
    elseif of ~= folder then
      opened = {}
    end
    folder = of
    vim.b[buffer].roo_folder = of
    M.on_changed(result, of)
    local window = vim.fn.bufwinid(buffer)
    if window == -1 then
      window = vim.api.nvim_open_win(buffer, false, { split = 'below', height = math.min(15, math.max(4, #servers + 2)) })
      local wo = vim.wo[window][0]
      wo.number, wo.relativenumber, wo.signcolumn = false, false, 'no'
      wo.wrap, wo.linebreak, wo.breakindent = true, true, true
      wo.cursorline = true
    end
    vim.api.nvim_set_current_win(window)
    if vim.api.nvim_win_get_cursor(window)[1] == 1 and #servers > 0 then
      vim.api.nvim_win_set_cursor(window, { 2, 0 })
    end
  end)
end

return M
