-- Requests whose events have ended: the client attaches again, less and less often; without a server.

local harness = require('harness')
local client = require('roo.client')
local requests = require('roo.requests')
local case, equal = harness.case, harness.equal

--- What the client has asked for, by the numbers behind which it attaches, and what the user was told.
local attached, told
--- Answers the client: with a result, or with nothing and an error.
local answer
--- The pause that has begun last.
local due

client.request_in = function(_, method, params, on_result, on_error)
  if method ~= 'roo/task/attach' then
    return
  end
  table.insert(attached, params.afterSeq)
  local result, problem = answer()
  if result then
    on_result(result)
  else
    on_error(problem)
  end
end
client.notify = function(text)
  table.insert(told, text)
end
vim.defer_fn = function(run, length)
  due = { run = run, length = length }
end

--- A request of which the client knows the first event.
local function begin(root)
  attached, told, due = {}, {}, nil
  answer = function()
    return { seq = 1 }
  end
  requests.on_event({
    rootId = root,
    taskId = root,
    seq = 1,
    event = { type = 'task.created', urid = root, mode = 'code', title = 'Go' },
  })
end

local function ends(root)
  local event = { type = 'server.degraded', reason = "it can't be read", ['until'] = 'attached' }
  requests.on_event({ rootId = root, taskId = root, event = event })
end

--- Lets the pause pass that has begun; its length.
local function pass()
  local passed = due
  due = nil
  passed.run()
  return passed.length
end

case('each pause is longer than the one before, until an event comes', function()
  begin('a')
  ends('a')
  equal({ attached, told }, { {}, { "it can't be read" } }, 'nothing at once')
  local lengths = { pass() }
  for _ = 1, 2 do
    ends('a')
    table.insert(lengths, pass())
  end
  answer = function()
    return nil, { message = 'not now' }
  end
  ends('a')
  for _ = 1, 4 do
    table.insert(lengths, pass())
  end
  equal(lengths, { 500, 1000, 2000, 5000, 15000, 60000, 60000 })
  equal(told, { "it can't be read" }, 'it is told once')
  answer = function()
    return { seq = 2 }
  end
  pass()
  equal(due, nil, 'nothing is tried where events come')
  requests.on_event({
    rootId = 'a',
    taskId = 'a',
    seq = 2,
    event = { type = 'message', message = { id = 'm1', say = 'text', text = 'On.' } },
  })
  ends('a')
  equal(pass(), 500)
  equal(attached[#attached], 2, 'behind the newest event')
end)

case('a request that was attached to meanwhile is left alone', function()
  begin('b')
  ends('b')
  requests.attach(requests.get('b'))
  pass()
  equal(#attached, 1)
end)

case('a request that is gone is not attached to again', function()
  begin('c')
  answer = function()
    return nil, { message = 'there is no such task', data = { kind = 'notFound' } }
  end
  ends('c')
  pass()
  equal(due, nil)
  equal(told[#told], "can't follow Go: there is no such task")
end)

case('the end of a problem is told, and is no request', function()
  begin('d')
  requests.on_event({ rootId = 'd', taskId = 'd', event = { type = 'server.degraded', reason = 'full', ['until'] = 'recovered' } })
  requests.on_event({ rootId = 'other', taskId = 'other', event = { type = 'server.recovered' } })
  equal(told, { 'full', 'the server works with full function again' })
  equal({ due, requests.get('other') }, {})
end)

harness.run()
