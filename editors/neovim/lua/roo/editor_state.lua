-- What agents are told of the editor without asking: the active file, and what other tools find wrong in files.

local M = {}

---@type table<integer, string> What each client was told last of the active file, by its id, so that nothing is said twice.
local last = {}

--- The client that serves a buffer, if it takes what is said here.
---@param buffer integer
---@return vim.lsp.Client?
local function typed_client(buffer)
  local client = require('roo.client').of_buffer(buffer)
  return client and client.initialized and require('roo.client').is_typed(client) and client or nil
end

---@param buffer integer
---@return boolean
local function is_file(buffer)
  return vim.bo[buffer].buftype == '' and vim.api.nvim_buf_get_name(buffer) ~= ''
end

local function tell_active()
  local buffer = vim.api.nvim_get_current_buf()
  local client = typed_client(buffer)
  -- A task's window or a float is no change of attention.
  if not client or not is_file(buffer) then
    return
  end
  local encoding = client.offset_encoding
  local params = {
    active = {
      uri = vim.uri_from_bufnr(buffer),
      cursor = vim.lsp.util.make_position_params(0, encoding).position,
      visible = {
        start = { line = vim.fn.line('w0') - 1, character = 0 },
        ['end'] = { line = vim.fn.line('w$'), character = 0 },
      },
    },
  }
  local said = vim.inspect(params)
  if said ~= last[client.id] then
    last[client.id] = said
    client:notify('roo/editor/didChange', params)
  end
end

---@param buffer integer
local function tell_diagnostics(buffer)
  local client = vim.api.nvim_buf_is_valid(buffer) and typed_client(buffer)
  if not client or not is_file(buffer) then
    return
  end
  local own = vim.lsp.diagnostic.get_namespace(client.id)
  local encoding = client.offset_encoding
  local function position(row, column)
    local line = vim.api.nvim_buf_get_lines(buffer, row, row + 1, false)[1] or ''
    local ok, character = pcall(vim.str_utfindex, line, encoding, math.min(column, #line), false)
    return { line = row, character = ok and character or 0 }
  end
  local diagnostics = {}
  for _, found in ipairs(vim.diagnostic.get(buffer)) do
    if found.namespace ~= own then
      table.insert(diagnostics, {
        range = {
          start = position(found.lnum, found.col),
          ['end'] = position(found.end_lnum or found.lnum, found.end_col or found.col),
        },
        severity = found.severity,
        source = found.source,
        message = found.message,
      })
    end
  end
  client:notify('roo/editor/diagnostics', { uri = vim.uri_from_bufnr(buffer), diagnostics = diagnostics })
end

---@param group integer The group of the autocommands.
function M.watch(group)
  vim.api.nvim_create_autocmd({ 'BufEnter', 'CursorHold' }, {
    group = group,
    callback = function()
      vim.schedule(tell_active)
    end,
  })
  vim.api.nvim_create_autocmd('LspAttach', {
    group = group,
    callback = function(event)
      vim.schedule(function()
        tell_active()
        -- A server that was restarted knows nothing of what other tools have found.
        if vim.api.nvim_buf_is_valid(event.buf) and #vim.diagnostic.get(event.buf) > 0 then
          tell_diagnostics(event.buf)
        end
      end)
    end,
  })
  local due = {}
  vim.api.nvim_create_autocmd('DiagnosticChanged', {
    group = group,
    callback = function(event)
      if due[event.buf] then
        return
      end
      due[event.buf] = true
      vim.defer_fn(function()
        due[event.buf] = nil
        tell_diagnostics(event.buf)
      end, 200)
    end,
  })
end

return M
