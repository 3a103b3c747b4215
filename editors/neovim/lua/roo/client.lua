-- The connection: finds the server's client or starts it, asks it, and starts it again after it was lost.

local options = require('roo.options')

local M = {}

local NAME = 'roo_lsp'
-- How often the server is started again within how many milliseconds before the user has to do it.
local RESTARTS, WINDOW = 3, 60000
-- How long a server that is restarted may take to end in order, in milliseconds.
local PATIENCE = 3000
-- How long another one may take to come in the place of one that has ended in order, in milliseconds.
local SUCCESSION = 2000

---@type table<integer, true> Clients that were met, by id.
local known = {}
---@type table<integer, true> Clients that were told to end.
local stopping = {}
---@type integer[] When the server was started again.
local restarts = {}
local leaving = false
local restarting = false

--- Shows the user one line. A longer one would stop the editor with a prompt.
---@param text string
---@param level? integer
function M.notify(text, level)
  local line = ('roo: ' .. text):gsub('%s*\n%s*', ' ')
  local room = math.max(20, vim.v.echospace)
  if vim.api.nvim_strwidth(line) > room then
    line = vim.fn.strcharpart(line, 0, room - 2, true) .. '…'
  end
  local function show()
    vim.notify(line, level or vim.log.levels.INFO, { title = 'roo' })
  end
  if level == vim.log.levels.ERROR then
    -- Within a command it would be an exception of that command.
    vim.schedule(show)
  else
    show()
  end
end

--- Whether a buffer has a file, be it a new one.
---@param buffer integer
---@return boolean
local function is_file(buffer)
  return vim.bo[buffer].buftype == '' and vim.api.nvim_buf_get_name(buffer) ~= ''
end

--- Starts the server for a file whose type Neovim doesn't know: vim.lsp.enable() waits for its FileType.
---@param buffer integer
local function start_without_type(buffer)
  if not vim.lsp.is_enabled(NAME) or not vim.api.nvim_buf_is_loaded(buffer) then
    return
  end
  local config = vim.deepcopy(vim.lsp.config[NAME])
  if not is_file(buffer) or vim.bo[buffer].filetype ~= '' or config.filetypes then
    return
  end
  local function on_dir(root)
    config.root_dir = root
    vim.lsp.start(config, { bufnr = buffer, reuse_client = config.reuse_client, silent = true })
  end
  if type(config.root_dir) == 'function' then
    config.root_dir(buffer, on_dir)
  else
    on_dir(config.root_dir)
  end
end

--- The folder of a client's workspace.
---@param id integer
---@return string?
local function folder_of(id)
  local client = vim.lsp.get_client_by_id(id)
  return client and client.root_dir
end

--- Follows what lives in the server of a new client, and what is known of its workspace already.
---@param client vim.lsp.Client
local function follow(client)
  if known[client.id] then
    return
  end
  known[client.id] = true
  local requests = require('roo.requests')
  if M.is_typed(client) then
    require('roo.trust').look(client)
    requests.follow_all(client)
  end
  requests.attach_all(client.root_dir)
end

--- Adds the typed protocol to the configuration in lsp/roo_lsp.lua.
function M.configure()
  local config = {
    handlers = {
      ['workspace/applyEdit'] = function(...)
        local arguments = { ... }
        return require('roo.in_file').unlocked(function()
          return vim.lsp.handlers['workspace/applyEdit'](unpack(arguments))
        end)
      end,
      ['window/showMessageRequest'] = function(_, params)
        return require('roo.message_request').answer(params)
      end,
    },
    on_exit = function(code, signal, id)
      -- Later it is not known any more.
      local client = vim.lsp.get_client_by_id(id)
      vim.schedule(function()
        if client then
          M.lost(client, code, signal)
        end
      end)
    end,
  }
  if options.get().typed then
    config.init_options = { roo = { protocolVersion = 1, documentSave = true, codeAsk = true } }
    config.handlers['roo/event'] = function(_, params, context)
      require('roo.requests').on_event(params, folder_of(context.client_id))
    end
    config.handlers['roo/mcp/changed'] = function(_, params, context)
      require('roo.mcp').on_changed(params, folder_of(context.client_id))
    end
    config.handlers['workspace/executeCommand'] = function(error, result, context)
      if not error and type(result) == 'table' and type(result.taskId) == 'string' then
        require('roo.requests').on_started(result.taskId)
      end
      return vim.lsp.handlers['workspace/executeCommand'](error, result, context)
    end
    config.handlers['roo/code/ask'] = function(_, params)
      return require('roo.code').answer(params)
    end
    config.handlers['roo/document/save'] = function(_, params)
      return require('roo.documents').save(params)
    end
  end
  vim.lsp.config(NAME, config)
  local group = vim.api.nvim_create_augroup('roo_client', {})
  vim.api.nvim_create_autocmd('LspAttach', {
    group = group,
    callback = function(event)
      local client = vim.lsp.get_client_by_id(event.data.client_id)
      if client and client.name == NAME then
        follow(client)
      end
    end,
  })
  vim.api.nvim_create_autocmd({ 'BufReadPost', 'BufNewFile', 'BufFilePost', 'BufWritePost' }, {
    group = group,
    callback = function(event)
      -- Its type is known when all that looks for it has run.
      vim.schedule(function()
        start_without_type(event.buf)
      end)
    end,
  })
  vim.api.nvim_create_autocmd('VimLeavePre', {
    group = group,
    callback = function()
      leaving = true
    end,
  })
end

--- The clients whose server is there.
---@param buffer? integer Only those that serve this buffer.
---@return vim.lsp.Client[]
local function alive(buffer)
  -- One whose server has just ended is still among them.
  return vim.tbl_filter(function(client)
    return not client:is_stopped()
  end, vim.lsp.get_clients({ name = NAME, bufnr = buffer }))
end

--- The client that serves a buffer.
---@param buffer integer
---@return vim.lsp.Client?
function M.of_buffer(buffer)
  return alive(buffer)[1]
end

--- The client of the workspace with this folder.
---@param folder? string
---@return vim.lsp.Client?
local function of_folder(folder)
  return folder and vim.iter(alive()):find(function(client)
    return client.root_dir == folder
  end)
end

--- The client that serves the current buffer; else that of the request that commands are about, or the one that there is.
---@return vim.lsp.Client?
function M.get()
  local here = M.of_buffer(0) or of_folder(vim.b.roo_folder)
  local request = not here and require('roo.requests').current()
  return here or request and of_folder(request.folder) or alive()[1]
end

--- Whether the client and its server speak `roo/*` with each other.
---@param client vim.lsp.Client
---@return boolean
function M.is_typed(client)
  local roo = vim.tbl_get(client.server_capabilities or {}, 'experimental', 'roo')
  return type(roo) == 'table' and roo.protocolVersion == 1
end

--- Starts the server for a buffer, or for the current directory when it is no file.
---@param buffer integer
---@return integer? id
local function start(buffer)
  local config = vim.deepcopy(vim.lsp.config[NAME])
  local attach = is_file(buffer)
  if type(config.root_dir) == 'function' then
    local find = config.root_dir
    config.root_dir = vim.fn.getcwd()
    if attach then
      find(buffer, function(root)
        config.root_dir = root
      end)
    end
  end
  return vim.lsp.start(config, { bufnr = buffer, attach = attach })
end

--- Starts the server for the workspace with a folder, or finds it while it starts.
---@param folder string
---@return integer? id
local function start_in(folder)
  local config = vim.deepcopy(vim.lsp.config[NAME])
  config.root_dir = folder
  return vim.lsp.start(config, { attach = false, reuse_client = config.reuse_client })
end

--- Calls back with a client as soon as it is ready.
---@param id? integer
---@param callback fun(client: vim.lsp.Client)
local function when_ready(id, callback)
  if not id then
    M.notify('the server could not be started; see :checkhealth roo', vim.log.levels.ERROR)
    return
  end
  local slow = vim.uv.now() + 10000
  local function poll()
    local started = vim.lsp.get_client_by_id(id)
    if started and started.initialized then
      follow(started)
      callback(started)
    elseif started then
      if slow and vim.uv.now() >= slow then
        slow = nil
        M.notify('the server takes long to start; see :checkhealth roo', vim.log.levels.WARN)
      end
      vim.defer_fn(poll, 10)
    else
      M.notify('the server is not responding; see :checkhealth roo', vim.log.levels.ERROR)
    end
  end
  poll()
end

--- Calls back with the client for the current buffer, and starts the server if there is none.
---@param callback fun(client: vim.lsp.Client)
function M.with(callback)
  local buffer = vim.api.nvim_get_current_buf()
  -- The file that a task is about must be one that the server edits.
  local client = is_file(buffer) and M.of_buffer(buffer) or not is_file(buffer) and M.get()
  when_ready(client and client.id or start(buffer), callback)
end

--- The same for the workspace with a folder; for the current buffer if that is not known.
---@param folder? string
---@param callback fun(client: vim.lsp.Client)
local function with_folder(folder, callback)
  if not folder then
    M.with(callback)
    return
  end
  local client = of_folder(folder)
  when_ready(client and client.id or start_in(folder), callback)
end

--- Shows a failure, and what can be done about it.
---@param error lsp.ResponseError
function M.show_error(error)
  local hint = vim.tbl_get(error, 'data', 'hint')
  if vim.tbl_get(error, 'data', 'kind') == 'configuration' then
    -- First, since the end of a long message is cut.
    M.notify(('set up a model with :Roo setup (%s)'):format(error.message), vim.log.levels.ERROR)
    return
  elseif error.code == vim.lsp.protocol.ErrorCodes.MethodNotFound then
    M.notify(('the server is older than this plugin (%s)'):format(error.message), vim.log.levels.ERROR)
    return
  end
  M.notify(hint and ('%s (%s)'):format(error.message, hint) or error.message, vim.log.levels.ERROR)
end

--- Sends a request to the server of the workspace with a folder. A failure is shown to the user.
---@param folder? string Without one the server of the current buffer is asked.
---@param method string
---@param params table
---@param on_result? fun(result: any)
---@param on_error? fun(error: lsp.ResponseError) In place of showing it.
function M.request_in(folder, method, params, on_result, on_error)
  with_folder(folder, function(client)
    client:request(method, params, function(error, result)
      if error and on_error then
        on_error(error)
      elseif error then
        M.show_error(error)
      elseif on_result then
        on_result(result)
      end
    end)
  end)
end

--- Goes on with a request that was interrupted while it waited: whoever answers it wants that.
---@param request roo.Request
function M.go_on(request)
  M.request_in(request.folder, 'roo/task/resume', { taskId = request.root }, nil, function(error)
    -- The user was faster.
    if (error.data or {}).kind ~= 'wrongState' then
      M.show_error(error)
    end
  end)
end

--- Runs a command of the server of the workspace with a folder.
---@param folder? string Without one the server of the current buffer runs it.
---@param command string
---@param argument any
---@param on_result? fun(result: any)
function M.execute_in(folder, command, argument, on_result)
  M.request_in(folder, 'workspace/executeCommand', { command = command, arguments = { argument } }, on_result)
end

--- Runs a command of the server of the current buffer.
---@param command string
---@param argument any
---@param on_result? fun(result: any)
function M.execute(command, argument, on_result)
  M.execute_in(nil, command, argument, on_result)
end

--- Starts a server again for the buffers that it had.
---@param client vim.lsp.Client The one that has ended.
---@param buffers integer[]
local function begin_again(client, buffers)
  local id
  for _, buffer in ipairs(buffers) do
    if vim.api.nvim_buf_is_loaded(buffer) then
      id = start(buffer) or id
    end
  end
  id = id or client.root_dir and start_in(client.root_dir) or start(vim.api.nvim_get_current_buf())
  when_ready(id, function() end)
end

--- Ends the server, and starts it again for the same buffers.
function M.restart()
  -- Two that wait for the same end would start two servers.
  if restarting then
    return
  end
  local client = M.get()
  restarts = {}
  if not client then
    M.with(function() end)
    return
  end
  stopping[client.id] = true
  restarting = true
  local buffers = vim.tbl_keys(client.attached_buffers)
  if M.is_typed(client) then
    require('roo.requests').on_disconnect(client.root_dir)
  end
  client:stop()
  local deadline = vim.uv.now() + PATIENCE
  local is_forced = false
  local function again()
    -- The client itself counts as stopped from when it is told to end.
    if client.rpc.is_closing() or is_forced and vim.uv.now() >= deadline then
      restarting = false
      begin_again(client, buffers)
      return
    end
    if vim.uv.now() >= deadline then
      is_forced, deadline = true, vim.uv.now() + PATIENCE
      M.notify('the server does not respond, and is ended', vim.log.levels.WARN)
      client.rpc.terminate()
    end
    vim.defer_fn(again, 20)
  end
  again()
end

--- A client has ended.
---@param client vim.lsp.Client
---@param code integer
---@param signal integer
function M.lost(client, code, signal)
  local buffers = vim.tbl_keys(client.attached_buffers)
  known[client.id] = nil
  if leaving or stopping[client.id] then
    stopping[client.id] = nil
    return
  end
  local requests = require('roo.requests')
  requests.on_disconnect(client.root_dir)
  local function is_replaced()
    return of_folder(client.root_dir) ~= nil
  end
  if is_replaced() then
    -- What it knew of the requests may be from before the other one's end.
    requests.attach_all(client.root_dir)
    return
  end
  local how = signal ~= 0 and ('by signal %d'):format(signal) or ('with code %d'):format(code)
  local function tell_end()
    if not is_replaced() and not leaving then
      M.notify(('the server exited %s; restart it with :Roo restart'):format(how), vim.log.levels.WARN)
    end
  end
  local now = vim.uv.now()
  restarts = vim.tbl_filter(function(at)
    return now - at < WINDOW
  end, restarts)
  if code == 0 and signal == 0 then
    -- An orderly end was wanted, by whoever asked for it; maybe to start it again.
    vim.defer_fn(tell_end, SUCCESSION)
    return
  elseif not options.get().restart or #restarts >= RESTARTS then
    tell_end()
    return
  end
  table.insert(restarts, now)
  M.notify(('the server exited %s and is restarted'):format(how), vim.log.levels.WARN)
  begin_again(client, buffers)
end

return M
