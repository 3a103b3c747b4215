-- `:Roo`: its subcommands and their completion.

local client = require('roo.client')

local M = {}

--- Takes `--mode=x` and `--profile=x` from the beginning of a prompt.
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
local plain = {
  'open',
  'tree',
  'browse',
  'tasks',
  'review',
  'approvals',
  'changes',
  'checkpoints',
  'condense',
  'context',
  'edit',
  'cancel',
  'resume',
  'background',
  'trust',
  'mcp',
  'status',
  'restart',
}
for _, name in ipairs(plain) do
  subcommands[name] = function(roo)
    roo[name]()
  end
end

subcommands.undo = function(roo, _, range)
  roo.undo(range)
end

subcommands.setup = function(roo, text)
  roo.setup(vim.split(text, '%s+', { trimempty = true }))
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

--- Completes subcommands, modes, profiles, and what a prompt may point at.
---@param lead string
---@param line string
---@return string[]
function M.complete(lead, line)
  local before = line:match("^.-Roo%s+(.*)$") or ''
  ---@param words string[]
  ---@param prefix? string
  local function begin_with(words, prefix)
    return vim.tbl_filter(function(word)
      return vim.startswith(word, lead)
    end, vim.tbl_map(function(word)
      return (prefix or '') .. word
    end, words))
  end
  local name, rest = before:match('^(%S+)%s(.*)$')
  if not name then
    return begin_with(M.names())
  elseif name == 'mode' then
    return begin_with(M.modes())
  elseif name == 'profile' then
    return begin_with(M.profiles())
  elseif not vim.list_contains({ 'new', 'send', 'answer', 'deny' }, name) then
    return {}
  elseif vim.startswith(lead, '--mode=') then
    return begin_with(M.modes(), '--mode=')
  elseif vim.startswith(lead, '--profile=') then
    return begin_with(M.profiles(), '--profile=')
  elseif vim.startswith(lead, '-') then
    return begin_with({ '--mode=', '--profile=' })
  end
  -- What is completed may have the word anywhere in it.
  local prompt = M.read_options(rest)
  return vim.tbl_map(function(item)
    return item.word
  end, require('roo.completion').items(prompt))
end

--- Asks with a short wait: completion can't come later.
---@param method string
---@param field string
---@return table[]?
local function ask(method, field)
  local found = client.get()
  if found and client.is_typed(found) then
    local answer = found:request_sync(method, vim.empty_dict(), 500)
    return vim.tbl_get(answer or {}, 'result', field) or {}
  end
end

--- The slugs of the modes.
---@return string[]
function M.modes()
  local modes = ask('roo/mode/list', 'modes')
  if not modes then
    return { 'new-task', 'orchestrator', 'architect', 'code', 'debug', 'ask' }
  end
  return vim.tbl_map(function(mode)
    return mode.slug
  end, modes)
end

--- The names of the model profiles.
---@return string[]
function M.profiles()
  return vim.tbl_map(function(profile)
    return profile.name
  end, ask('roo/profile/list', 'profiles') or {})
end

return M
