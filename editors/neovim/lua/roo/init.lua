-- What a user can do, as functions. Each works with the typed protocol, and by the server's commands without it.

local ask = require('roo.ask')
local client = require('roo.client')

local M = {}

--- Calls one of two functions: for the typed protocol, or for plain LSP.
---@param typed fun(client: vim.lsp.Client)
---@param plain fun(client: vim.lsp.Client)
local function either(typed, plain)
  client.with(function(found)
    if client.is_typed(found) then
      typed(found)
    else
      plain(found)
    end
  end)
end

--- Calls back with the request that is meant; says so if there is none.
---@param callback fun(request: roo.Request)
local function with_request(callback)
  local request = require('roo.requests').current()
  if request then
    callback(request)
  else
    client.notify('no task is open here; see :Roo tasks', vim.log.levels.WARN)
  end
end

--- What the user has selected, as a place for the model to look at.
---@param range? {[1]: integer, [2]: integer} The lines of a command.
---@return table[]? context
local function selection(range)
  local buffer = vim.api.nvim_get_current_buf()
  if vim.bo[buffer].buftype ~= '' or vim.api.nvim_buf_get_name(buffer) == '' then
    return nil
  end
  local first, last
  local mode = vim.fn.mode()
  if range then
    first, last = range[1], range[2]
  elseif mode:find('^[vV\22]') then
    first, last = vim.fn.line('v'), vim.fn.line('.')
    if first > last then
      first, last = last, first
    end
  else
    return nil
  end
  -- Whole lines: part of a line says little to a model.
  local lines = { start = { line = first - 1, character = 0 }, ['end'] = { line = last, character = 0 } }
  return { { uri = vim.uri_from_bufnr(buffer), range = lines } }
end

--- The branch that the cursor is in, in the buffer of its task; else the request's own.
---@param request roo.Request
---@return string
function M.task_here(request)
  local buffer, line = vim.api.nvim_get_current_buf(), vim.api.nvim_win_get_cursor(0)[1]
  local task_buffer = require('roo.task_buffer')
  local block = task_buffer.request_of(buffer) == request and task_buffer.block_at(buffer, line)
  return block and block.task.id or request.root
end

--- Shows a request that has just begun, if the user wants that.
---@param request roo.Request
function M.show_new(request)
  require('roo.requests').use(request)
  if require('roo.options').get().open then
    require('roo.task_buffer').show(request, false)
  end
end

---@class roo.NewOptions
---@field mode? string
---@field profile? string
---@field range? {[1]: integer, [2]: integer}
---@field context? table[]

--- Starts a task; asks for the prompt when there is none.
---@param prompt? string
---@param options? roo.NewOptions
function M.new(prompt, options)
  options = options or {}
  local context = options.context or selection(options.range)
  if vim.fn.mode():find('^[vV\22]') then
    vim.api.nvim_feedkeys(vim.keycode('<Esc>'), 'nx', false)
  end
  if not prompt or not prompt:find('%S') then
    local about = context and context[1].range and (' (about lines %d to %d)'):format(
      context[1].range.start.line + 1,
      context[1].range['end'].line
    ) or ''
    ask.input({ prompt = 'Describe a task' .. about .. ' ', draft = 'new' }, function(text)
      if text and text:find('%S') then
        M.new(text, vim.tbl_extend('force', options, { context = context or {} }))
      end
    end)
    return
  end
  local params = { prompt = prompt, mode = options.mode, profile = options.profile, context = context }
  either(function(found)
    client.request_in(found.root_dir, 'roo/task/start', params, function(result)
      M.show_new(require('roo.requests').know(result.taskId, found.root_dir))
    end)
  end, function()
    client.execute('roo.newTask', params)
  end)
end

--- Shows the task in a window and goes there.
function M.open()
  either(function()
    local request = require('roo.requests').current()
    if request then
      require('roo.task_buffer').show(request, true)
    else
      M.tasks()
    end
  end, function(found)
    local provider = found.server_capabilities.executeCommandProvider or {}
    if vim.list_contains(provider.commands or {}, 'roo.openTask') then
      client.execute('roo.openTask')
    else
      client.execute('roo.showTree')
    end
  end)
end

--- Shows the tree of branches.
function M.tree()
  either(function()
    with_request(function(request)
      require('roo.tree_buffer').show(request)
    end)
  end, function()
    client.execute('roo.showTree')
  end)
end

--- Opens the page for a browser on the request of this window, or else on what is at work. The server serves it from now on.
function M.browse()
  local function open(folder, argument)
    client.execute_in(folder, 'roo.openInBrowser', argument, function(result)
      if not result.shown then
        -- Cut off it would be of no use.
        vim.notify('roo: open ' .. result.address, vim.log.levels.INFO, { title = 'roo' })
      end
    end)
  end
  either(function(found)
    local request = require('roo.requests').current()
    if request then
      open(request.folder, { taskId = request.root })
    else
      open(found.root_dir)
    end
  end, function()
    client.execute('roo.openInBrowser')
  end)
end

--- Opens a request by its id, from the beginning when this editor doesn't know it.
---@param root string
---@param title? string
---@param folder? string The folder of its workspace, if that isn't the current one.
function M.open_task(root, title, folder)
  local requests = require('roo.requests')
  local known = requests.get(root)
  local request = known or requests.know(root, folder)
  if not known then
    request.title = title or ''
    -- All of it is an old story until the server says where now is.
    request.replayed_to = math.huge
    requests.attach(request)
  end
  requests.use(request)
  require('roo.task_buffer').show(request, true)
end

--- Calls back with all tasks of a workspace, the newest first.
---@param folder? string
---@param on_items fun(items: table[])
---@param before? table[]
---@param cursor? string
local function list_tasks(folder, on_items, before, cursor)
  local items = before or {}
  client.request_in(folder, 'roo/task/list', cursor and { cursor = cursor } or vim.empty_dict(), function(result)
    vim.list_extend(items, result.items)
    if result.nextCursor then
      list_tasks(folder, on_items, items, result.nextCursor)
    else
      on_items(items)
    end
  end)
end

--- Lets the user choose among all tasks of the workspace.
function M.tasks()
  either(function(found)
    list_tasks(found.root_dir, function(items)
      if #items == 0 then
        client.notify('there are no tasks yet; :Roo new starts one')
        return
      end
      ask.select(items, {
        prompt = 'Tasks',
        kind = 'roo_task',
        format_item = function(item)
          local cost = require('roo.winbar').cost(item.usage.costUsd)
          local parts = { item.state, os.date('%Y-%m-%d %H:%M', item.createdAt / 1000), cost }
          return ('%s — %s'):format(item.title, table.concat(parts, ', '))
        end,
      }, function(item)
        if item then
          M.open_task(item.taskId, item.title, found.root_dir)
        end
      end)
    end)
  end, function()
    client.execute('roo.status')
  end)
end

--- Says something to the task: to the branch under the cursor if it waits for its user, or else to the request.
---@param text? string
function M.send(text)
  if not text or not text:find('%S') then
    local request = require('roo.requests').current()
    ask.input({ prompt = 'Message the agent:', draft = 'send ' .. (request and request.root or '') }, function(answer)
      if answer and answer:find('%S') then
        M.send(answer)
      end
    end)
    return
  end
  either(function()
    with_request(function(request)
      local asking = request.approvals[1] or request.questions[1]
      local task = asking and asking.task.id or request.root
      client.request_in(request.folder, 'roo/task/send', { taskId = task, text = text })
    end)
  end, function()
    client.execute('roo.send', text)
  end)
end

--- The oldest thing of a kind that waits, of the current request first.
---@param kind 'approvals'|'questions'
---@return roo.Request?
---@return any
local function oldest(kind)
  local requests = require('roo.requests')
  local candidates = { requests.current() }
  vim.list_extend(candidates, requests.all())
  for _, request in ipairs(candidates) do
    if request[kind][1] then
      return request, request[kind][1]
    end
  end
  client.notify(kind == 'approvals' and 'nothing needs permission' or 'no question waits')
end

--- The place of a suggestion, if an answer is no more than that; another number is words.
---@param text string
---@return integer?
local function place_of_suggestion(text)
  return tonumber(text:match('^%s*([1-9]%d?)%s*$'))
end

--- Answers the question that waits.
---@param text? string
function M.answer(text)
  either(function()
    local _, question = oldest('questions')
    if question and text and text:find('%S') then
      -- A number picks a suggestion.
      local suggestion = question.suggestions[place_of_suggestion(text) or 0]
      require('roo.question').answer(question, suggestion and suggestion.text or text)
    elseif question then
      require('roo.question').ask(question)
    end
  end, function()
    if text and text:find('%S') then
      client.execute('roo.answer', place_of_suggestion(text) or text)
    else
      ask.input({ prompt = 'Your answer:', draft = 'answer' }, function(answer)
        if answer and answer:find('%S') then
          client.execute('roo.answer', place_of_suggestion(answer) or answer)
        end
      end)
    end
  end)
end

--- Opens the float of what needs permission.
function M.review()
  either(function()
    local request, approval = oldest('approvals')
    if request then
      require('roo.review').open(request, approval)
    end
  end, function()
    client.execute('roo.showDiff')
  end)
end

--- Opens the review at an approval, or its task where this editor doesn't follow that yet.
---@param item {rootId: string, taskTitle: string, approval: {approvalId: string}}
---@param folder? string The folder of its workspace.
local function review_listed(item, folder)
  local request = require('roo.requests').get(item.rootId)
  if not request then
    M.open_task(item.rootId, item.taskTitle, folder)
    client.notify('its task is open now; look at what needs permission with :Roo review')
    return
  end
  for _, approval in ipairs(request.approvals) do
    if approval.approvalId == item.approval.approvalId then
      require('roo.review').open(request, approval)
      return
    end
  end
  client.notify('this was decided elsewhere or is no longer open')
end

--- Lets the user choose among everything that needs permission, of interrupted tasks too, and opens the review there.
function M.approvals()
  either(function(found)
    client.request_in(found.root_dir, 'roo/approval/list', vim.empty_dict(), function(result)
      if #result.approvals == 0 then
        client.notify('nothing needs permission')
        return
      end
      ask.select(result.approvals, {
        prompt = 'Approvals',
        kind = 'roo_approval',
        format_item = function(item)
          local interrupted = item.interrupted and ', interrupted' or ''
          return ('%s — %s%s'):format(item.approval.title, item.taskTitle, interrupted)
        end,
      }, function(item)
        if item then
          review_listed(item, found.root_dir)
        end
      end)
    end)
  end, function()
    client.execute('roo.showDiff')
  end)
end

--- Fills the quickfix list with what the request has changed.
function M.changes()
  either(function()
    with_request(function(request)
      require('roo.changes').show(request)
    end)
  end, function()
    client.notify('the typed protocol is off; see :help roo-option-typed', vim.log.levels.WARN)
  end)
end

--- Undoes what requests have changed in these lines of a file or of the quickfix list; else in the line of the cursor.
---@param range? {[1]: integer, [2]: integer}
function M.undo(range)
  local line = vim.api.nvim_win_get_cursor(0)[1]
  either(function()
    require('roo.changes').undo(range and range[1] or line, range and range[2] or line)
  end, function()
    client.notify('the typed protocol is off; see :help roo-option-typed', vim.log.levels.WARN)
  end)
end

--- Sets up a model in a terminal.
---@param arguments? string[] Further arguments of `roo-lsp setup`.
function M.setup(arguments)
  require('roo.setup').run(arguments or {})
end

---@param kind string
---@param command string
---@param text? string
local function decide(kind, command, text)
  text = text and text:find('%S') and text or nil
  either(function()
    local request, approval = oldest('approvals')
    if approval and approval.mustOpen and vim.startswith(kind, 'allow') then
      client.notify('this is too long to approve from its summary; review it here')
      require('roo.review').open(request, approval)
    elseif approval then
      require('roo.review').respond(approval, kind, { text = text })
    end
  end, function()
    client.execute(command, text)
  end)
end

--- Allows once what needs permission.
---@param text? string What the model is told with it.
function M.approve(text)
  decide('allow_once', 'roo.approve', text)
end

--- Refuses once what needs permission.
---@param text? string
function M.deny(text)
  decide('reject_once', 'roo.deny', text)
end

---@param method string
---@param command string
local function steer(method, command)
  either(function()
    with_request(function(request)
      client.request_in(request.folder, method, { taskId = request.root })
    end)
  end, function()
    client.execute(command)
  end)
end

--- Cancels the whole request.
function M.cancel()
  steer('roo/task/cancel', 'roo.cancel')
end

--- Goes on with a request that was interrupted, cancelled or failed.
function M.resume()
  steer('roo/task/resume', 'roo.resume')
end

--- Shortens the conversation of the task by a summary that a model writes.
function M.condense()
  either(function()
    with_request(function(request)
      client.request_in(request.folder, 'roo/context/condense', { taskId = M.task_here(request) })
    end)
  end, function()
    client.execute('roo.send', '/condense')
  end)
end

--- Says how much of the model's window the task takes, and lets the user undo what was shortened.
function M.context()
  either(function()
    with_request(function(request)
      require('roo.context').show(request, M.task_here(request))
    end)
  end, function()
    client.execute('roo.status')
  end)
end

--- Lets the user go back to an earlier state of files and conversation.
function M.checkpoints()
  either(function()
    with_request(function(request)
      require('roo.checkpoints').show(request)
    end)
  end, function()
    client.execute('roo.openTask')
  end)
end

--- Lets the user rewrite the message that the cursor is on, and go on from there.
function M.edit()
  either(function()
    local task_buffer = require('roo.task_buffer')
    local buffer, line = vim.api.nvim_get_current_buf(), vim.api.nvim_win_get_cursor(0)[1]
    local request = task_buffer.request_of(buffer)
    local block = request and task_buffer.block_at(buffer, line)
    local message = block and block.task.id == request.root and request:message_of(block)
    if message then
      require('roo.checkpoints').edit(request, message)
    else
      client.notify('put the cursor on a message of yours, in the window of its task', vim.log.levels.WARN)
    end
  end, function()
    client.execute('roo.openTask')
  end)
end

--- Sends the command that runs to the background: the task goes on without it.
function M.background()
  steer('roo/command/background', 'roo.backgroundCommand')
end

--- Stops a command in the background; lets the user choose when none is named.
---@param id? string
function M.stop(id)
  either(function()
    with_request(function(request)
      if id and id ~= '' then
        client.request_in(request.folder, 'roo/command/stop', { taskId = request.root, commandId = id })
        return
      end
      local ids = vim.tbl_keys(request.commands)
      if #ids == 0 then
        client.notify('no command of this request runs in the background')
        return
      end
      table.sort(ids)
      ask.select(ids, {
        prompt = 'Stop',
        kind = 'roo_command',
        format_item = function(item)
          return ('%s  %s'):format(item, request.commands[item])
        end,
      }, function(item)
        if item then
          M.stop(item)
        end
      end)
    end)
  end, function()
    client.execute('roo.stopCommand', id)
  end)
end

--- Switches the mode of the request; lets the user choose when none is named.
---@param mode? string
function M.mode(mode)
  either(function()
    with_request(function(request)
      if mode and mode ~= '' then
        client.request_in(request.folder, 'roo/mode/switch', { taskId = request.root, mode = mode })
        return
      end
      client.request_in(request.folder, 'roo/mode/list', vim.empty_dict(), function(result)
        ask.select(result.modes, {
          prompt = 'Mode',
          kind = 'roo_mode',
          format_item = function(item)
            return ('%s %s'):format(item.emoji, item.name)
          end,
        }, function(item)
          if item then
            M.mode(item.slug)
          end
        end)
      end)
    end)
  end, function()
    client.execute('roo.switchMode', mode)
  end)
end

--- Goes on with another model profile; lets the user choose when none is named.
---@param profile? string
function M.profile(profile)
  either(function()
    with_request(function(request)
      if profile and profile ~= '' then
        client.request_in(request.folder, 'roo/profile/select', { taskId = request.root, profile = profile })
        return
      end
      client.request_in(request.folder, 'roo/profile/list', vim.empty_dict(), function(result)
        ask.select(result.profiles, {
          prompt = 'Profile',
          kind = 'roo_profile',
          format_item = function(item)
            return ('%s (%s %s)'):format(item.name, item.provider, item.model or '')
          end,
        }, function(item)
          if item then
            M.profile(item.name)
          end
        end)
      end)
    end)
  end, function()
    client.execute('roo.selectProfile', profile)
  end)
end

--- Says what the workspace brings to steer agents, and lets the user trust it.
function M.trust()
  either(function(found)
    require('roo.trust').ask(found.root_dir)
  end, function()
    client.execute('roo.trustWorkspace')
  end)
end

--- Lists the MCP servers.
function M.mcp()
  either(function(found)
    require('roo.mcp').show(found.root_dir)
  end, function()
    client.notify('plain LSP has no list of MCP servers; run roo-lsp mcp list', vim.log.levels.WARN)
  end)
end

--- Says what runs and what waits.
function M.status()
  client.execute('roo.status', nil, function(result)
    -- A plain client is told by a message of the server.
    local found = client.get()
    if found and client.is_typed(found) and result then
      client.notify(result.text)
    end
  end)
end

--- Starts the server again.
function M.restart()
  client.restart()
end

--- For 'statusline': `%{%v:lua.require'roo'.statusline()%}`.
---@return string
function M.statusline()
  return require('roo.statusline').text()
end

return M
