-- Questions of the server about code: passed on to the other clients of a buffer.

local harness = require('harness')
local case, equal = harness.case, harness.equal
local code = require('roo.code')

--- A client within the editor that answers everything alike.
---@param buffer integer
---@param result any
---@return table asked The requests that it got.
local function serve(buffer, result)
  local asked = {}
  local capabilities = { referencesProvider = true, definitionProvider = true, workspaceSymbolProvider = true }
  local id = vim.lsp.start({
    name = 'fake',
    cmd = function()
      return {
        request = function(method, params, callback)
          if method ~= 'initialize' then
            table.insert(asked, { method = method, params = params })
          end
          callback(nil, method == 'initialize' and { capabilities = capabilities } or result)
          return true, #asked + 1
        end,
        notify = function()
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

--- A loaded buffer of a file.
---@param lines string[]
---@return integer buffer
---@return string uri
local function load(lines)
  local name = vim.fn.tempname() .. '.py'
  vim.fn.writefile(lines, name)
  local buffer = vim.fn.bufadd(name)
  vim.fn.bufload(buffer)
  return buffer, vim.uri_from_fname(name)
end

case('places are asked for in the units of the client that answers', function()
  local buffer, uri = load({ 'ä = area' })
  local range = { start = { line = 3, character = 0 }, ['end'] = { line = 3, character = 4 } }
  local asked = serve(buffer, { { uri = uri, range = range }, { targetUri = uri, targetSelectionRange = range }, {} })
  local told = answer({ question = 'references', uri = uri, position = { line = 0, character = 4 } })
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

case('what nobody knows, and what is not loaded, is not known', function()
  local buffer, uri = load({ 'area = 1' })
  local params = { question = 'definition', uri = uri, position = { line = 0, character = 0 } }
  equal(answer(params), { isKnown = false })
  serve(buffer, vim.NIL)
  equal(answer(params), { isKnown = false })
  equal(answer(vim.tbl_extend('force', params, { uri = 'file:///nowhere.py' })), { isKnown = false })
end)

harness.run()
