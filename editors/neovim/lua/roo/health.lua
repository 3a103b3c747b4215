-- `:checkhealth roo`. It has to run in editors that are too old for the rest, and to say so.

local M = {}

-- Its names and its place were others before 0.10 and before 0.8.
local health = vim.health or require('health')
local start = health.start or health.report_start
local ok = health.ok or health.report_ok
local warn = health.warn or health.report_warn
local fail = health.error or health.report_error

---@param program string
local function check_program(program)
  if vim.fn.executable(program) == 0 then
    fail(('the server %s is not executable'):format(program), {
      'Install it: cargo install --path . --locked',
      "or name it: vim.lsp.config('roo_lsp', { cmd = { '/path/to/roo-lsp' } })",
    })
    return
  end
  local answer = vim.system({ program, '--version' }, { text = true, timeout = 5000 }):wait()
  if answer.code == 0 then
    ok(('%s: %s'):format(vim.fn.exepath(program), vim.trim(answer.stdout)))
  else
    fail(('%s does not say its version: %s'):format(program, vim.trim(answer.stderr or '')))
  end
end

local function check_client()
  local client = require('roo.client')
  local found = vim.lsp.get_clients({ name = 'roo_lsp' })
  if #found == 0 then
    warn('no client is running', { "Put vim.lsp.enable('roo_lsp') into your init.lua, or run :Roo new" })
  end
  for _, one in ipairs(found) do
    local buffers = vim.tbl_count(one.attached_buffers)
    ok(('client %d serves %s, %d buffers'):format(one.id, one.root_dir or 'no folder', buffers))
    if client.is_typed(one) then
      ok('the typed protocol is on')
    elseif not require('roo.options').get().typed then
      ok('the typed protocol is off, as vim.g.roo.typed says')
    else
      warn('the typed protocol is off', {
        'The server may have been started before the plugin was loaded, or be another version: :Roo restart',
      })
    end
  end
end

---@param found vim.lsp.Client
---@param method string
---@return table?
local function ask(found, method)
  local answer = found:request_sync(method, vim.empty_dict(), 5000)
  if answer and answer.result then
    return answer.result
  end
  warn(('%s: %s'):format(method, vim.tbl_get(answer or {}, 'err', 'message') or 'no answer in 5 s'))
end

--- Models, modes and trust, as the server has them. No model is asked: `roo-lsp doctor` does that.
---@param found vim.lsp.Client
local function check_workspace(found)
  local profiles = ask(found, 'roo/profile/list')
  if profiles and #profiles.profiles == 0 then
    fail('no model is set up', { ':Roo setup' })
  elseif profiles then
    for _, profile in ipairs(profiles.profiles) do
      local default = profile.isDefault and ', the default' or ''
      ok(('model profile %s: %s %s%s'):format(profile.name, profile.provider, profile.model or '', default))
    end
    local function is_default(profile)
      return profile.isDefault
    end
    if not vim.iter(profiles.profiles):any(is_default) then
      fail('the settings name a default profile that is not defined', {
        'Set `profile` to one of these in the settings, or set up another model: :Roo setup',
      })
    end
    ok('whether the models answer: `roo-lsp doctor`')
  end
  local modes = ask(found, 'roo/mode/list')
  for _, problem in ipairs(modes and modes.problems or {}) do
    local place = problem.line and ('%s:%d'):format(problem.path, problem.line) or problem.path
    local tell = problem.error and fail or warn
    tell(('%s: %s'):format(place, problem.message))
  end
  local trust = ask(found, 'roo/trust/get')
  if trust and (#trust.pendingApprovals > 0 or not trust.trusted and #trust.brings > 0) then
    warn('this workspace has files that would steer agents; they have no effect yet', { ':Roo trust' })
  end
end

local function check_display()
  if require('roo.markdown').is_available() then
    ok('Markdown is highlighted by treesitter')
  else
    warn('the treesitter parsers markdown and markdown_inline are missing, so Markdown is shown plainly', {
      'They come with Neovim; check its installation: :checkhealth vim.treesitter',
    })
  end
end

function M.check()
  start('roo: Neovim')
  if vim.fn.has('nvim-0.11') == 0 then
    fail('Neovim 0.11 or newer is needed', { 'Install a newer Neovim; nothing of the plugin was loaded.' })
    return
  end
  ok('Neovim ' .. tostring(vim.version()))
  for _, problem in ipairs(require('roo.options').problems()) do
    warn(problem, { ':help roo-options' })
  end
  check_display()

  start('roo: server')
  local config = vim.lsp.config['roo_lsp']
  local command = config and config.cmd
  if not config or not config.root_dir then
    fail('lsp/roo_lsp.lua is not in the runtime path')
  elseif type(command) == 'table' then
    check_program(command[1])
  else
    ok('the server is started by a function')
  end

  start('roo: client')
  if not vim.lsp.is_enabled('roo_lsp') then
    warn("roo_lsp is not enabled; :Roo starts it when it is needed", { "vim.lsp.enable('roo_lsp')" })
  end
  check_client()
  local found = require('roo.client').get()
  if found and found.initialized and require('roo.client').is_typed(found) then
    start('roo: models and workspace')
    check_workspace(found)
  end
end

return M
