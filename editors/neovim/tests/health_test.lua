-- `:checkhealth roo`, the help file, and what an editor that is too old says.

local harness = require('harness')
local case, equal, has = harness.case, harness.equal, harness.has

local function health(editor)
  editor:command('silent checkhealth roo')
  return editor:shown()
end

case('a healthy set-up', function()
  local editor = harness.editor(harness.workspace())
  editor:open('greeting.sh')
  local report = health(editor)
  has(report, 'roo-lsp ')
  has(report, 'the typed protocol is on')
  has(report, 'Markdown is highlighted by treesitter')
  has(report, 'model profile scenario: scripted script, the default')
  assert(not report:find('ERROR') and not report:find('WARNING'), report)
  editor:quit()
end)

case('a server that is missing, an option that is none, a client that is not there', function()
  local editor = harness.editor(harness.workspace(), { ROO_LSP = '/nowhere/roo-lsp' })
  editor:lua([[vim.g.roo = { tpyed = true, size = 'big', review = 'inline' }]])
  local report = health(editor)
  has(report, 'the server /nowhere/roo-lsp is not executable')
  has(report, 'vim.g.roo.tpyed is no option of roo')
  has(report, 'vim.g.roo.size must be a number')
  has(report, 'vim.g.roo.review must be "diff", "sides" or "file", not "inline"')
  has(report, 'no client is running')
  editor:command('Roo status')
  editor:wait('the word that it did not start', [[return vim.fn.execute('messages'):find('could not be started', 1, true)]])
  editor:quit()
end)

case('no model, a mode file with mistakes, and a workspace that is not trusted', function()
  local workspace = harness.workspace()
  vim.fn.writefile({ 'customModes:', '  - slug: poet' }, workspace .. '/.roomodes')
  local editor = harness.editor(workspace, { ROO_TEST_NO_MODEL = '1' })
  editor:open('greeting.sh')
  local report = health(editor)
  has(report, 'no model is set up')
  has(report, ':Roo setup')
  has(report, 'files that would steer agents; they have no effect yet')
  -- Who starts a task all the same is told what to do.
  editor:command('bwipeout')
  editor:open('greeting.sh')
  editor:command('Roo new Anything')
  editor:wait('the word that there is no model', [[return vim.fn.execute('messages'):find(':Roo setup', 1, true)]])
  editor:quit()
end)

case('every tag of the help file is found, and every option and command is in it', function()
  local documents = harness.root .. '/editors/neovim/doc'
  local copy = vim.fn.tempname()
  vim.fn.mkdir(copy, 'p')
  vim.uv.fs_copyfile(documents .. '/roo.txt', copy .. '/roo.txt')
  vim.cmd.helptags(copy)
  local help = table.concat(vim.fn.readfile(copy .. '/roo.txt'), '\n')
  for _, name in ipairs(require('roo.command').names()) do
    has(help, '*:Roo-' .. name .. '*')
  end
  for name in pairs(require('roo.options').get()) do
    has(help, '*roo-option-' .. name .. '*')
  end
  for _, map in ipairs(vim.api.nvim_get_keymap('n')) do
    if map.lhs:find('^<Plug>%(roo') then
      has(help, map.lhs)
    end
  end
  for line in help:gmatch('[^\n]+') do
    assert(vim.api.nvim_strwidth(line) <= 80, 'longer than 80: ' .. line)
  end
end)

harness.run()
