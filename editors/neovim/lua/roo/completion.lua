-- Completion in a prompt: files after @, slash commands after /.

local M = {}

---@type string[] The slash commands as they were known last.
local commands = {}

local function learn()
  local client = require('roo.client')
  local found = client.get()
  if found and client.is_typed(found) then
    found:request('roo/command/list', vim.empty_dict(), function(_, result)
      commands = result and vim.tbl_map(function(command)
        return command.name
      end, result.commands) or commands
    end)
  end
end

--- What may stand in the place of a word.
---@param word string
---@return string[]
function M.words(word)
  learn()
  local found = {}
  if vim.startswith(word, '@') then
    local path = word:sub(2):gsub('^/', '')
    for _, name in ipairs(vim.fn.getcompletion(path, 'file')) do
      table.insert(found, '@/' .. name:gsub(' ', '\\ '))
    end
    for _, name in ipairs({ '@problems', '@git-changes' }) do
      if vim.startswith(name, word) then
        table.insert(found, name)
      end
    end
  elseif vim.startswith(word, '/') then
    for _, name in ipairs(commands) do
      if vim.startswith('/' .. name, word) then
        table.insert(found, '/' .. name)
      end
    end
  end
  return found
end

--- 'omnifunc' of a prompt.
---@param find_start 0|1
---@param base string
---@return integer|string[]
function M.omnifunc(find_start, base)
  if find_start == 1 then
    local before = vim.api.nvim_get_current_line():sub(1, vim.api.nvim_win_get_cursor(0)[2])
    local start = before:find('[@/]%S*$')
    return start and start - 1 or -3
  end
  return M.words(base)
end

return M
