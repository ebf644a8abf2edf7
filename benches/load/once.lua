-- The bench's peer: what people write into nginx to let a key through once, over Redis. It keeps no lease, knows no
-- doubt, and forgets to whom a key belongs.
local redis = require "nginx.redis"
local key = ngx.req.get_headers()["Idempotency-Key"]
if not key then return ngx.exit(400) end
ngx.req.read_body()
local print = ngx.sha1_bin(ngx.req.get_method() .. ngx.var.request_uri .. (ngx.req.get_body_data() or ""))
local name = "once:" .. key
local store = redis:new()
store:set_timeout(1000)
if not store:connect("127.0.0.1", ngx.var.redis) then return ngx.exit(503) end
local known, failed = store:set(name, "0" .. print, "NX", "GET", "PX", 3600000)
if failed then return ngx.exit(503) end
if known ~= ngx.null then
    store:set_keepalive(60000, 128)
    if known:sub(2, 21) ~= print then return ngx.exit(422) end
    if known:sub(1, 1) == "0" then
        ngx.status = 409
        ngx.header["Content-Type"] = "application/problem+json"
        ngx.print('{"code":"request-in-flight"}')
        return
    end
    local status, kind, place, body = known:match("^(%d+)\n([^\n]*)\n([^\n]*)\n(.*)$", 22)
    ngx.status = tonumber(status)
    ngx.header["Content-Type"] = kind
    ngx.header["Location"] = place ~= "" and place or nil
    ngx.header["Idempotent-Replayed"] = "true"
    ngx.header["Content-Length"] = #body
    ngx.print(body)
    return
end
local answer = ngx.location.capture("/upstream" .. ngx.var.request_uri,
    { method = ngx.HTTP_POST, always_forward_body = true })
local kind, place = answer.header["Content-Type"] or "", answer.header["Location"] or ""
local record = "1" .. print .. answer.status .. "\n" .. kind .. "\n" .. place .. "\n" .. answer.body
store:set(name, record, "XX", "PX", 3600000)
store:set_keepalive(60000, 128)
ngx.status = answer.status
ngx.header["Content-Type"] = kind
ngx.header["Location"] = place
ngx.header["Content-Length"] = #answer.body
ngx.print(answer.body)
