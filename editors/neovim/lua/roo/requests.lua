-- The requests that this editor knows: passes events to them, and attaches again where some are missing.

local Request = require('roo.request')
local client = require('roo.client')

local M = {}

---@type table<string, roo.Request>
local requests = {}
---@type roo.Request? What was used last.
local current
---@type table<string, true> Requests that were begun in this editor, of which nothing else is known yet.
local begun = {}
---@type table<string, true> Requests to which the client is being attached.
local attaching = {}
-- Pauses before a request is attached to again whose events have ended, in milliseconds: for one attempt after the other, the
-- last one for all further.
local PAUSES = { 500, 1000, 2000, 5000, 15000, 60000 }
---@type table<string, integer> How often each request was attached to again since its last event.
local attempts = {}
---@type table<string, table> The requests that will be attached to again after a pause, each with a table for that pause.
local pauses = {}
---@type table<string, boolean> Tasks whose snapshot is being fetched; true when it is wanted once more.
local fetching = {}
---@type table<string, true> The folders of workspaces whose server has ended.
local gone = {}

--- Tells everyone who shows a state that it may be another one.
local function changed()
  vim.api.nvim_exec_autocmds('User', { pattern = 'RooStatus', modeline = false })
  vim.cmd.redrawstatus({ bang = true })
end

---@param root string
---@return roo.Request?
function M.get(root)
  return requests[root]
end

--- All requests, the newest first.
---@return roo.Request[]
function M.all()
  local list = vim.tbl_values(requests)
  table.sort(list, function(a, b)
    return a.root > b.root
  end)
  return list
end

--- The request that commands are about: that of the buffer, or else the one used last.
---@return roo.Request?
function M.current()
  local root = vim.b.roo_request
  return root and requests[root] or current
end

---@param request roo.Request
function M.use(request)
  request.is_elsewhere = nil
  current = request
end

--- Whether the server of a request is there; without one, whether none has ended.
---@param request? roo.Request
---@return boolean
function M.is_connected(request)
  local folder = (request or M.current() or {}).folder
  if folder then
    return not gone[folder]
  end
  return next(gone) == nil
end

--- The request of this id; made when it is new.
---@param root string
---@param folder? string The folder of the workspace whose server has it.
---@return roo.Request
function M.know(root, folder)
  local request = requests[root]
  if not request then
    request = Request.new(root)
    requests[root] = request
    current = current or request
  end
  request.folder = request.folder or folder
  return request
end

--- Asks for the tree when all that was missing is there: what became of a request after its server ended stands
--- in no event, and a tree that was sent before is not sent again.
---@param request roo.Request
local function catch_up(request)
  if not request.catching_up or request.seq < request.replayed_to then
    return
  end
  request.catching_up = false
  client.request_in(request.folder, 'roo/tree/get', { taskId = request.root }, function(result)
    local event = { type = 'tree.changed', nodes = result.nodes }
    M.on_event({ rootId = request.root, taskId = request.root, event = event }, request.folder)
  end, function(error)
    client.notify(error.message, vim.log.levels.WARN)
  end)
end

--- Attaches again after a pause, as a request's events have ended. It grows with each attempt that has brought no event.
---@param request roo.Request
local function attach_later(request)
  local root = request.root
  attempts[root] = (attempts[root] or 0) + 1
  local pause = {}
  pauses[root] = pause
  vim.defer_fn(function()
    -- It may have been attached to meanwhile, or the server is gone.
    if pauses[root] == pause then
      pauses[root] = nil
      M.attach(request)
    end
  end, PAUSES[math.min(attempts[root], #PAUSES)])
end

--- Follows a request from where this editor is.
---@param request roo.Request
---@param on_done? fun()
function M.attach(request, on_done)
  if attaching[request.root] then
    return
  end
  attaching[request.root] = true
  client.request_in(request.folder, 'roo/task/attach', { taskId = request.root, afterSeq = request.seq }, function(result)
    attaching[request.root] = nil
    pauses[request.root] = nil
    request.replayed_to = result.seq
    request.catching_up = true
    catch_up(request)
    if on_done then
      on_done()
    end
  end, function(error)
    attaching[request.root] = nil
    if attempts[request.root] and vim.tbl_get(error, 'data', 'kind') ~= 'notFound' then
      -- The user was told when the events ended.
      attach_later(request)
      return
    end
    client.notify(("can't follow %s: %s"):format(request.title, error.message), vim.log.levels.ERROR)
  end)
end

--- Follows what lives in the server, also what is begun elsewhere: other editors and terminals may share it.
---@param found vim.lsp.Client
function M.follow_all(found)
  found:request('roo/task/attach', { taskId = '*' }, function(error)
    if error then
      client.notify(error.message, vim.log.levels.WARN)
    end
  end)
end

--- A command of this editor has begun a request: it is shown, now or with its first event.
---@param root string
function M.on_started(root)
  local request = requests[root]
  if not request then
    begun[root] = true
  elseif request.is_elsewhere then
    require('roo').show_new(request)
  end
end

--- The requests of the workspace with a folder, and those whose workspace is not known.
---@param folder? string
---@return roo.Request[]
local function requests_in(folder)
  return vim.tbl_filter(function(request)
    return request.folder == nil or request.folder == folder
  end, M.all())
end

--- Follows the requests of a workspace again, after its server was restarted.
---@param folder? string
function M.attach_all(folder)
  gone[folder or ''] = nil
  for _, request in ipairs(requests_in(folder)) do
    attempts[request.root], pauses[request.root] = nil, nil
    M.attach(request)
  end
  changed()
end

--- The server of a workspace is gone. What was being written is not known any more.
---@param folder? string
function M.on_disconnect(folder)
  gone[folder or ''] = true
  for _, request in ipairs(requests_in(folder)) do
    attaching[request.root], pauses[request.root] = nil, nil
    for id in pairs(request.tasks) do
      fetching[id] = nil
    end
    request:forget_live()
  end
  changed()
end

--- Fetches what commands printed, which events tell only while they run.
---@param request roo.Request
---@param task roo.Task
local function fetch_output(request, task)
  if fetching[task.id] ~= nil then
    fetching[task.id] = true
    return
  end
  fetching[task.id] = false
  client.request_in(request.folder, 'roo/task/get', { taskId = task.id }, function(snapshot)
    local again = fetching[task.id]
    fetching[task.id] = nil
    for _, message in ipairs(snapshot.messages) do
      if message.say == 'command_output' then
        request:show_output(task, message.id, message.text)
      end
    end
    if again then
      fetch_output(request, task)
    end
  end, function()
    fetching[task.id] = nil
  end)
end

--- Says that something waits, once, and only for what is new.
---@param request roo.Request
---@param params table
local function tell(request, params)
  local event = params.event
  -- What is replayed is shown, and counted in the status line.
  if not require('roo.options').get().notify or (params.seq or 0) <= (request.replayed_to or 0) then
    return
  end
  local task = request.tasks[params.taskId]
  local who = task and task.parent and ('%s asks: '):format(task.mode) or ''
  if request.is_elsewhere then
    -- What else happens there is told where it was begun.
    if event.type ~= 'approval.requested' and event.type ~= 'question.asked' then
      return
    end
    who = ('%s: %s'):format(request.title, who)
  end
  if event.type == 'approval.requested' then
    client.notify(('%s%s (:Roo review)'):format(who, event.title), vim.log.levels.WARN)
  elseif event.type == 'question.asked' then
    client.notify(('%s%s (:Roo answer)'):format(who, event.text), vim.log.levels.WARN)
  elseif event.type == 'context.shortened' then
    local tokens = require('roo.winbar').tokens
    local change = ('%s → %s tokens'):format(tokens(event.tokensBefore), tokens(event.tokensAfter))
    client.notify(('context shortened: %s (:Roo context)'):format(change))
  elseif event.type == 'restore.finished' and not event.done then
    client.notify('nothing was restored: ' .. (event.reason or ''), vim.log.levels.WARN)
  elseif event.type == 'task.state' and params.taskId == request.root then
    if event.state == 'failed' or event.state == 'interrupted' then
      client.notify(('%s: %s'):format(event.state, event.reason or request.title), vim.log.levels.WARN)
    elseif event.state == 'completed' then
      client.notify('completed: ' .. (event.result or request.title))
    end
  end
end

local told = {
  ['approval.requested'] = true,
  ['approval.resolved'] = true,
  ['question.asked'] = true,
  ['question.answered'] = true,
  ['task.state'] = true,
  ['tree.changed'] = true,
  ['context.shortened'] = true,
  ['restore.finished'] = true,
}

--- Takes one `roo/event`.
---@param params table
---@param folder? string The folder of the workspace whose server has sent it.
function M.on_event(params, folder)
  local event = params.event
  if event.type == 'server.degraded' then
    -- What fails again is no news.
    if event['until'] ~= 'attached' or not attempts[params.rootId] then
      client.notify(event.reason, vim.log.levels.WARN)
    end
    if event['until'] == 'attached' and requests[params.rootId] then
      attach_later(requests[params.rootId])
    end
    return
  elseif event.type == 'server.recovered' then
    client.notify('the server works with full function again')
    return
  end
  local is_new = not requests[params.rootId]
  local request = M.know(params.rootId, folder)
  if is_new and not begun[params.rootId] then
    request.is_elsewhere = true
  end
  local outcome = request:apply(params)
  if outcome == 'gap' then
    M.attach(request)
    return
  elseif outcome == 'known' then
    return
  end
  if params.seq then
    attempts[params.rootId] = nil
  end
  catch_up(request)
  if is_new and begun[params.rootId] then
    begun[params.rootId] = nil
    require('roo').show_new(request)
  end
  if event.type == 'tool.finished' then
    local task = request.tasks[params.taskId]
    local call = task and request.calls[task.id .. '/' .. event.toolCallId]
    if call and call.name == 'execute_command' then
      fetch_output(request, task)
      require('roo.documents').reload()
    end
  elseif event.type == 'edit.applied' then
    require('roo.documents').reload(event.uri)
  elseif event.type == 'restore.finished' and event.done then
    require('roo.documents').reload()
  end
  if told[event.type] then
    tell(request, params)
    require('roo.review').refresh()
    require('roo.tree_buffer').refresh(request)
    changed()
  end
end

return M
