"""A real RTSP server for tests: GStreamer's, under the system's Python, in a process of its own.

Usage: /usr/bin/python3 rtsp_server.py PORT [USER PASSWORD]; serves rtsp://127.0.0.1:PORT/stream, a moving
ball of 320x240 at 30 frames a second, and prints "ready". Beside it lie /bframes, /h265 and, with nothing
that moves, /still and /small, the same in 160x90. Commands on its standard input change a running stream:

    caps WIDTH HEIGHT RATE      the encoder goes on with pictures of another size or rate
    codec h265|h264             /stream is served anew in the other codec; who watches is cut off
    move                        the still pictures show the ball from now on
    rest                        and nothing that moves again
    play FILE [NAME]            /film, or /NAME, is an H.264 file, from its start whenever its first watcher
                                comes; nothing is encoded anew
"""

import sys
import threading

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402 - versions must be named first

SOURCE = (
    "( videotestsrc name=picture is-live=true pattern={pattern} ! videorate "
    "! capsfilter name=caps caps=video/x-raw,{size},framerate=30/1 ! "
)
X264 = "x264enc {tune} speed-preset=ultrafast key-int-max=15 bitrate=400 threads=1 ! rtph264pay"
X265 = "x265enc tune=zerolatency speed-preset=ultrafast key-int-max=15 bitrate=400 ! rtph265pay"
PAY = " name=pay0 pt=96 config-interval=1 )"
SIZE, SMALL = "width=320,height=240", "width=160,height=90"
LAUNCHES = {
    "h264": SOURCE.format(pattern="ball", size=SIZE) + X264.format(tune="tune=zerolatency") + PAY,
    "bframes": SOURCE.format(pattern="ball", size=SIZE) + X264.format(tune="bframes=2 b-adapt=false") + PAY,
    "still": SOURCE.format(pattern="smpte75", size=SIZE) + X264.format(tune="tune=zerolatency") + PAY,
    "small": SOURCE.format(pattern="smpte75", size=SMALL) + X264.format(tune="tune=zerolatency") + PAY,
    "h265": SOURCE.format(pattern="ball", size=SIZE) + X265 + PAY,
}
FILM = "( filesrc location={path} ! qtdemux ! h264parse ! rtph264pay" + PAY
MOUNTS = {"/stream": "h264", "/bframes": "bframes", "/still": "still", "/small": "small", "/h265": "h265"}


class Shared(GstRtspServer.RTSPMediaFactory):
    """One encoder for all who watch, also for those who come by a relay, whose URL names another port."""

    def do_gen_key(self, url):
        return url.abspath


class Server:
    """The server, its mounts and what is served at the moment."""

    def __init__(self, port, credentials):
        self.server = GstRtspServer.RTSPServer()
        self.server.set_address("127.0.0.1")
        self.server.set_service(port)
        self.guarded = bool(credentials)
        if credentials:
            self.server.set_auth(guard(*credentials))
        self.elements = []
        for path, launch in MOUNTS.items():
            self.mount(path, launch)
        if self.server.attach(None) == 0:
            sys.exit(f"port {port} is taken")

    def mount(self, path, launch):
        factory = Shared()
        factory.set_launch(LAUNCHES[launch])
        factory.set_shared(True)
        factory.connect("media-configure", self.configure)
        if self.guarded:
            permissions = GstRtspServer.RTSPPermissions()
            permissions.add_permission_for_role("viewer", "media.factory.access", True)
            permissions.add_permission_for_role("viewer", "media.factory.construct", True)
            factory.set_permissions(permissions)
        self.server.get_mount_points().add_factory(path, factory)

    def configure(self, _, media):
        self.elements.append(media.get_element())
        media.connect("prepared", report_often)

    def obey(self, line):
        """Carry out one command; called in the main loop."""
        match line.split():
            case ["caps", width, height, rate]:
                caps = f"video/x-raw,width={width},height={height},framerate={rate}/1"
                for element in self.elements:
                    element.get_by_name("caps").set_property("caps", Gst.Caps.from_string(caps))
            case ["codec", codec]:
                self.mount("/stream", codec)
                self.server.client_filter(lambda *_: GstRtspServer.RTSPFilterResult.REMOVE)
            case ["play", path, *names]:
                LAUNCHES[path] = FILM.format(path=path)
                self.mount(f"/{(names or ['film'])[0]}", path)
            case ["move"]:
                self.show("ball")
            case ["rest"]:
                self.show("smpte75")
        print("done", flush=True)  # noqa: T201 - the test waits for this line
        return False

    def show(self, pattern):
        for element in self.elements:
            element.get_by_name("picture").set_property("pattern", pattern)


def report_often(media):
    """Sender reports, by which the camera's clock is told, every quarter of a second and not every five."""
    for number in range(media.n_streams()):
        media.get_stream(number).get_rtpsession().set_property("rtcp-min-interval", Gst.SECOND // 4)


def guard(user, password):
    auth = GstRtspServer.RTSPAuth()
    token = GstRtspServer.RTSPToken()
    token.set_string(GstRtspServer.RTSP_TOKEN_MEDIA_FACTORY_ROLE, "viewer")
    auth.add_basic(GstRtspServer.RTSPAuth.make_basic(user, password), token)
    return auth


def listen(server):
    for line in sys.stdin:
        GLib.idle_add(server.obey, line)


def main(port, *credentials):
    Gst.init(None)
    server = Server(port, credentials)
    threading.Thread(target=listen, args=(server,), daemon=True).start()
    print("ready", flush=True)  # noqa: T201 - the test waits for this line
    GLib.MainLoop().run()


if __name__ == "__main__":
    main(*sys.argv[1:])
