-- Begins the plugin: the configuration's typed part, the command, the maps. Loads nothing else before it is used.

if vim.g.loaded_roo then
  return
end
vim.g.loaded_roo = 1

if vim.fn.has('nvim-0.11') == 0 then
  local message = 'roo: the plugin needs Neovim 0.11 or newer; this one is older, and nothing of it was loaded.'
  vim.api.nvim_echo({ { message, 'WarningMsg' } }, true, {})
  return
end

require('roo.client').configure()
require('roo.highlight').define()

vim.api.nvim_create_user_command('Roo', function(arguments)
  require('roo.command').run(arguments)
end, {
  nargs = '*',
  range = true,
  desc = 'Run coding agents (:help roo-commands)',
  complete = function(...)
    return require('roo.command').complete(...)
  end,
})

--- A map for the user's own keys; the plugin takes none.
---@param modes string|string[]
---@param name string
---@param action fun()
---@param description string
local function plug(modes, name, action, description)
  vim.keymap.set(modes, ('<Plug>(roo-%s)'):format(name), action, { desc = 'Roo: ' .. description })
end

---@param name string
---@return fun()
local function call(name)
  return function()
    require('roo')[name]()
  end
end

plug({ 'n', 'x' }, 'new', call('new'), 'start a task, with the selected lines if there are any')
plug('n', 'open', call('open'), 'show the task')
plug('n', 'tree', call('tree'), 'show the tree of branches')
plug('n', 'browse', call('browse'), 'open the task in a browser')
plug('n', 'tasks', call('tasks'), 'choose among all tasks')
plug('n', 'send', call('send'), 'message the agent')
plug('n', 'answer', call('answer'), 'answer the question that waits')
plug('n', 'review', call('review'), 'look at what needs permission, and decide')
plug('n', 'approvals', call('approvals'), 'choose among everything that needs permission')
plug('n', 'changes', call('changes'), 'list what the task has changed')
plug('n', 'checkpoints', call('checkpoints'), 'go back to an earlier state of files and conversation')
plug('n', 'mcp', call('mcp'), 'list the MCP servers')
plug('n', 'condense', call('condense'), 'shorten the conversation by a summary')
plug('n', 'context', call('context'), 'say how large the context is')
plug('n', 'edit', call('edit'), 'change a message of yours, and go on from there')
plug('n', 'undo', call('undo'), 'undo what a task has changed in this line')
plug('n', 'approve', call('approve'), 'allow once what needs permission')
plug('n', 'deny', call('deny'), 'refuse once what needs permission')
plug('n', 'cancel', call('cancel'), 'cancel the task')
plug('n', 'resume', call('resume'), 'resume the task')
plug('n', 'mode', call('mode'), 'switch the mode of the task')
plug('n', 'profile', call('profile'), 'switch the model profile of the task')
plug('n', 'setup', call('setup'), 'set up a model')

local group = vim.api.nvim_create_augroup('roo', {})
vim.api.nvim_create_autocmd('ColorScheme', {
  group = group,
  callback = function()
    require('roo.highlight').define()
  end,
})
require('roo.editor_state').watch(group)
