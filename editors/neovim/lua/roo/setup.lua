-- `:Roo setup`: the server's own set-up of a model, in a terminal. A key that is typed there is seen by no plugin.

local client = require('roo.client')

local M = {}

local HEIGHT = 18

--- The program of the server.
---@return string?
function M.program()
  local config = vim.lsp.config['roo_lsp']
  return type(config.cmd) == 'table' and config.cmd[1] or nil
end

--- Opens the terminal, and says what came of it.
---@param arguments string[] Further arguments of `roo-lsp setup`.
function M.run(arguments)
  local program = M.program()
  if not program then
    client.notify('the server is started by a function; run `roo-lsp setup` in a terminal', vim.log.levels.WARN)
    return
  end
  if vim.fn.executable(program) == 0 then
    client.notify(('%s is not executable; see :checkhealth roo'):format(program), vim.log.levels.ERROR)
    return
  end
  vim.cmd(('botright %dnew'):format(HEIGHT))
  local window = vim.api.nvim_get_current_win()
  local command = vim.list_extend({ program, 'setup' }, arguments)
  vim.fn.jobstart(command, {
    term = true,
    on_exit = function(_, code)
      if code ~= 0 then
        -- What was wrong stands in the terminal.
        client.notify('no model was set up', vim.log.levels.WARN)
        return
      end
      if vim.api.nvim_win_is_valid(window) then
        vim.api.nvim_win_close(window, true)
      end
      -- The server reads its settings before each turn.
      client.notify('the model is set up; :Roo new starts a task')
    end,
  })
  vim.wo[window][0].number = false
  vim.wo[window][0].relativenumber = false
  vim.cmd.startinsert()
end

return M
