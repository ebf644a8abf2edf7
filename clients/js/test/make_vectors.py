#!/usr/bin/env python3
"""Writes vectors.json: a third implementation of docs/fingerprint.md, by other means than the two that are tested with it.

Run it after a change of the definition or of the cases, and read the difference: it is what clients have to change.
"""

import hashlib
import json
import pathlib
import re
import urllib.parse

UNRESERVED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
BLANK = b" \t\n\f\r"
PARAMETER = re.compile(
    rb'[ \t\n\f\r]*([A-Za-z0-9!#$%&\'*+\-.^_`|~]+)[ \t\n\f\r]*='
    rb'(?:"((?:[^"\\]|\\.)*)"[ \t\n\f\r]*|([^";\\]*))(?:;|$)',
    re.DOTALL,
)


def n(value):
    value = value.encode() if isinstance(value, str) else value
    return b"%d:%s," % (len(value), value)


def sha(value):
    return hashlib.sha256(value).hexdigest().encode()


def normal_path(path):
    def segment(raw):
        plain = re.sub(b"%[0-9A-Fa-f]{2}", lambda m: _escaped(int(m[0][1:], 16)), raw)
        return urllib.parse.quote_from_bytes(plain, safe="!$&'()*+,;=:@%~")

    def _escaped(value):
        return chr(value).encode() if chr(value) in UNRESERVED else b"%%%02X" % value

    if path == b"*":
        return "*"
    kept = []
    for part in [segment(raw) for raw in path.split(b"/") if raw]:
        if part == "..":
            kept = kept[:-1]
        elif part != ".":
            kept.append(part)
    return "/" + "/".join(kept)


def pairs(text):
    framed = []
    for piece in filter(None, text.split(b"&")):
        name, equals, value = piece.partition(b"=")
        mark = "%" if re.search(b"%(?![0-9A-Fa-f]{2})", piece) else ""
        if not mark:
            name, value = (urllib.parse.unquote_to_bytes(part.replace(b"+", b" ")) for part in (name, value))
        framed.append((name, n(n(mark) + n(name) + (n(value) if equals else b""))))
    return b"".join(text for _, text in sorted(framed, key=lambda pair: pair[0]))


class NotJson(Exception):
    pass


class Digits(str):
    """A number as it was spelled."""


def canonical_json(body):
    def unique(members):
        if len({name for name, _ in members}) < len(members):
            raise NotJson
        return dict(members)

    def refuse(_):
        raise NotJson

    try:
        value = json.loads(
            body.decode("utf-8"), object_pairs_hook=unique, parse_int=Digits, parse_float=Digits, parse_constant=refuse
        )
        return spelled(value, 0)
    except (ValueError, NotJson, RecursionError):
        return None


def spelled(value, depth):
    if isinstance(value, (dict, list)) and depth == 64:
        raise NotJson
    if isinstance(value, Digits):
        return number(value)
    if isinstance(value, str):
        return literal(value)
    if isinstance(value, list):
        return b"[" + b",".join(spelled(item, depth + 1) for item in value) + b"]"
    if isinstance(value, dict):
        members = sorted((literal(name), spelled(item, depth + 1)) for name, item in value.items())
        return b"{" + b",".join(name + b":" + item for name, item in members) + b"}"
    return {None: b"null", True: b"true", False: b"false"}[value]


def literal(text):
    return json.dumps(text, ensure_ascii=False).encode("utf-8")


def number(text):
    sign, whole, fraction, power = re.fullmatch(r"(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?", text).groups("")
    digits = (whole + fraction).rstrip("0")
    if not digits:
        return b"0"
    exponent = int(power or 0) - len(fraction) + len(whole + fraction) - len(digits)
    if len(str(abs(exponent))) > 36:
        raise NotJson
    return (sign + digits.lstrip("0") + (f"e{exponent}" if exponent else "")).encode()


def parameters(value):
    essence, _, rest = value.partition(b";")
    found = {}
    while rest.strip(BLANK):
        match = PARAMETER.match(rest)
        if not match or match[1].lower() in found or len(found) == 16:
            return None
        found[match[1].lower()] = match[2] if match[2] is not None else match[3].strip(BLANK)
        rest = rest[match.end() :]
    return essence.strip(BLANK).lower(), found


def multipart(body, boundary):
    edge = b"--" + boundary
    if not 1 <= len(boundary) <= 70:
        return None
    inner = re.fullmatch(re.escape(edge) + b"(.*?)\r\n" + re.escape(edge) + b"--(?:\r\n)?", body, re.DOTALL)
    if body in (edge + b"--", edge + b"--\r\n"):
        return b""
    if not inner:
        return None
    framed = []
    for part in inner[1].split(b"\r\n" + edge):
        opened = re.match(b"[ \t]*\r\n", part)
        if not opened or part[opened.end() :].startswith(edge):
            return None
        head, end, content = part[opened.end() :].partition(b"\r\n\r\n")
        read = read_head(head) if end else None
        if read is None:
            return None
        framed.append((read[0], n(read[1] + n(sha(content)))))
    return b"".join(text for _, text in sorted(framed, key=lambda part: part[0]))


def read_head(head):
    lines = [line.partition(b":") for line in head.split(b"\r\n")]
    if not all(colon for _, colon, _ in lines):
        return None
    fields = [(name.lower(), value.strip(BLANK)) for name, _, value in lines]
    dispositions = [value for name, value in fields if name == b"content-disposition"]
    types = [value for name, value in fields if name == b"content-type"]
    if len(dispositions) != 1 or len(types) > 1:
        return None
    parsed = parameters(dispositions[0])
    if not parsed or parsed[0] != b"form-data" or b"name" not in parsed[1]:
        return None
    others = [field for field in fields if field[0] not in (b"content-disposition", b"content-type")]
    framed = n(b"".join(n(name) + n(value) for name, value in sorted(parsed[1].items())))
    framed += n(b"".join(map(n, types))) + n(b"".join(n(name) + n(value) for name, value in others))
    return parsed[1][b"name"], framed


def read_body(kind, content_type, coding, body):
    if not coding:
        if kind in (b"application/json", b"text/json") or kind.endswith(b"+json"):
            text = canonical_json(body)
            if text is not None:
                return "json", text
        if kind == b"application/x-www-form-urlencoded":
            return "form", pairs(body)
        boundary = (parameters(content_type) or (b"", {}))[1].get(b"boundary")
        if kind == b"multipart/form-data" and boundary is not None:
            parts = multipart(body, boundary)
            return ("multipart", parts) if parts is not None else ("broken-multipart", n(boundary) + n(sha(body)))
    return "raw", sha(body)


def preimage(case):
    path, _, query = case["target"].encode().partition(b"?")
    content_type = case.get("contentType", "").encode()
    kind = content_type.partition(b";")[0].strip(BLANK).lower()
    coding = case.get("contentEncoding", "").strip().lower()
    coding = "" if coding == "identity" else coding
    body = bytes.fromhex(case["bodyHex"]) if "bodyHex" in case else case["body"].encode()
    form, text = read_body(kind, content_type, coding, body)
    parts = [
        "oncegate-client-1", case["method"].upper(), normal_path(path), pairs(query), kind, coding, form, text,
        case["timestamp"],
    ]
    return b"".join(map(n, parts))


def main():
    here = pathlib.Path(__file__).parent
    cases = json.loads((here / "cases.json").read_text("utf-8"))
    vectors = []
    for given in cases:
        case = {"method": "POST", "target": "/orders", "body": "", "timestamp": "1732924800000", **given}
        if "bodyHex" in case:
            del case["body"]
        image = preimage(case)
        try:
            case["preimage"] = image.decode("utf-8")
        except UnicodeDecodeError:
            case["preimageHex"] = image.hex()
        vectors.append({**case, "fingerprint": sha(image).decode()})
    text = json.dumps(vectors, ensure_ascii=True, indent=1)
    (here / "vectors.json").write_text(text + "\n", "utf-8")
    print(f"{len(vectors)} vectors")


if __name__ == "__main__":
    main()
