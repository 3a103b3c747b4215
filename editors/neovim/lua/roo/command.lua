-- `:Roo`: its subcommands and their completion.

local client = require('roo.client')

local M = {}

--- Takes `--mode=x` and `--profile=x` from the begin of a prompt.
---@param text string
---@return string prompt
---@return table<string, string> options
function M.read_options(text)
  local options = {}
  while true do
    local name, value, rest = text:match('^%s*%-%-(%l+)=(%S+)%s*(.*)$')
    if name ~= 'mode' and name ~= 'profile' then
      return text, options
    end
    options[name], text = value, rest
  end
end

---@type table<string, fun(roo: table, text: string, range?: integer[])>
local subcommands = {
  new = function(roo, text, range)
    local prompt, options = M.read_options(text)
    options.range = range
    roo.new(prompt, options)
  end,
}
for _, name in ipairs({ 'send', 'answer', 'approve', 'deny', 'mode', 'profile', 'stop' }) do
  subcommands[name] = function(roo, text)
    roo[name](text)
  end
end
for _, name in ipairs({ 'open', 'tree', 'tasks', 'review', 'cancel', 'resume', 'background', 'trust', 'status', 'restart' }) do
  subcommands[name] = function(roo)
    roo[name]()
  end
end

---@return string[]
function M.names()
  local names = vim.tbl_keys(subcommands)
  table.sort(names)
  return names
end

--- Runs the command.
---@param arguments vim.api.keyset.create_user_command.command_args
function M.run(arguments)
  local name, text = arguments.args:match('^(%S*)%s*(.*)$')
  local range = arguments.range > 0 and { arguments.line1, arguments.line2 } or nil
  local run = subcommands[name == '' and 'new' or name]
  if not run then
    local message = ('there is no :Roo %s; to start a task: :Roo new %s'):format(name, arguments.args)
    client.notify(message, vim.log.levels.WARN)
    return
  end
  run(require('roo'), text, range)
end

--- Completes subcommands, modes and what a prompt may point at.
---@param lead string
---@param line string
---@return string[]
function M.complete(lead, line)
  local before = line:match("^.-Roo%s+(.*)$") or ''
  local found
  if not before:find('%s') then
    found = M.names()
  elseif before:find('^new%s') or before:find('^send%s') or before:find('^answer%s') then
    found = require('roo.completion').words(lead)
    if vim.startswith(lead, '-') then
      found = { '--mode=', '--profile=' }
    end
    if vim.startswith(lead, '--mode=') then
      found = vim.tbl_map(function(slug)
        return '--mode=' .. slug
      end, M.modes())
    end
  elseif before:find('^mode%s') then
    found = M.modes()
  end
  return vim.tbl_filter(function(word)
    return vim.startswith(word, lead)
  end, found or {})
end

--- The slugs of the modes, asked for with a short wait: completion can't come later.
---@return string[]
function M.modes()
  local found = client.get()
  if not found or not client.is_typed(found) then
    return { 'new-task', 'orchestrator', 'architect', 'code', 'debug', 'ask' }
  end
  local answer = found:request_sync('roo/mode/list', vim.empty_dict(), 500)
  return vim.tbl_map(function(mode)
    return mode.slug
  end, vim.tbl_get(answer or {}, 'result', 'modes') or {})
end

return M
