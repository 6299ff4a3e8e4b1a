"""A real RTSP server for tests: GStreamer's, under the system's Python, in a process of its own.

Usage: /usr/bin/python3 rtsp_server.py PORT [USER PASSWORD]; serves rtsp://127.0.0.1:PORT/stream, a moving
ball of 320x240 at 15 frames a second, and prints "ready".
"""

import sys

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402 - versions must be named first

LAUNCH = (
    "( videotestsrc is-live=true pattern=ball ! video/x-raw,width=320,height=240,framerate=15/1 "
    "! x264enc tune=zerolatency speed-preset=ultrafast key-int-max=15 bitrate=400 threads=1 "
    "! rtph264pay name=pay0 pt=96 config-interval=1 )"
)


def guard(server, user, password):
    auth = GstRtspServer.RTSPAuth()
    token = GstRtspServer.RTSPToken()
    token.set_string(GstRtspServer.RTSP_TOKEN_MEDIA_FACTORY_ROLE, "viewer")
    auth.add_basic(GstRtspServer.RTSPAuth.make_basic(user, password), token)
    server.set_auth(auth)


def main(port, *credentials):
    Gst.init(None)
    server = GstRtspServer.RTSPServer()
    server.set_address("127.0.0.1")
    server.set_service(port)
    factory = GstRtspServer.RTSPMediaFactory()
    factory.set_launch(LAUNCH)
    factory.set_shared(True)
    if credentials:
        guard(server, *credentials)
        permissions = GstRtspServer.RTSPPermissions()
        permissions.add_permission_for_role("viewer", "media.factory.access", True)
        permissions.add_permission_for_role("viewer", "media.factory.construct", True)
        factory.set_permissions(permissions)
    server.get_mount_points().add_factory("/stream", factory)
    if server.attach(None) == 0:
        sys.exit(f"port {port} is taken")
    print("ready", flush=True)  # noqa: T201 - the test waits for this line
    GLib.MainLoop().run()


if __name__ == "__main__":
    main(*sys.argv[1:])
