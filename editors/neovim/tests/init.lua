-- The configuration of every editor that the tests start. The environment says what differs.

local tests = vim.fn.fnamemodify(debug.getinfo(1, 'S').source:sub(2), ':p:h')
local plugin = vim.fn.fnamemodify(tests, ':h')
local root = vim.fn.fnamemodify(plugin, ':h:h')

vim.o.swapfile = false
vim.o.shortmess = vim.o.shortmess .. 'I'
package.path = tests .. '/?.lua;' .. package.path

if vim.env.ROO_TEST_ALONE then
  -- The configuration's file and nothing else of the plugin.
  vim.opt.runtimepath:prepend(vim.env.ROO_TEST_ALONE)
else
  vim.opt.runtimepath:prepend(plugin)
end
if vim.env.ROO_TEST_PLAIN then
  vim.g.roo = { typed = false }
end

vim.lsp.config('roo_lsp', {
  cmd = { vim.env.ROO_LSP, vim.env.ROO_TEST_DAEMON and '--daemon' or nil },
  init_options = {
    roo = {
      profile = not vim.env.ROO_TEST_NO_MODEL and 'scenario' or nil,
      -- Every command asks as it is: what is offered for a whole project has tests of its own.
      autoApprove = { execute = { mode = 'rules' } },
      profiles = not (vim.env.ROO_TEST_NO_PROFILES or vim.env.ROO_TEST_NO_MODEL) and {
        scenario = {
          provider = 'scripted',
          model = 'script',
          script = vim.env.ROO_TEST_SCRIPT or root .. '/tests/editors/scenario/turns.yaml',
        },
      } or nil,
    },
  },
})
vim.lsp.enable('roo_lsp')
