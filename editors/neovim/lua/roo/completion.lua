-- Completion in a prompt: `@` and what can be pointed at, `/` and modes and commands. The server finds both, best first;
-- without a server files are completed as on Neovim's own command line.

local M = {}

-- How long, in milliseconds, the command line waits for the server: it takes no later answer.
local WAIT = 500

---@class roo.CompletionItem
---@field word string
---@field menu? string

--- The word before the end of a text that can be completed, and the byte before which it begins.
---@param text string
---@return string? word
---@return integer? start From 0.
function M.token(text)
  local start = text:find('[^%s]*$')
  -- A space after a backslash is part of a path.
  while start > 2 and text:sub(start - 2, start - 1) == '\\ ' do
    start = text:sub(1, start - 2):find('[^%s]*$')
  end
  local word = text:sub(start)
  if word:find('^[@/]') then
    return word, start - 1
  end
end

--- The document in which the server completes prompts of plain clients, by its name; nothing is on disk there.
---@return string
local function document()
  return vim.uri_from_fname(vim.fn.stdpath('run') .. '/roo/workspaces/prompt/new-request.md')
end

--- Sends the prompt as a document, has it completed, and closes it.
---@param client vim.lsp.Client
---@param text string What stands before the cursor.
---@param ask fun(method: string, params: table)
local function with_document(client, text, ask)
  local uri = document()
  local lines = vim.split('\n## Prompt\n' .. text, '\n', { plain = true })
  local last = lines[#lines]
  client:notify('textDocument/didOpen', {
    textDocument = { uri = uri, languageId = 'markdown', version = 0, text = table.concat(lines, '\n') },
  })
  ask('textDocument/completion', {
    textDocument = { uri = uri },
    position = { line = #lines - 1, character = vim.str_utfindex(last, client.offset_encoding, #last, false) },
  })
  client:notify('textDocument/didClose', { textDocument = { uri = uri } })
end

--- Has a prompt completed, by the server's own request or by plain LSP.
---@param client vim.lsp.Client
---@param text string What stands before the cursor.
---@param ask fun(method: string, params: table)
local function with_request(client, text, ask)
  if require('roo.client').is_typed(client) then
    ask('roo/prompt/complete', { prompt = text })
  else
    with_document(client, text, ask)
  end
end

--- What the server offers for a word, the best first.
---@param word string
---@param result any
---@return roo.CompletionItem[]
local function read(word, result)
  local items = {}
  for _, item in ipairs(type(result) == 'table' and result.items or {}) do
    local inserted = item.text or vim.tbl_get(item, 'textEdit', 'newText') or item.label
    -- Files are found by the server, in more ways than this; the rest it leaves to its client to compare.
    local is_found = item.text and vim.startswith(word, '@')
    if is_found or inserted:lower():find(word:sub(2):lower(), 1, true) then
      table.insert(items, { word = inserted, menu = item.detail })
    end
  end
  return items
end

--- Files as Neovim itself completes them, and what else can be pointed at.
---@param word string
---@return roo.CompletionItem[]
local function local_items(word)
  local items = {}
  local prefix, path = word:match('^(@/?)(.*)$')
  if not prefix then
    return items
  end
  for _, name in ipairs(vim.fn.getcompletion((path:gsub('\\ ', ' ')), 'file')) do
    table.insert(items, { word = prefix .. name:gsub(' ', '\\ ') })
  end
  for _, name in ipairs({ '@problems', '@git-changes' }) do
    if vim.startswith(name, word) then
      table.insert(items, { word = name })
    end
  end
  return items
end

---@return vim.lsp.Client?
local function ready()
  local client = require('roo.client').get()
  return client and client.initialized and client or nil
end

--- What may stand in the place of the word at the end of a text; waits a short time for the server.
---@param text string
---@return roo.CompletionItem[]
function M.items(text)
  local word = M.token(text)
  if not word then
    return {}
  end
  local client = ready()
  if not client then
    return local_items(word)
  end
  local found
  with_request(client, text, function(method, params)
    local answer = client:request_sync(method, params, WAIT)
    found = answer and not answer.err and read(word, answer.result) or nil
  end)
  return found or local_items(word)
end

--- The same, without waiting.
---@param text string
---@param on_items fun(items: roo.CompletionItem[])
function M.request(text, on_items)
  local word = M.token(text)
  if not word then
    return
  end
  local client = ready()
  if not client then
    on_items(local_items(word))
    return
  end
  with_request(client, text, function(method, params)
    client:request(method, params, function(error, result)
      on_items(error and local_items(word) or read(word, result))
    end)
  end)
end

--- What stands in a prompt before the cursor.
---@return string
local function before_cursor()
  local row, column = unpack(vim.api.nvim_win_get_cursor(0))
  local lines = vim.api.nvim_buf_get_lines(0, 0, row, false)
  lines[#lines] = lines[#lines]:sub(1, column)
  return table.concat(lines, '\n')
end

--- 'omnifunc' of a prompt.
---@param find_start 0|1
---@param _ string
---@return integer|roo.CompletionItem[]
function M.omnifunc(find_start, _)
  local text = before_cursor()
  local word = M.token(text)
  if find_start == 1 then
    return word and vim.api.nvim_win_get_cursor(0)[2] - #word or -3
  end
  return M.items(text)
end

--- Offers completions in a prompt while its user types. Nothing is selected by itself.
---@param buffer integer
function M.attach(buffer)
  vim.bo[buffer].omnifunc = "v:lua.require'roo.completion'.omnifunc"
  vim.bo[buffer].completeopt = 'menuone,noinsert,noselect'
  local function tab(key)
    return function()
      return vim.fn.pumvisible() == 1 and (key == '<Tab>' and '<C-n>' or '<C-p>') or key
    end
  end
  for _, key in ipairs({ '<Tab>', '<S-Tab>' }) do
    vim.keymap.set('i', key, tab(key), { buffer = buffer, expr = true, desc = 'Roo: choose a completion' })
  end
  local asked
  local function is_here()
    return vim.api.nvim_get_current_buf() == buffer and vim.api.nvim_get_mode().mode:find('^i') ~= nil
  end
  local function offer()
    local text = before_cursor()
    -- Choosing one of them changes the text too.
    if text == asked or vim.fn.complete_info({ 'selected' }).selected >= 0 then
      return
    end
    asked = text
    M.request(text, function(items)
      local word = M.token(text)
      if is_here() and word and before_cursor() == text and #items > 0 then
        vim.fn.complete(vim.api.nvim_win_get_cursor(0)[2] - #word + 1, items)
      end
    end)
  end
  vim.api.nvim_create_autocmd({ 'TextChangedI', 'TextChangedP' }, { buffer = buffer, callback = offer })
  -- A server that was still starting knows more than what was offered without it.
  local attached = vim.api.nvim_create_autocmd('LspAttach', {
    callback = vim.schedule_wrap(function(event)
      local client = vim.lsp.get_client_by_id(event.data.client_id)
      if client and client.name == 'roo_lsp' and is_here() then
        asked = nil
        offer()
      end
    end),
  })
  vim.api.nvim_create_autocmd('BufWipeout', {
    buffer = buffer,
    once = true,
    callback = function()
      vim.api.nvim_del_autocmd(attached)
    end,
  })
end

return M
