-- `roo/code/ask`: the server's questions about code, passed on to the other clients of a buffer. The handler waits in a
-- coroutine, so that the editor's loop goes on.

local M = {}

--- The most of an answer: nobody reads more.
local LIMIT = 5000

local METHODS = {
  references = 'textDocument/references',
  definition = 'textDocument/definition',
  symbols = 'workspace/symbol',
}

--- A line as the server reads it; none for what is no place.
---@param found table A location or a link.
---@return {uri: string, line: integer}?
local function place(found)
  local uri = found.uri or found.targetUri
  local range = found.range or found.targetSelectionRange
  return uri and range and { uri = uri, line = range.start.line } or nil
end

--- The client that answers for a buffer: not the server that asks.
---@param buffer integer
---@param method string
---@return vim.lsp.Client?
local function other(buffer, method)
  for _, client in ipairs(vim.lsp.get_clients({ bufnr = buffer, method = method })) do
    if client.name ~= 'roo_lsp' then
      return client
    end
  end
end

--- The parameters of the client's request. Clients count characters in units of their own.
---@param client vim.lsp.Client
---@param buffer integer
---@param params table
---@return table
local function request_of(client, buffer, params)
  if params.question == 'symbols' then
    return { query = params.query or '' }
  end
  local asked = params.position
  local line = vim.api.nvim_buf_get_lines(buffer, asked.line, asked.line + 1, false)[1] or ''
  local roo = require('roo.client').get()
  local byte = vim.str_byteindex(line, roo and roo.offset_encoding or 'utf-16', asked.character, false)
  local character = vim.str_utfindex(line, client.offset_encoding, byte, false)
  return {
    textDocument = { uri = vim.uri_from_bufnr(buffer) },
    position = { line = asked.line, character = character },
    context = params.question == 'references' and { includeDeclaration = true } or nil,
  }
end

--- The answer to the server, from that of the client.
---@param question string
---@param result any
---@return table
function M.told(question, result)
  local one = type(result) == 'table' and { result } or {}
  local all = vim.islist(result) and result or one
  local key = question == 'symbols' and 'symbols' or 'places'
  local told = {}
  for _, found in ipairs(all) do
    local at = place(question == 'symbols' and found.location or found)
    if at and #told < LIMIT then
      local symbol = { name = found.name, kind = found.kind, container = found.containerName, place = at }
      table.insert(told, question == 'symbols' and symbol or at)
    end
  end
  return #told > 0 and { isKnown = true, [key] = told } or { isKnown = false }
end

--- Serves `roo/code/ask`. Only what is loaded is asked about: to load a file would start clients for it.
---@param params table
---@return table
function M.answer(params)
  local thread, is_main = coroutine.running()
  local buffer = vim.fn.bufnr(vim.uri_to_fname(params.uri))
  local method = METHODS[params.question]
  if not thread or is_main or not method or buffer == -1 or not vim.api.nvim_buf_is_loaded(buffer) then
    return { isKnown = false }
  end
  local client = other(buffer, method)
  local sent = client and client:request(method, request_of(client, buffer, params), function(problem, result)
    -- A client that answers at once must not resume what hasn't paused yet.
    vim.schedule(function()
      coroutine.resume(thread, not problem and M.told(params.question, result) or { isKnown = false })
    end)
  end, buffer)
  if not sent then
    return { isKnown = false }
  end
  return coroutine.yield()
end

return M
