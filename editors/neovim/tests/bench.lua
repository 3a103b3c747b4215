-- The measurements of `editors/neovim/bench`.

local harness = require('harness')
local client = require('roo.client')
local requests = require('roo.requests')

local STARTS, ASKS, STREAMS, SECONDS = 100, 1000, 20, 8

---@param name string
---@param values number[] In nanoseconds.
local function report(name, values)
  table.sort(values)
  local function at(part)
    return values[math.max(1, math.ceil(#values * part))] / 1e6
  end
  local line = ('%-58s p50 %7.3f ms   p99 %7.3f ms   max %7.3f ms   n %d\n')
  io.stdout:write(line:format(name, at(0.5), at(0.99), values[#values] / 1e6, #values))
end

--- From the key to the answer of `roo/task/start`.
local function measure_starts(name)
  local answered
  local original = client.request
  client.request = function(method, params, on_result, on_error)
    return original(method, params, function(result)
      if method == 'roo/task/start' then
        answered = vim.uv.hrtime()
      end
      if on_result then
        on_result(result)
      end
    end, on_error)
  end
  vim.keymap.set('n', 'gs', '<Cmd>Roo new --mode=ask Hello<CR>')
  local values = {}
  for _ = 1, STARTS do
    vim.cmd.buffer(vim.fn.bufnr('hello.sh'))
    answered = nil
    local pressed = vim.uv.hrtime()
    vim.api.nvim_feedkeys('gs', 'xt', false)
    harness.wait('the answer', function()
      return answered
    end)
    table.insert(values, answered - pressed)
  end
  client.request = original
  report(name, values)
end

--- A request that needs no model, and its answer.
local function measure_requests(name)
  local values = {}
  local found = client.get()
  for _ = 1, ASKS do
    local answered
    local asked = vim.uv.hrtime()
    found:request('roo/profile/list', vim.empty_dict(), function()
      answered = vim.uv.hrtime()
    end)
    vim.wait(5000, function()
      return answered
    end, 1)
    table.insert(values, answered - asked)
  end
  report(name, values)
end

local ok, problem = xpcall(function()
  vim.cmd.edit('hello.sh')
  harness.wait('the client', function()
    local found = client.get()
    return found and found.initialized and client.is_typed(found)
  end)
  -- Without windows that pile up, as `open` makes them.
  vim.g.roo = { open = false, notify = false }
  measure_requests('request (roo/profile/list), idle')
  measure_starts('key press to answer of roo/task/start, idle')

  local started = {}
  for _ = 1, STREAMS do
    client.request('roo/task/start', { prompt = 'Stream', mode = 'code' }, function(result)
      local request = requests.know(result.taskId)
      require('roo.task_buffer').buffer(request)
      table.insert(started, request)
    end)
  end
  harness.wait('all streams', function()
    return #started == STREAMS
  end)
  require('roo.task_buffer').show(started[1], false)

  -- The client's part, and the whole way by the clocks of both (the server's has milliseconds).
  local handled, whole, bytes = {}, {}, 0
  local original = requests.on_event
  requests.on_event = function(params)
    local began = vim.uv.hrtime()
    original(params)
    local ended = vim.uv.hrtime()
    if params.event.type == 'message.delta' then
      table.insert(handled, ended - began)
      local seconds, micros = vim.uv.gettimeofday()
      table.insert(whole, math.max(0, (seconds * 1e3 + micros / 1e3 - params.at) * 1e6))
      bytes = bytes + #params.event.text
    end
  end
  vim.wait(SECONDS * 1000, function()
    return false
  end, 5)
  report(('event handler to text in the buffer, %d tasks stream'):format(STREAMS), handled)
  report(('server sends to text in the buffer, %d tasks stream'):format(STREAMS), whole)
  measure_requests(('request (roo/profile/list), %d tasks stream'):format(STREAMS))
  measure_starts(('key press to answer of roo/task/start, %d tasks stream'):format(STREAMS))
  for _, request in ipairs(started) do
    local lines = vim.api.nvim_buf_get_lines(require('roo.task_buffer').buffer(request), 0, -1, false)
    harness.equal(lines, request:text(), 'buffer and model differ')
    client.request('roo/task/cancel', { taskId = request.root })
  end
  harness.wait('the end of all streams', function()
    for _, request in ipairs(started) do
      if request.state ~= 'cancelled' then
        return nil
      end
    end
    return true
  end)
end, debug.traceback)
if not ok then
  io.stdout:write(problem .. '\n')
end
vim.cmd('cquit ' .. (ok and 0 or 1))
