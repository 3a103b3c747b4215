-- Questions of the server about code: passed on to the other clients of a buffer.

local harness = require('harness')
local case, equal = harness.case, harness.equal
local code = require('roo.code')

--- A client within the editor that answers everything alike, or by a function of method, parameters and number.
---@param buffer integer
---@param result any
---@param encoding? string
---@return table asked The requests and notifications that it got.
local function serve(buffer, result, encoding)
  local asked = {}
  local capabilities = {
    positionEncoding = encoding,
    referencesProvider = true,
    definitionProvider = true,
    workspaceSymbolProvider = true,
    hoverProvider = true,
    renameProvider = true,
    codeActionProvider = { resolveProvider = true },
  }
  local id = vim.lsp.start({
    name = 'fake',
    cmd = function()
      return {
        request = function(method, params, callback)
          if method ~= 'initialize' then
            table.insert(asked, { method = method, params = params })
          end
          if method == 'initialize' then
            callback(nil, { capabilities = capabilities })
          elseif type(result) == 'function' then
            local found, problem = result(method, params, #asked)
            callback(problem, found)
          else
            callback(nil, result)
          end
          return true, #asked + 1
        end,
        notify = function(method, params)
          if method == 'workspace/didChangeWatchedFiles' then
            table.insert(asked, { method = method, params = params })
          end
          return true
        end,
        is_closing = function()
          return false
        end,
        terminate = function() end,
      }
    end,
  }, {
    bufnr = buffer,
    reuse_client = function()
      return false
    end,
  })
  vim.wait(5000, function()
    return vim.lsp.get_client_by_id(id).initialized
  end)
  return asked
end

--- What the server is told.
---@param params table
---@return table
local function answer(params)
  local told
  coroutine.wrap(function()
    told = code.answer(params)
  end)()
  vim.wait(5000, function()
    return told ~= nil
  end)
  return told
end

--- A loaded buffer of a file, which the server that asks knows. That one counts characters in UTF-8.
---@param lines string[]
---@return integer buffer
---@return string uri
local function load(lines)
  local name = vim.fn.tempname() .. '.py'
  vim.fn.writefile(lines, name)
  local buffer = vim.fn.bufadd(name)
  vim.fn.bufload(buffer)
  vim.wait(20000, function()
    local clients = vim.lsp.get_clients({ bufnr = buffer, name = 'roo_lsp' })
    return clients[1] ~= nil and clients[1].initialized
  end)
  equal(require('roo.client').get().offset_encoding, 'utf-8')
  return buffer, vim.uri_from_fname(name)
end

case('places are asked for in the units of the client that answers', function()
  local buffer, uri = load({ 'ä = area' })
  local range = { start = { line = 3, character = 0 }, ['end'] = { line = 3, character = 4 } }
  local asked = serve(buffer, { { uri = uri, range = range }, { targetUri = uri, targetSelectionRange = range }, {} })
  local told = answer({ question = 'references', uri = uri, position = { line = 0, character = 5 } })
  equal(told, { isKnown = true, places = { { uri = uri, line = 3 }, { uri = uri, line = 3 } } })
  equal(asked[1].method, 'textDocument/references')
  equal(asked[1].params.position, { line = 0, character = 4 })
  equal(asked[1].params.context, { includeDeclaration = true })
end)

case('symbols have their kinds and places', function()
  local buffer, uri = load({ 'area = 1' })
  local range = { start = { line = 0, character = 0 }, ['end'] = { line = 0, character = 4 } }
  local asked = serve(buffer, { { name = 'area', kind = 13, containerName = 'shapes', location = { uri = uri, range = range } } })
  local told = answer({ question = 'symbols', uri = uri, position = { line = 0, character = 0 }, query = 'are' })
  local symbol = { name = 'area', kind = 13, container = 'shapes', place = { uri = uri, line = 0 } }
  equal(told, { isKnown = true, symbols = { symbol } })
  equal(asked[1].params, { query = 'are' })
end)

local function range(line, from, to)
  return { start = { line = line, character = from }, ['end'] = { line = line, character = to } }
end

case('a hover is the text of the first client that knows something', function()
  local buffer, uri = load({ 'area = 1' })
  local params = { question = 'hover', uri = uri, position = { line = 0, character = 0 } }
  serve(buffer, vim.NIL)
  equal(answer(params), { isKnown = false })
  serve(buffer, { contents = { 'area: int', { language = 'python', value = ' the area\n' }, '' } })
  equal(answer(params), { isKnown = true, text = 'area: int\n\nthe area' })
end)

case('a rename is told in the units of the server, and nothing is changed', function()
  local buffer, uri = load({ 'ä = area', 'area' })
  local other = vim.fn.tempname() .. '.py'
  vim.fn.writefile({ 'ä, area' }, other)
  local other_uri = vim.uri_from_fname(other)
  local changes = {
    { textDocument = { uri = uri }, edits = { { range = range(0, 4, 8), newText = 'size' } } },
    { textDocument = { uri = other_uri }, edits = { { range = range(0, 3, 7), newText = 'size' } } },
  }
  local asked = serve(buffer, { documentChanges = changes }, 'utf-16')
  local told = answer({ question = 'rename', uri = uri, position = { line = 1, character = 0 }, newName = 'size' })
  table.sort(told.files, function(one)
    return one.uri == uri
  end)
  equal(told, {
    isKnown = true,
    files = {
      { uri = uri, version = 0, edits = { { range = range(0, 5, 9), newText = 'size' } } },
      { uri = other_uri, edits = { { range = range(0, 4, 8), newText = 'size' } } },
    },
  })
  equal(asked[1].params.newName, 'size')
  local noticed = {}
  for _, change in ipairs(asked[2].params.changes) do
    noticed[change.uri] = change.type
  end
  equal(noticed, { [other_uri] = 2 }, 'it may not have noticed what is on disk')
  equal(asked[3].method, 'textDocument/rename')
  equal(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), { 'ä = area', 'area' })
  equal(vim.fn.readfile(other), { 'ä, area' })
end)

case('an edit that does more than to change texts, or names a place that is not there, is not known', function()
  local buffer, uri = load({ 'area' })
  local edits = { { range = range(0, 0, 4), newText = 'size' } }
  local moved = { kind = 'rename', oldUri = uri, newUri = uri .. 'x' }
  local answers = {
    { documentChanges = { { textDocument = { uri = uri }, edits = edits }, moved } },
    { changes = { [uri] = { { range = range(7, 0, 4), newText = 'size' } } } },
    { changes = { ['untitled:x'] = edits } },
    { changes = {} },
  }
  local wrong
  serve(buffer, function()
    return wrong
  end)
  for _, one in ipairs(answers) do
    wrong = one
    local told = answer({ question = 'rename', uri = uri, position = { line = 0, character = 0 }, newName = 'size' })
    equal(told, { isKnown = false })
  end
end)

case('a refusal is told in the words of the client', function()
  local buffer, uri = load({ 'area' })
  serve(buffer, function()
    return nil, { code = -32602, message = 'there is one of that name' }
  end)
  local told = answer({ question = 'rename', uri = uri, position = { line = 0, character = 0 }, newName = 'size' })
  equal(told, { isKnown = true, refusal = 'there is one of that name' })
end)

case('actions that change texts are offered, and their edits told', function()
  local buffer, uri = load({ 'area' })
  local edit = { changes = { [uri] = { { range = range(0, 0, 4), newText = 'size' } } } }
  local asked = serve(buffer, function(method, params)
    if method == 'codeAction/resolve' then
      return vim.tbl_extend('force', params, { edit = edit })
    end
    return {
      { title = 'Shrink', kind = 'quickfix', isPreferred = true, data = 1 },
      { title = 'Run', command = 'run' },
      { title = 'Off', edit = edit, disabled = { reason = 'no' } },
    }
  end)
  local params = { question = 'actions', uri = uri, position = { line = 0, character = 2 } }
  equal(answer(params), { isKnown = true, actions = { { title = 'Shrink', kind = 'quickfix', isPreferred = true } } })
  equal(asked[1].params.range, range(0, 0, 4), 'the whole line')
  local told = answer(vim.tbl_extend('force', params, { question = 'action', title = 'Shrink' }))
  equal(told, { isKnown = true, files = { { uri = uri, version = 0, edits = { { range = range(0, 0, 4), newText = 'size' } } } } })
  local refused = answer(vim.tbl_extend('force', params, { question = 'action', title = 'Run' }))
  equal(refused.refusal, 'it offers no action of that title for this line; it offers `Shrink`')
end)

case('what nobody knows, and what is not loaded, is not known', function()
  local buffer, uri = load({ 'area = 1' })
  local params = { question = 'definition', uri = uri, position = { line = 0, character = 0 } }
  equal(answer(params), { isKnown = false })
  serve(buffer, vim.NIL)
  equal(answer(params), { isKnown = false })
  equal(answer(vim.tbl_extend('force', params, { uri = 'file:///nowhere.py' })), { isKnown = false })
end)

harness.run()
