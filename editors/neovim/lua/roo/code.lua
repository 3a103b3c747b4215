-- `roo/code/ask`: the server's questions about code, passed on to the other clients of a buffer. The handler waits in a
-- coroutine, so that the editor's loop goes on. What clients propose to change is told, and changed by nobody here.

local M = {}

--- The most of an answer: nobody reads more.
local LIMIT = 5000
--- The most ranges of problems in one line that are asked about.
local RANGES = 8
--- The largest file that is read because changes are proposed for it, in bytes.
local FILE = 8 * 1024 * 1024
--- Number of times that changes are asked for, until they are about the texts as they are.
local ROUNDS = 4

local METHODS = {
  references = 'textDocument/references',
  definition = 'textDocument/definition',
  symbols = 'workspace/symbol',
  hover = 'textDocument/hover',
  rename = 'textDocument/rename',
  actions = 'textDocument/codeAction',
  action = 'textDocument/codeAction',
}

--- A line as the server reads it; none for what is no place.
---@param found table A location or a link.
---@return {uri: string, line: integer}?
local function place(found)
  local uri = found.uri or found.targetUri
  local range = found.range or found.targetSelectionRange
  return uri and range and { uri = uri, line = range.start.line } or nil
end

--- The clients that answer for a buffer: not the server that asks.
---@param buffer integer
---@param method string
---@return vim.lsp.Client[]
local function others(buffer, method)
  return vim.tbl_filter(function(client)
    return client.name ~= 'roo_lsp'
  end, vim.lsp.get_clients({ bufnr = buffer, method = method }))
end

--- The unit in which the server counts characters.
---@return string
local function own_encoding()
  local roo = require('roo.client').get()
  return roo and roo.offset_encoding or 'utf-16'
end

--- Asks a client, and waits for its answer within the coroutine.
---@param client vim.lsp.Client
---@param method string
---@param params table
---@param buffer integer
---@return any result
---@return table? problem
local function ask(client, method, params, buffer)
  local thread = coroutine.running()
  local sent = client:request(method, params, function(problem, result)
    -- A client that answers at once must not resume what hasn't paused yet.
    vim.schedule(function()
      coroutine.resume(thread, result, problem)
    end)
  end, buffer)
  if not sent then
    return nil, { message = 'it has ended' }
  end
  return coroutine.yield()
end

--- A place in a line in other units.
---@param line string
---@param character integer
---@param from string
---@param to string
---@return integer? character None where there is no such place.
local function converted(line, character, from, to)
  local byte = vim.str_byteindex(line, from, character, false)
  local is_there = byte <= #line and vim.str_utfindex(line, from, byte, false) == character
  return is_there and vim.str_utfindex(line, to, byte, false) or nil
end

---@param buffer integer
---@param number integer From 0.
---@return string
local function line_of(buffer, number)
  return vim.api.nvim_buf_get_lines(buffer, number, number + 1, false)[1] or ''
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
  local line = line_of(buffer, asked.line)
  local byte = vim.str_byteindex(line, own_encoding(), asked.character, false)
  local character = vim.str_utfindex(line, client.offset_encoding, byte, false)
  return {
    textDocument = { uri = vim.uri_from_bufnr(buffer) },
    position = { line = asked.line, character = character },
    context = params.question == 'references' and { includeDeclaration = true } or nil,
    newName = params.question == 'rename' and (params.newName or '') or nil,
  }
end

--- The text of a hover, in any of its forms.
---@param contents any
---@return string
local function hover_text(contents)
  if type(contents) == 'string' then
    return vim.trim(contents)
  end
  if type(contents) ~= 'table' then
    return ''
  end
  if not vim.islist(contents) then
    return vim.trim(type(contents.value) == 'string' and contents.value or '')
  end
  local parts = vim.tbl_filter(function(part)
    return part ~= ''
  end, vim.tbl_map(hover_text, contents))
  return table.concat(parts, '\n\n')
end

--- The answer to the server, from that of the client.
---@param question string
---@param result any
---@return table
function M.told(question, result)
  if question == 'hover' then
    local text = type(result) == 'table' and hover_text(result.contents) or ''
    return text ~= '' and { isKnown = true, text = text } or { isKnown = false }
  end
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

--- The changes of an edit by file; none where it does more than to change texts.
---@param edit table
---@return table<string, table[]>?
local function by_file(edit)
  local files = {}
  if type(edit.documentChanges) == 'table' then
    for _, change in ipairs(edit.documentChanges) do
      if change.kind or not change.textDocument then
        return nil
      end
      local uri = change.textDocument.uri
      files[uri] = vim.list_extend(files[uri] or {}, change.edits or {})
    end
    return files
  end
  for uri, edits in pairs(type(edit.changes) == 'table' and edit.changes or {}) do
    files[uri] = vim.list_extend({}, edits)
  end
  return files
end

--- The lines of a file, and the version of its document.
---@param uri string
---@return string[]? lines None for what is no file, too large, or unsaved and unknown to the server.
---@return integer? version None for a file of which the server knows no document.
---@return integer? buffer None for a file that is not loaded.
local function text_of(uri)
  local is_file, path = pcall(vim.uri_to_fname, uri)
  if not is_file or not vim.startswith(uri, 'file:') then
    return nil
  end
  local buffer = vim.fn.bufnr(path)
  if buffer ~= -1 and vim.api.nvim_buf_is_loaded(buffer) then
    local is_known = #vim.lsp.get_clients({ bufnr = buffer, name = 'roo_lsp' }) > 0
    local version = is_known and (vim.lsp.util.buf_versions[buffer] or vim.api.nvim_buf_get_changedtick(buffer)) or nil
    if not version and vim.bo[buffer].modified then
      return nil
    end
    return vim.api.nvim_buf_get_lines(buffer, 0, -1, false), version, buffer
  end
  local found = vim.uv.fs_stat(path)
  if not found or found.type ~= 'file' or found.size > FILE then
    return nil
  end
  local handle = io.open(path, 'rb')
  if not handle then
    return nil
  end
  local text = (handle:read('*a') or ''):gsub('^\239\187\191', ''):gsub('\r\n', '\n')
  handle:close()
  return vim.split(text, '\n', { plain = true })
end

--- The changes of a file in the server's units; none where one is at no place of it.
---@param edits table[]
---@param lines string[]
---@param from string
---@param to string
---@return table[]?
local function edits_in(edits, lines, from, to)
  local told = {}
  for _, edit in ipairs(edits) do
    local range = {}
    for _, side in ipairs({ 'start', 'end' }) do
      local at = edit.range[side]
      -- A range of whole lines may end at the beginning of a line behind the last one.
      local line = lines[at.line + 1] or (at.line == #lines and '')
      local character = line and converted(line, at.character, from, to)
      if not character then
        return nil
      end
      range[side] = { line = at.line, character = character }
    end
    table.insert(told, { range = range, newText = edit.newText })
  end
  return told
end

--- How often each loaded buffer has changed.
---@return table<integer, integer>
local function ticks()
  local found = {}
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    if vim.api.nvim_buf_is_loaded(buffer) then
      found[buffer] = vim.api.nvim_buf_get_changedtick(buffer)
    end
  end
  return found
end

--- What a client proposes, once it has noticed the files that this changes and that no buffer holds, so that its positions are
--- those of the texts as they are.
---@param client vim.lsp.Client
---@param compute fun(): table?, string? The edit, or why there is none.
---@return table
local function proposed(client, compute)
  local noticed = {}
  for _ = 1, ROUNDS do
    local before = ticks()
    local edit, refusal = compute()
    if refusal then
      return { isKnown = true, refusal = refusal }
    end
    local files = edit and by_file(edit)
    if not files then
      return { isKnown = false }
    end
    local told, changed, is_stale = {}, {}, false
    for uri, edits in vim.spairs(files) do
      if #edits > 0 then
        local lines, version, holder = text_of(uri)
        local fitting = lines and edits_in(edits, lines, client.offset_encoding, own_encoding())
        if holder and before[holder] ~= vim.api.nvim_buf_get_changedtick(holder) then
          is_stale = true
        elseif not fitting then
          return { isKnown = false }
        end
        table.insert(told, { uri = uri, version = version, edits = fitting or {} })
        if not holder and not noticed[uri] then
          noticed[uri] = true
          table.insert(changed, { uri = uri, type = vim.lsp.protocol.FileChangeType.Changed })
        end
      end
    end
    if #told == 0 then
      return { isKnown = false }
    end
    if #changed == 0 and not is_stale then
      return { isKnown = true, files = told }
    end
    if #changed > 0 then
      client:notify('workspace/didChangeWatchedFiles', { changes = changed })
    end
  end
  return { isKnown = false }
end

--- The problems of a line that a client has reported, as it sent them, by their ranges.
---@param client vim.lsp.Client
---@param buffer integer
---@param line integer
---@return { range: table, problems: table[] }[]
local function problems_of(client, buffer, line)
  local found = {}
  for _, problem in ipairs(vim.diagnostic.get(buffer)) do
    local sent = vim.tbl_get(problem, 'user_data', 'lsp')
    local is_here = problem.lnum <= line and line <= (problem.end_lnum or problem.lnum)
    local space = vim.diagnostic.get_namespaces()[problem.namespace]
    local own = ('vim.lsp.%s.%d'):format(client.name, client.id)
    -- What it is asked for and what it reports unasked are apart.
    local is_its = space and (space.name == own or vim.startswith(space.name, own .. '.'))
    if sent and sent.range and is_here and is_its then
      local same = vim.iter(found):find(function(one)
        return vim.deep_equal(one.range, sent.range)
      end)
      if same then
        table.insert(same.problems, sent)
      elseif #found < RANGES then
        table.insert(found, { range = sent.range, problems = { sent } })
      end
    end
  end
  if #found == 0 then
    local last = vim.str_utfindex(line_of(buffer, line), client.offset_encoding)
    local range = { start = { line = line, character = 0 }, ['end'] = { line = line, character = last } }
    table.insert(found, { range = range, problems = {} })
  end
  return found
end

--- The actions of a client for a line, but for commands, which somebody would carry out.
---@param client vim.lsp.Client
---@param buffer integer
---@param line integer
---@return table[]
local function offered(client, buffer, line)
  local actions, titles = {}, {}
  for _, at in ipairs(problems_of(client, buffer, line)) do
    local result = ask(client, METHODS.actions, {
      textDocument = { uri = vim.uri_from_bufnr(buffer) },
      range = at.range,
      context = { diagnostics = at.problems, triggerKind = 1 },
    }, buffer)
    for _, action in ipairs(type(result) == 'table' and result or {}) do
      local is_command = type(action.command) == 'string'
      local has_edit = action.edit or action.data or not action.command
      if has_edit and not is_command and not action.disabled and not titles[action.title] then
        titles[action.title] = true
        table.insert(actions, action)
      end
    end
  end
  return actions
end

--- The edit of an action, which some clients tell only when they are asked for it.
---@param client vim.lsp.Client
---@param buffer integer
---@param action table
---@return table? edit
---@return string? refusal
local function edit_of(client, buffer, action)
  if not action.edit and client:supports_method('codeAction/resolve', buffer) then
    local resolved, problem = ask(client, 'codeAction/resolve', action, buffer)
    if problem then
      return nil, problem.message
    end
    action = type(resolved) == 'table' and resolved or action
  end
  if not action.edit then
    return nil, 'this action changes no text by itself'
  end
  return action.edit
end

--- The actions that all clients offer for a line.
---@param clients vim.lsp.Client[]
---@param buffer integer
---@param line integer
---@return table
local function actions(clients, buffer, line)
  local told, titles = {}, {}
  for _, client in ipairs(clients) do
    for _, action in ipairs(offered(client, buffer, line)) do
      if not titles[action.title] and #told < 50 then
        titles[action.title] = true
        local is_preferred = action.isPreferred == true or nil
        table.insert(told, { title = action.title, kind = action.kind, isPreferred = is_preferred })
      end
    end
  end
  return { isKnown = true, actions = #told > 0 and told or nil }
end

--- What changes by the action of a title.
---@param clients vim.lsp.Client[]
---@param buffer integer
---@param line integer
---@param title string
---@return table
local function chosen(clients, buffer, line, title)
  local titles = {}
  for _, client in ipairs(clients) do
    local is_there = false
    local told = proposed(client, function()
      for _, action in ipairs(offered(client, buffer, line)) do
        if action.title == title then
          is_there = true
          return edit_of(client, buffer, action)
        end
        table.insert(titles, ('`%s`'):format(action.title))
      end
    end)
    if is_there then
      return told
    end
  end
  local there_are = #titles > 0 and table.concat(titles, ', ') or 'none'
  return { isKnown = true, refusal = 'it offers no action of that title for this line; it offers ' .. there_are }
end

--- What a client proposes for a rename.
---@param client vim.lsp.Client
---@param buffer integer
---@param params table
---@return table
local function rename(client, buffer, params)
  return proposed(client, function()
    local result, problem = ask(client, METHODS.rename, request_of(client, buffer, params), buffer)
    if problem then
      return nil, problem.message
    end
    return type(result) == 'table' and result or nil
  end)
end

---@param params table
---@return table
local function answer(params)
  local thread, is_main = coroutine.running()
  local buffer = vim.fn.bufnr(vim.uri_to_fname(params.uri))
  local method = METHODS[params.question]
  if not thread or is_main or not method or buffer == -1 or not vim.api.nvim_buf_is_loaded(buffer) then
    return { isKnown = false }
  end
  local clients = others(buffer, method)
  if #clients == 0 then
    return { isKnown = false }
  end
  if params.question == 'actions' then
    return actions(clients, buffer, params.position.line)
  end
  if params.question == 'action' then
    return chosen(clients, buffer, params.position.line, params.title or '')
  end
  for _, client in ipairs(clients) do
    local told
    if params.question == 'rename' then
      told = rename(client, buffer, params)
    else
      local result, problem = ask(client, method, request_of(client, buffer, params), buffer)
      told = not problem and M.told(params.question, result) or { isKnown = false }
    end
    if told.isKnown then
      return told
    end
  end
  return { isKnown = false }
end

--- Serves `roo/code/ask`. Only what is loaded is asked about: to load a file would start clients for it.
---@param params table
---@return table
function M.answer(params)
  -- Without an answer the server would wait until its time is over.
  local is_answered, told = pcall(answer, params)
  if not is_answered then
    vim.lsp.log.error('roo/code/ask', told)
  end
  return is_answered and told or { isKnown = false }
end

return M
