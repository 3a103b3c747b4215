-- What every test needs: cases, waiting with a deadline, a workspace, and editors to drive from outside.

local M = {}

-- A busy machine takes many times as long as an idle one; nothing waits so long unless it fails.
local DEADLINE = 90000

local tests = vim.fn.fnamemodify(debug.getinfo(1, 'S').source:sub(2), ':p:h')
M.root = vim.fn.fnamemodify(tests, ':h:h:h')

---@type {name: string, run: fun()}[]
local cases = {}

--- A case.
---@param name string
---@param run fun()
function M.case(name, run)
  table.insert(cases, { name = name, run = run })
end

--- Waits until something holds; fails with what was waited for.
---@generic T
---@param what string
---@param condition fun(): T?
---@return T
function M.wait(what, condition)
  local value
  local done = vim.wait(DEADLINE, function()
    value = condition()
    return value
  end, 5)
  if not done then
    error(('%s did not come in %d s\n%s'):format(what, DEADLINE / 1000, vim.fn.execute('messages')), 2)
  end
  return value
end

--- Fails unless both are equal.
---@param actual any
---@param expected any
---@param what? string
function M.equal(actual, expected, what)
  if not vim.deep_equal(actual, expected) then
    local shown = ('%s\nexpected: %s\nactual:   %s'):format(what or 'not equal', vim.inspect(expected), vim.inspect(actual))
    if type(actual) == 'table' and type(actual[1]) == 'string' and type(expected[1]) == 'string' then
      local diff = vim.diff(table.concat(expected, '\n') .. '\n', table.concat(actual, '\n') .. '\n', { ctxlen = 2 })
      shown = (what or 'not equal') .. '\n' .. diff
    end
    error(shown, 2)
  end
end

--- Fails unless a text has a part.
---@param text string
---@param part string
function M.has(text, part)
  if not text:find(part, 1, true) then
    error(('%q is missing in:\n%s'):format(part, text), 2)
  end
end

--- A copy of the scenario's workspace.
---@return string directory
function M.workspace()
  local directory = vim.fn.tempname() .. '/scenario'
  vim.fn.mkdir(directory .. '/docs', 'p')
  vim.fn.delete(directory .. '/docs', 'd')
  for _, name in ipairs({ 'greeting.sh', 'README.md' }) do
    assert(vim.uv.fs_copyfile(M.root .. '/tests/editors/scenario/workspace/' .. name, directory .. '/' .. name))
  end
  return assert(vim.uv.fs_realpath(directory))
end

---@class roo.test.Editor
---@field channel integer
local Editor = {}
Editor.__index = Editor

--- Starts an editor in a process of its own.
---@param workspace string
---@param environment? table<string, string>
---@return roo.test.Editor
function M.editor(workspace, environment)
  local channel = vim.fn.jobstart({ vim.v.progpath, '--embed', '--headless', '-n', '-u', tests .. '/init.lua' }, {
    rpc = true,
    cwd = workspace,
    env = environment,
  })
  assert(channel > 0, 'the editor does not start')
  return setmetatable({ channel = channel }, Editor)
end

--- Runs Lua there.
---@param code string
---@return any
function Editor:lua(code, ...)
  return vim.rpcrequest(self.channel, 'nvim_exec_lua', code, { ... })
end

--- Runs a command there.
---@param command string
function Editor:command(command)
  vim.rpcrequest(self.channel, 'nvim_command', command)
end

--- Waits until a piece of Lua gives something there.
---@param what string
---@param code string
---@return any
function Editor:wait(what, code, ...)
  local arguments = { ... }
  local ok, value = pcall(M.wait, what, function()
    local value = self:lua(code, unpack(arguments))
    return value ~= vim.NIL and value or nil
  end)
  if not ok then
    -- What the editor shows says most about why.
    local shown = self:lua([[
      local request = package.loaded['roo.requests'] and require('roo.requests').current()
      return table.concat(request and request:text() or {}, '\n') .. '\n' .. vim.fn.execute('messages')
    ]])
    error(('%s\n%s'):format(value, shown), 2)
  end
  return value
end

--- Presses keys there, as `:help keycodes` writes them; all that follows from them is done.
---@param keys string
function Editor:press(keys)
  self:lua([[vim.api.nvim_feedkeys(vim.keycode(...), 'xt', false)]], keys)
end

--- Opens a file, and waits for the client.
---@param path string
function Editor:open(path)
  self:command('edit ' .. path)
  self:wait('the client', [[
    local client = vim.lsp.get_clients({ name = 'roo_lsp', bufnr = 0 })[1]
    return client and client.initialized
  ]])
end

--- Adds the line that the user does not save.
function Editor:add_unsaved()
  self:lua([[vim.api.nvim_buf_set_lines(0, -1, -1, false, { '# not saved yet' })]])
end

--- The lines of a buffer.
---@param name string
---@return string[]
function Editor:lines(name)
  return self:lua([[return vim.api.nvim_buf_get_lines(vim.fn.bufnr(...), 0, -1, false)]], name)
end

--- The text of the buffer in front.
---@return string
function Editor:shown()
  return self:lua([[return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\n')]])
end

--- The text of the task buffer.
---@return string
function Editor:task_text()
  return self:lua([[
    local request = require('roo.requests').current()
    local buffer = require('roo.task_buffer').buffer(request)
    return table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), '\n')
  ]])
end

--- The title of the approval that waits, if one does.
---@return string?
function Editor:waiting()
  return self:lua([[
    local request = require('roo.requests').current()
    local waiting = request and request.approvals[1]
    return waiting and waiting.title
  ]])
end

--- Waits until an approval of this title is the first that waits.
---@param title string
function Editor:wait_for_approval(title)
  M.wait(('the approval %q'):format(title), function()
    return self:waiting() == title
  end)
end

--- Waits until one question does.
function Editor:wait_for_question()
  self:wait('the question', [[
    local request = require('roo.requests').current()
    return request and #request.questions == 1
  ]])
end

--- Ends it at once, as a crash would.
function Editor:kill()
  vim.uv.kill(vim.fn.jobpid(self.channel), 'sigkill')
  vim.fn.jobwait({ self.channel })
end

--- Ends it in order.
function Editor:quit()
  pcall(vim.rpcnotify, self.channel, 'nvim_command', 'qall!')
  if vim.fn.jobwait({ self.channel }, DEADLINE)[1] == -1 then
    self:kill()
    error('the editor did not end')
  end
end

--- Starts an editor whose model plays these turns, with a file of the workspace.
---@param workspace string
---@param turns string[] lines of a script
---@return roo.test.Editor
function M.play(workspace, turns)
  local script = vim.fn.tempname() .. '.yaml'
  vim.fn.writefile(turns, script)
  local editor = M.editor(workspace, { ROO_TEST_SCRIPT = script })
  editor:open('greeting.sh')
  return editor
end

--- Opens the script, adds the line that is not saved, and starts the task on lines 4 and 5.
---@param editor roo.test.Editor
function M.begin(editor)
  editor:open('greeting.sh')
  editor:add_unsaved()
  editor:command('4,5Roo new --mode=new-task Greet politely')
end

--- Runs all cases, and ends the editor with what they came to.
function M.run()
  local failed = 0
  for _, case in ipairs(cases) do
    local began = vim.uv.hrtime()
    local ok, problem = xpcall(case.run, debug.traceback)
    local took = (vim.uv.hrtime() - began) / 1e9
    io.stdout:write(('%s - %s (%.1f s)\n'):format(ok and 'ok' or 'not ok', case.name, took))
    if not ok then
      failed = failed + 1
      io.stdout:write('    ' .. tostring(problem):gsub('\n', '\n    ') .. '\n')
    end
  end
  vim.cmd('cquit ' .. (failed > 0 and 1 or 0))
end

return M
