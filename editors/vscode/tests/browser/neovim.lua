-- The configuration of a Neovim that a test drives: the plugin as users load it, with the daemon. Each line on standard input is
-- a piece of Lua to run; what it gives goes to standard output, and so does every event.

vim.opt.runtimepath:prepend(vim.g.roo_test.plugin)
vim.o.swapfile = false
vim.o.shortmess = vim.o.shortmess .. 'I'
vim.lsp.config('roo_lsp', { cmd = { vim.g.roo_test.server, '--daemon' } })
vim.lsp.enable('roo_lsp')

local function tell(message)
  io.stdout:write(vim.json.encode(message) .. '\n')
  io.stdout:flush()
end

vim.api.nvim_create_autocmd('VimEnter', {
  callback = function()
    local requests = require('roo.requests')
    local on_event = requests.on_event
    requests.on_event = function(params)
      on_event(params)
      tell({ event = params })
    end
  end,
})

local function run(line)
  local asked = vim.json.decode(line)
  local ok, value = pcall(function()
    return assert(loadstring(asked.lua))()
  end)
  tell({ id = asked.id, ok = ok, value = ok and value == nil and vim.NIL or value })
end

local input = vim.uv.new_pipe()
input:open(0)
local pending = ''
input:read_start(function(_, piece)
  if not piece then
    vim.schedule(function()
      vim.cmd('qall!')
    end)
    return
  end
  local lines = vim.split(pending .. piece, '\n')
  pending = table.remove(lines)
  for _, line in ipairs(lines) do
    vim.schedule(function()
      run(line)
    end)
  end
end)
