-- Clients of a translation server, for wrk (https://github.com/wg/wrk); run.py starts it, with one thread.
--
-- Each connection asks for one text after another. Environment: LOAD_BODIES, a file with the body of a request in each
-- line, of which they are drawn; LOAD_PAUSE, milliseconds between an answer and the next request on the average, none
-- where it is missing; LOAD_OUTPUT, a file that is written at the end: the seconds, what became of the requests
-- (answered, refused by 429 or 503, failed), and milliseconds by percentile, of all requests that had an answer.

local threads = {}

function setup(thread)
  threads[#threads + 1] = thread
end

function init()
  math.randomseed(1)
  requests = {}
  local headers = {["Content-Type"] = "application/json", ["Accept"] = "application/json"}
  for body in io.lines(os.getenv("LOAD_BODIES")) do
    requests[#requests + 1] = wrk.format("POST", "/translate", headers, body)
  end
  answered, refused, failed = 0, 0, 0
end

function request()
  return requests[math.random(#requests)]
end

local pause = tonumber(os.getenv("LOAD_PAUSE"))
if pause then
  -- By chance, or clients that were refused together would come back together.
  function delay()
    return 2 * pause * math.random()
  end
end

function response(status, headers, body)
  if status == 200 and body:find('"translatedText":%s*"[^"]') then
    answered = answered + 1
  elseif status == 429 or status == 503 then
    refused = refused + 1
  else
    failed = failed + 1
  end
end

function done(summary, latency)
  local thread, errors = threads[1], summary.errors
  local lost = errors.connect + errors.read + errors.write + errors.timeout
  local file = assert(io.open(os.getenv("LOAD_OUTPUT"), "w"))
  file:write(string.format(
    '{"seconds": %f, "answered": %d, "refused": %d, "failed": %d, "p50": %f, "p95": %f, "p99": %f, "longest": %f}\n',
    summary.duration / 1e6, thread:get("answered"), thread:get("refused"), thread:get("failed") + lost,
    latency:percentile(50) / 1e3, latency:percentile(95) / 1e3, latency:percentile(99) / 1e3, latency.max / 1e3))
  file:close()
end
