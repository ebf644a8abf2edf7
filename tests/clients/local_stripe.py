"""Serves localstripe on 127.0.0.1, with its data in memory only.

    local_stripe.py PORT

Its own command listens on all interfaces and writes to one fixed file, which all of its processes share.
"""

import sys

from aiohttp import web
from localstripe import resources, server

resources.Store.dump_to_disk = lambda store: None
web.run_app(server.app, host="127.0.0.1", port=int(sys.argv[1]), print=None)
