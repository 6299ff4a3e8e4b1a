"""An RTSP server that plays H.264 files without encoding anything anew, for measuring what cameras cost.

Usage: /usr/bin/python3 file_server.py PORT FILE [FILE ...]; each FILE is an MP4, played in real time as
rtsp://127.0.0.1:PORT/1, /2, ... from its start whenever the first client comes; prints "ready".
It needs Debian's GstRtspServer, and so the system's own Python.
"""

import sys

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402 - versions must be named first

LAUNCH = '( filesrc location="{path}" ! qtdemux ! h264parse ! rtph264pay name=pay0 pt=96 config-interval=1 )'


def main(port: str, *paths: str) -> None:
    """Serve until killed."""
    Gst.init(None)
    server = GstRtspServer.RTSPServer()
    server.set_address("127.0.0.1")
    server.set_service(port)
    for number, path in enumerate(paths, start=1):
        factory = GstRtspServer.RTSPMediaFactory()
        factory.set_launch(LAUNCH.format(path=path))
        factory.set_shared(True)
        server.get_mount_points().add_factory(f"/{number}", factory)
    if server.attach(None) == 0:
        sys.exit(f"port {port} is taken")
    print("ready", flush=True)
    GLib.MainLoop().run()


if __name__ == "__main__":
    main(*sys.argv[1:])
